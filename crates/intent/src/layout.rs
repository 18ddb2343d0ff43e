//! Which record goes into which block. Pure: lengths in, places out.
//!
//! A record never spans blocks; a write's data may be split over several records. The sizes come
//! from `format`'s notes on the log: 4 KiB to 128 KiB in steps of 4 KiB, of which the chain
//! structure takes 184 bytes.

use format::intent_log::{ChainElement, WriteFields};

/// The step of block sizes, and the smallest.
pub(crate) const UNIT: u64 = 4096;
/// The largest block.
pub(crate) const BLOCK_MAX: u64 = 128 << 10;
/// The largest record.
pub(crate) const RECORD_MAX: u64 = BLOCK_MAX - ChainElement::SIZE as u64;
/// Less of a write than this is not worth a record of its own at the end of a block.
const PIECE_MIN: u64 = 2048;
const HEAD: u64 = ChainElement::SIZE as u64;
const WRITE_HEAD: u64 = WriteFields::SIZE as u64;

/// What has to be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// A record of so many bytes.
    Whole(u64),
    /// A write of so many bytes of data.
    Data(u64),
}

/// A record in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which of the things placed.
    pub(crate) item: usize,
    /// Of a write: which part of its data.
    pub(crate) start: u64,
    /// Of a write: how much.
    pub(crate) length: u64,
}

/// A block's records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Planned {
    /// The size of the block; that of the first is given.
    pub(crate) size: u64,
    pub(crate) pieces: Vec<Piece>,
}

impl Shape {
    fn bytes(self) -> u64 {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Data(bytes) => write_bytes(bytes),
        }
    }
}

fn write_bytes(data: u64) -> u64 {
    WRITE_HEAD + data.next_multiple_of(8)
}

/// The size of a block for so many bytes of records.
pub(crate) fn block_size(records: u64) -> u64 {
    (HEAD + records)
        .next_multiple_of(UNIT)
        .clamp(UNIT, BLOCK_MAX)
}

/// Places everything, beginning in a block of `first_size` bytes.
pub(crate) fn place(shapes: &[Shape], first_size: u64) -> Vec<Planned> {
    let mut left: u64 = shapes.iter().map(|shape| shape.bytes()).sum();
    let mut blocks = vec![Planned {
        size: first_size,
        pieces: Vec::new(),
    }];
    let mut room = first_size - HEAD;
    for (item, shape) in shapes.iter().enumerate() {
        let mut start = 0;
        loop {
            let (length, bytes, done) = fit(*shape, start, room);
            if bytes <= room {
                if let Some(block) = blocks.last_mut() {
                    block.pieces.push(Piece {
                        item,
                        start,
                        length,
                    });
                }
                room -= bytes;
                left = left.saturating_sub(bytes);
                start += length;
                if done {
                    break;
                }
            }
            let size = block_size(left.max(fit(*shape, start, RECORD_MAX).1));
            room = size - HEAD;
            blocks.push(Planned {
                size,
                pieces: Vec::new(),
            });
        }
    }
    blocks
}

/// How much of a shape goes next into a block with `room` bytes left: data bytes, record bytes,
/// and whether that is the rest. More record bytes than there is room: not here.
fn fit(shape: Shape, start: u64, room: u64) -> (u64, u64, bool) {
    match shape {
        Shape::Whole(bytes) => (0, bytes, true),
        Shape::Data(length) => {
            let rest = length - start;
            let here = room.saturating_sub(WRITE_HEAD) & !7;
            if rest <= here {
                (rest, write_bytes(rest), true)
            } else {
                let part = here.max(PIECE_MIN);
                (part, write_bytes(part), false)
            }
        }
    }
}

#[cfg(test)]
mod tests;
