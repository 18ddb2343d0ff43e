//! What `ps` shows of a process in the place of its command line.

use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;

/// The memory in which the command line of this process lies, by `/proc`.
#[derive(Debug)]
pub struct ProcessTitle {
    memory: File,
    start: u64,
    room: usize,
}

/// Fields of `/proc/self/stat` behind the name, from 0: where the arguments begin, and where they end.
///
/// Source: proc_pid_stat(5).
const ARGUMENTS_START: usize = 45;
const ARGUMENTS_END: usize = 46;

impl ProcessTitle {
    /// For the command line of this process. Whoever reads the arguments afterwards reads the title.
    ///
    /// # Errors
    /// There is no `/proc`, or it does not say.
    pub fn new() -> io::Result<Self> {
        let stat = std::fs::read_to_string("/proc/self/stat")?;
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let field = |index| {
            let text = fields.split_whitespace().nth(index);
            text.and_then(|text| text.parse::<u64>().ok())
        };
        let range = field(ARGUMENTS_START).zip(field(ARGUMENTS_END));
        let (start, end) = range.ok_or_else(|| io::Error::from(Errno::NOSYS))?;
        let room = usize::try_from(end.saturating_sub(start)).unwrap_or(0);
        Ok(Self {
            memory: OpenOptions::new().write(true).open("/proc/self/mem")?,
            start,
            room,
        })
    }

    /// Shows a text, as far as the command line had room for it. The last byte stays what ends the last argument: so
    /// arguments have an end whenever they are read, and the kernel looks for no title beyond them.
    ///
    /// # Errors
    /// The memory cannot be written.
    pub fn set(&self, title: &str) -> io::Result<()> {
        let room = self.room.saturating_sub(1);
        let mut end = room.min(title.len());
        while !title.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = vec![0; room];
        bytes[..end].copy_from_slice(&title.as_bytes()[..end]);
        self.memory.write_all_at(&bytes, self.start)
    }
}

#[cfg(test)]
mod tests;
