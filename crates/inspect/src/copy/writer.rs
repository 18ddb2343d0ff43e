//! A file in the destination: only data is written, holes stay holes.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

use super::progress::Progress;
use crate::contents::Sink;

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
