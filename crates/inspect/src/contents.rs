//! A file's bytes, past damage: what cannot be read is left out, and said.

use std::io;
use std::ops::Range;

use base::{Bookmark, ObjectId};
use dmu::DmuError;
use posix::{Attributes, Credentials, OpenFile, OpenOptions, PosixError};

use crate::problems::Problems;
use crate::raw::RawObject;
use crate::view::View;

/// Bytes asked for at once.
const STEP: u64 = 1 << 20;
/// Failures that name no block, after which the rest of a file is given up.
const VAGUE_FAILURES_MAX: u32 = 64;

/// Where bytes go. Ranges that are never given are zeros.
pub(crate) trait Sink {
    /// Takes bytes; offsets only grow.
    fn data(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Reads a whole file into a sink. Unreadable ranges go to `problems`; an error is the sink's.
pub(crate) fn read(
    view: &View,
    file: &Attributes,
    path: &[u8],
    problems: &mut Problems,
    sink: &mut dyn Sink,
) -> io::Result<()> {
    let options = OpenOptions {
        read: true,
        keep_access_time: true,
        ..OpenOptions::default()
    };
    let shown = view.path(path);
    let open = match view.files.open(&Credentials::root(), file.object, options) {
        Ok(open) => open,
        Err(error) => {
            problems.note(shown, error);
            return Ok(());
        }
    };
    let mut reader = Reader {
        open,
        object: file.object,
        size: file.size,
        raw: view.raw.object(file.object).ok(),
        damage: Damage::default(),
    };
    let written = reader.run(sink);
    for (range, error) in reader.damage.ranges {
        let (length, start) = (range.end - range.start, range.start);
        problems.note(
            &shown,
            format_args!("{length} bytes at {start} are lost: {error}"),
        );
    }
    written
}

/// Ranges that cannot be read; neighbours are one.
#[derive(Default)]
struct Damage {
    ranges: Vec<(Range<u64>, String)>,
    vague: u32,
}

impl Damage {
    fn add(&mut self, range: Range<u64>, error: &PosixError) {
        match self.ranges.last_mut() {
            Some((last, _)) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push((range, error.to_string())),
        }
    }
}

struct Reader {
    open: OpenFile,
    object: ObjectId,
    size: u64,
    raw: Option<RawObject>,
    damage: Damage,
}

impl Reader {
    fn run(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let mut offset = 0;
        while offset < self.size {
            match self.open.seek_data(offset) {
                Ok(found) => offset = found.max(offset),
                Err(PosixError::NoSuchOffset) => break,
                Err(error) => {
                    offset = self.skip(offset, &error);
                    continue;
                }
            }
            let hole = self.open.seek_hole(offset);
            // Where the end of the data is not known, it is found step by step.
            let end = hole
                .unwrap_or_else(|_| self.block_end(offset))
                .clamp(offset + 1, self.size);
            offset = self.copy(offset..end, sink)?;
        }
        Ok(())
    }

    /// Hands out a range; returns where it ended, which damage may move.
    fn copy(&mut self, range: Range<u64>, sink: &mut dyn Sink) -> io::Result<u64> {
        let mut offset = range.start;
        while offset < range.end {
            let length = (range.end - offset).min(STEP);
            let mut written = Ok(());
            let read = self
                .open
                .read_with(offset, length as usize, &mut |block, part| {
                    if let (Ok(()), Some(bytes)) = (&written, block.get(part)) {
                        written = sink.data(offset, bytes);
                        offset += bytes.len() as u64;
                    }
                });
            written?;
            match read {
                Ok(0) => return Ok(self.size),
                Ok(_) => {}
                Err(error) => offset = self.skip(offset, &error),
            }
        }
        Ok(offset)
    }

    /// Notes damage at an offset; where to go on behind it.
    fn skip(&mut self, offset: u64, error: &PosixError) -> u64 {
        let span = if let PosixError::Storage(
            DmuError::Read { place, .. } | DmuError::Corrupt { place, .. },
        ) = error
        {
            self.span(place).filter(|span| span.contains(&offset))
        } else {
            None
        };
        let end = match span {
            Some(span) => span.end,
            None if self.damage.vague >= VAGUE_FAILURES_MAX => self.size,
            None => {
                self.damage.vague += 1;
                self.block_end(offset)
            }
        };
        let end = end.clamp(offset + 1, self.size.max(offset + 1));
        self.damage.add(offset..end, error);
        end
    }

    /// The bytes of the file below a block.
    fn span(&self, place: &Bookmark) -> Option<Range<u64>> {
        let raw = self.raw.as_ref().filter(|_| place.object == self.object)?;
        let level = u32::try_from(place.level).ok()?;
        let block = Some(place.block).filter(|block| *block != Bookmark::SPILL)?;
        let shift = raw.dnode.entries_shift().checked_mul(level)?;
        // A block below which more than all bytes lie ends the file.
        let span = 1_u64
            .checked_shl(shift)
            .and_then(|count| count.checked_mul(raw.block_size()));
        let Some(span) = span else {
            return Some(0..self.size);
        };
        let start = block.checked_mul(span)?;
        Some(start..start.saturating_add(span).min(self.size))
    }

    fn block_end(&self, offset: u64) -> u64 {
        let size = self
            .raw
            .as_ref()
            .map_or(STEP, RawObject::block_size)
            .max(512);
        (offset / size + 1).saturating_mul(size)
    }
}
