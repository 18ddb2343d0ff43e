//! A file's bytes, past damage: what cannot be read is left out, and said.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use base::{Bookmark, ObjectId};
use dmu::{DmuError, Object};
use posix::{Attributes, Credentials, OpenFile, OpenOptions, PosixError};

use crate::problems::Problems;
use crate::raw::RawObject;
use crate::view::{View, VolumeView};

/// Bytes asked for at once.
const STEP: u64 = 1 << 20;
/// Failures that name no block, after which the rest of a file is given up.
const VAGUE_FAILURES_MAX: u32 = 64;

/// Where bytes go. Ranges that are never given are zeros.
pub(crate) trait Sink {
    /// Takes bytes; offsets only grow.
    fn data(&mut self, offset: u64, bytes: &[u8]) -> io::Result<()>;
}

/// Why a range cannot be read.
struct Lost {
    error: String,
    /// The block that cannot be, if it is known.
    place: Option<Bookmark>,
}

impl Lost {
    fn of(error: &DmuError) -> Self {
        let place = if let DmuError::Read { place, .. } | DmuError::Corrupt { place, .. } = error {
            Some(*place)
        } else {
            None
        };
        Self {
            error: error.to_string(),
            place,
        }
    }
}

impl From<PosixError> for Lost {
    fn from(error: PosixError) -> Self {
        let place = if let PosixError::Storage(error) = &error {
            Self::of(error).place
        } else {
            None
        };
        Self {
            error: error.to_string(),
            place,
        }
    }
}

/// What has bytes and holes.
trait Bytes {
    /// The next byte that is in no hole; none: there are only holes.
    fn next_data(&self, offset: u64) -> Result<Option<u64>, Lost>;
    /// The next byte that is in a hole.
    fn next_hole(&self, offset: u64) -> Result<u64, Lost>;
    /// Shows bytes piece by piece, up to the first that cannot be read; says how many there were.
    fn read(&self, offset: u64, length: usize, visit: &mut dyn FnMut(&[u8]))
    -> Result<usize, Lost>;
}

impl Bytes for OpenFile {
    fn next_data(&self, offset: u64) -> Result<Option<u64>, Lost> {
        match self.seek_data(offset) {
            Err(PosixError::NoSuchOffset) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    fn next_hole(&self, offset: u64) -> Result<u64, Lost> {
        Ok(self.seek_hole(offset)?)
    }

    fn read(
        &self,
        offset: u64,
        length: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Lost> {
        Ok(self.read_with(offset, length, &mut |block, part| {
            if let Some(bytes) = block.get(part) {
                visit(bytes);
            }
        })?)
    }
}

/// The data of a volume.
struct VolumeData(Arc<Object>);

impl Bytes for VolumeData {
    fn next_data(&self, offset: u64) -> Result<Option<u64>, Lost> {
        self.0
            .next_data(offset..u64::MAX)
            .map_err(|error| Lost::of(&error))
    }

    fn next_hole(&self, offset: u64) -> Result<u64, Lost> {
        self.0
            .next_hole(offset..u64::MAX)
            .map_err(|error| Lost::of(&error))
    }

    fn read(
        &self,
        offset: u64,
        length: usize,
        visit: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Lost> {
        let size = (self.0.block_size() as usize).max(1);
        self.0.prefetch(offset, length as u64);
        let mut buffer = vec![0; size];
        let mut done = 0;
        while done < length {
            let at = offset + done as u64;
            let in_block = size - (at % size as u64) as usize;
            let piece = &mut buffer[..in_block.min(length - done)];
            self.0.read(at, piece).map_err(|error| Lost::of(&error))?;
            visit(piece);
            done += piece.len();
        }
        Ok(done)
    }
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
    let reader = Reader {
        bytes: &open,
        object: file.object,
        size: file.size,
        raw: view
            .raw
            .as_ref()
            .and_then(|raw| raw.object(file.object).ok()),
        damage: Damage::default(),
    };
    reader.read(&shown, problems, sink)
}

/// Reads a whole volume into a sink, as [`read`] does a file.
pub(crate) fn read_volume(
    volume: &VolumeView,
    problems: &mut Problems,
    sink: &mut dyn Sink,
) -> io::Result<()> {
    let reader = Reader {
        bytes: &VolumeData(Arc::clone(&volume.data)),
        object: volume.data.id(),
        size: volume.size,
        raw: volume
            .raw
            .as_ref()
            .and_then(|raw| raw.object(volume.data.id()).ok()),
        damage: Damage::default(),
    };
    reader.read(&volume.name, problems, sink)
}

/// Ranges that cannot be read; neighbours are one.
#[derive(Default)]
struct Damage {
    ranges: Vec<(Range<u64>, String)>,
    vague: u32,
}

impl Damage {
    fn add(&mut self, range: Range<u64>, error: &Lost) {
        match self.ranges.last_mut() {
            Some((last, _)) if last.end == range.start => last.end = range.end,
            _ => self.ranges.push((range, error.error.clone())),
        }
    }
}

struct Reader<'a> {
    bytes: &'a dyn Bytes,
    object: ObjectId,
    size: u64,
    raw: Option<RawObject>,
    damage: Damage,
}

impl Reader<'_> {
    fn read(mut self, shown: &str, problems: &mut Problems, sink: &mut dyn Sink) -> io::Result<()> {
        let written = self.run(sink);
        for (range, error) in self.damage.ranges {
            let (length, start) = (range.end - range.start, range.start);
            problems.note(
                shown,
                format_args!("{length} bytes at {start} are lost: {error}"),
            );
        }
        written
    }

    fn run(&mut self, sink: &mut dyn Sink) -> io::Result<()> {
        let mut offset = 0;
        while offset < self.size {
            match self.bytes.next_data(offset) {
                Ok(Some(found)) if found < self.size => offset = found.max(offset),
                Ok(_) => break,
                Err(error) => {
                    offset = self.skip(offset, &error);
                    continue;
                }
            }
            let hole = self.bytes.next_hole(offset);
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
            let read = self.bytes.read(offset, length as usize, &mut |bytes| {
                if written.is_ok() {
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
    fn skip(&mut self, offset: u64, error: &Lost) -> u64 {
        let span = error.place.as_ref().and_then(|place| self.span(place));
        let span = span.filter(|span| span.contains(&offset));
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
