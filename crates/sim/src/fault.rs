//! Misbehaviour on demand.

use std::ops::Range;

/// What a disk does wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// Reads of the range fail.
    ReadError,
    /// Reads succeed and give the bytes of the range turned over.
    RottenRead,
    /// Writes to the range fail; nothing is written.
    WriteError,
    /// Writes to the range fail because the disk is not there any more.
    Gone,
    /// Writes to the range fail because the file system that holds the image is full.
    HostFull,
    /// Flushes fail. The writes since the last good flush may be lost in a crash even if a later
    /// flush succeeds, unless they are written again.
    FlushError,
    /// Writes to the range succeed and do nothing.
    LostWrite,
    /// Writes to the range go so many bytes further on the disk.
    MisdirectedWrite(u64),
    /// Of a write to the range only that many bytes are written; it succeeds.
    ShortWrite(usize),
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Whenever it applies.
    Always,
    /// So many times.
    Count(u32),
    /// After it was passed over so many times, whenever it applies.
    After(u32),
}

/// A fault, where it strikes, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What goes wrong.
    pub kind: FaultKind,
    /// Bytes of the disk that the operation must touch; flushes touch everything.
    pub range: Range<u64>,
    /// How often.
    pub times: Times,
}

impl Fault {
    /// A fault on the whole disk.
    #[must_use]
    pub const fn everywhere(kind: FaultKind, times: Times) -> Self {
        Self {
            kind,
            range: 0..u64::MAX,
            times,
        }
    }

    /// Whether the fault strikes an operation on `range`; counts it.
    pub(crate) fn strikes(&mut self, range: &Range<u64>) -> bool {
        if self.range.start >= range.end || range.start >= self.range.end {
            return false;
        }
        match &mut self.times {
            Times::Always | Times::After(0) => true,
            Times::After(left) => {
                *left -= 1;
                false
            }
            Times::Count(0) => false,
            Times::Count(left) => {
                *left -= 1;
                true
            }
        }
    }
}
