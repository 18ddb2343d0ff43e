//! A file in the destination: only data is written, holes stay holes; and it is there whole, or not at all.

use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;

use super::progress::Progress;
use crate::contents::Sink;

/// More names for files that are not whole are not tried.
const NAMES_MAX: u32 = 1000;

/// Makes a file of an open folder. With `force` it replaces what is there, once `fill` has filled it; what was made of
/// one that cannot be filled is removed.
pub(super) fn make(
    folder: BorrowedFd<'_>,
    name: &[u8],
    force: bool,
    fill: impl FnOnce(OwnedFd) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = |name: &[u8]| rustix::fs::openat(folder, name, flags, Mode::RUSR | Mode::WUSR);
    let (file, made) = match open(name) {
        Err(Errno::EXIST) if force => {
            let names = (0..NAMES_MAX)
                .map(|number| format!(".millpond-cp-{}-{number}", std::process::id()).into_bytes());
            let opened = names.map(|name| (open(&name), name));
            let mut opened = opened.skip_while(|(opened, _)| matches!(opened, Err(Errno::EXIST)));
            let (file, made) = opened.next().ok_or(Errno::EXIST)?;
            (file?, made)
        }
        opened => (opened?, name.to_vec()),
    };
    let filled = fill(file).and_then(|()| match made == name {
        true => Ok(()),
        false => Ok(rustix::fs::renameat(folder, &made[..], folder, name)?),
    });
    if filled.is_err() {
        // Why it is not there is told.
        let _gone = rustix::fs::unlinkat(folder, &made[..], AtFlags::empty());
    }
    filled
}

pub(super) struct SparseFile<'a> {
    file: File,
    progress: &'a mut Progress,
}

impl<'a> SparseFile<'a> {
    pub(super) fn new(file: OwnedFd, progress: &'a mut Progress) -> Self {
        Self {
            file: file.into(),
            progress,
        }
    }

    /// Gives it its size.
    pub(super) fn finish(self, size: u64) -> io::Result<File> {
        self.file.set_len(size)?;
        Ok(self.file)
    }
}

impl Sink for SparseFile<'_> {
    fn data(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)?;
        self.progress.bytes(bytes.len() as u64);
        Ok(())
    }
}
