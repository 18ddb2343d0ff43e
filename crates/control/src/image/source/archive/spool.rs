//! The bytes of an archive, to be read at any place: a file as it is, or what came through a pipe.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use admin::{Failure, FailureKind};
use base::host_reason;

use crate::image::folder_of;
use crate::image::request::{ImageProgress, Watcher, cannot_make};

/// How much is taken from a pipe at once.
const PIECE: usize = 1 << 20;

pub(super) struct Spool {
    file: File,
    /// Where the archive begins in the file.
    base: u64,
    length: u64,
    start: Vec<u8>,
}

impl Spool {
    /// An archive that is read from here on.
    pub(super) fn of(input: &File, image: &Path, watcher: Watcher<'_>) -> Result<Self, Failure> {
        let mut input = input.try_clone().map_err(unread)?;
        let found = input.metadata().map_err(unread)?;
        let (file, base, length) = match found.is_file() {
            true => {
                let base = input.stream_position().map_err(unread)?;
                (input, base, found.len().saturating_sub(base))
            }
            false => {
                let mut file = nameless(folder_of(image)).map_err(|error| unkept(image, &error))?;
                let length = copy(&mut input, (&mut file, image), watcher)?;
                (file, 0, length)
            }
        };
        let mut spool = Self {
            file,
            base,
            length,
            start: Vec::new(),
        };
        let mut start = vec![0; usize::try_from(length.min(8)).unwrap_or(0)];
        spool.read(&mut start, 0).map_err(unread)?;
        spool.start = start;
        Ok(spool)
    }

    pub(super) const fn length(&self) -> u64 {
        self.length
    }

    /// The first bytes.
    pub(super) fn start(&self) -> &[u8] {
        &self.start
    }

    /// Fills the buffer from a place.
    pub(super) fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        let end = at.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.length) {
            return Err(cut_off());
        }
        let at = self.base.checked_add(at).ok_or_else(cut_off)?;
        self.file.read_exact_at(buffer, at)
    }
}

/// An archive that ends too early.
pub(super) fn cut_off() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it is cut off")
}

/// A file in a folder that goes with whoever has it open.
fn nameless(folder: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::TMPFILE.bits();
    let flags = i32::try_from(flags).map_err(|_| io::Error::from(io::ErrorKind::Unsupported))?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    if let Ok(file) = options.clone().custom_flags(flags).open(folder) {
        return Ok(file);
    }
    // A file system that knows of no such files.
    let path = folder.join(format!(".archive.{}.part", std::process::id()));
    let file = options.create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn unread(error: io::Error) -> Failure {
    let text = format!("cannot read the archive: {}", host_reason(&error));
    Failure::new(FailureKind::Medium, text)
}

fn unkept(image: &Path, error: &io::Error) -> Failure {
    let reason = host_reason(error);
    let failure = cannot_make(
        FailureKind::Medium,
        image,
        format_args!("the archive cannot be kept beside it: {reason}"),
    );
    failure.advise("an archive in a file needs no place: mkimage - IMAGE < ARCHIVE.tar")
}

fn copy(
    input: &mut File,
    (to, image): (&mut File, &Path),
    watcher: Watcher<'_>,
) -> Result<u64, Failure> {
    let mut buffer = vec![0; PIECE];
    let mut length = 0;
    loop {
        let found = match input.read(&mut buffer) {
            Ok(0) => return Ok(length),
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(unread(error)),
        };
        let kept = to.write_all(&buffer[..found]);
        kept.map_err(|error| unkept(image, &error))?;
        length += found as u64;
        watcher(&ImageProgress {
            bytes: length,
            ..ImageProgress::default()
        });
    }
}
