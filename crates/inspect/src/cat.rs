//! `cat`: files to a stream.

use std::io::{self, Write};

use posix::FileType;

use crate::contents::{self, Sink};
use crate::error::{InspectError, Result};
use crate::keys::KeyRing;
use crate::place;
use crate::problems::Problems;
use crate::view::LastLink;

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Writes the named files to `out`, one after the other. Bytes that cannot be read are zeros, so
/// that the others stay where they were. Keys of encrypted file systems are asked of `keys`.
///
/// # Errors
/// The words make no sense, or `out` takes nothing more.
pub fn cat(words: &[String], keys: &KeyRing, out: &mut dyn Write) -> Result<Problems> {
    let mut problems = Problems::default();
    place::for_each(
        (words, keys),
        LastLink::Follow,
        &mut problems,
        &mut |named, problems| {
            let file = &named.attributes;
            match file.file_type {
                FileType::Regular => {}
                FileType::Directory => {
                    problems.note(named.view.path(&named.path), "is a directory");
                    return Ok(());
                }
                FileType::Fifo
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Symlink
                | FileType::Socket => {
                    problems.note(named.view.path(&named.path), "is not a file");
                    return Ok(());
                }
            }
            let mut stream = Stream { out, position: 0 };
            contents::read(&named.view, file, &named.path, problems, &mut stream)
                .and_then(|()| stream.fill(file.size))
                .and_then(|()| stream.out.flush())
                .map_err(InspectError::Output)
        },
    )?;
    Ok(problems)
}

struct Stream<'a> {
    out: &'a mut dyn Write,
    position: u64,
}

impl Stream<'_> {
    /// Zeros up to an offset.
    fn fill(&mut self, offset: u64) -> io::Result<()> {
        while self.position < offset {
            let length = (offset - self.position).min(ZEROS.len() as u64);
            self.out.write_all(&ZEROS[..length as usize])?;
            self.position += length;
        }
        Ok(())
    }
}

impl Sink for Stream<'_> {
    fn data(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.fill(offset)?;
        self.out.write_all(bytes)?;
        self.position += bytes.len() as u64;
        Ok(())
    }
}
