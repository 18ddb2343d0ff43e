//! Copying ranges between the files of a file system.
//!
//! Whole blocks that are stored are copied as references to them: nothing is read, and until the sync the copy is a
//! pointer. Everything else is read and written; of that, too, the sync may refer to stored blocks.

use std::ops::Range;
use std::sync::Arc;

use dmu::{StoredBlock, StoredBlocks, Tx};

use crate::core::{Core, Plan};
use crate::writing::CHUNK;
use crate::znode::Znode;
use crate::{PosixError, Result, WriteOptions};

/// What one transaction writes.
pub(crate) enum Contents<'a> {
    /// Bytes, and where they were copied from, if they were.
    Bytes(&'a [u8], Option<&'a Origin<'a>>),
    /// The stored blocks of another file: references to them.
    Stored(&'a Znode, &'a StoredBlocks),
}

impl Contents<'_> {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Self::Bytes(data, _) => data.len() as u64,
            Self::Stored(_, blocks) => blocks.bytes(),
        }
    }

    /// The bytes, where they are at hand.
    pub(crate) const fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Bytes(data, _) => Some(data),
            Self::Stored(..) => None,
        }
    }

    /// What a transaction that writes this needs, in a file with blocks of so many bytes at most.
    pub(crate) fn plan(&self, block_bytes: u32) -> Plan {
        let plan = Plan {
            block_bytes,
            objects: 1,
            ..Plan::default()
        };
        match self {
            Self::Bytes(data, _) => Plan {
                write_bytes: data.len() as u64,
                ..plan
            },
            Self::Stored(_, blocks) => Plan {
                referenced_blocks: blocks.count(),
                ..plan
            },
        }
    }

    /// Puts it into a file. False, and nothing has changed, when it cannot be put there so.
    pub(crate) fn put(&self, tx: &Tx, znode: &Znode, offset: u64) -> Result<bool> {
        match self {
            Self::Bytes(data, origin) => {
                znode.object.begin_write(tx, offset, data.len() as u64)?;
                znode.object.write(tx, offset, data)?;
                if let Some(origin) = origin {
                    origin.share(tx, znode, offset);
                }
                Ok(true)
            }
            Self::Stored(source, blocks) => {
                let size = u64::from(znode.object.block_size());
                if !offset.is_multiple_of(size) {
                    return Ok(false);
                }
                let first = offset / size;
                Ok(znode.object.refer_to(tx, first, &source.object, blocks)?)
            }
        }
    }
}

impl Core {
    /// Copies a range from one file to another, or within one.
    pub(crate) fn copy_range(
        &self,
        (source, from): (&Arc<Znode>, Range<u64>),
        (target, offset): (&Arc<Znode>, u64),
        options: WriteOptions,
    ) -> Result<u64> {
        let length = usize::try_from(from.end.saturating_sub(from.start)).unwrap_or(usize::MAX);
        let (range, _) = source.clamp(from.start, length)?;
        let overlaps = source.id() == target.id()
            && offset < range.end
            && range.start < offset.saturating_add(range.end - range.start);
        if overlaps {
            return Err(PosixError::Invalid("ranges of one file overlap"));
        }
        let options = WriteOptions {
            append: false,
            ..options
        };
        let mut at = range.start;
        while at < range.end {
            let to = offset + (at - range.start);
            match self.copy_piece((source, at..range.end), (target, to), options) {
                Ok(0) => break,
                Ok(copied) => at += copied,
                Err(_) if at > range.start => break,
                Err(error) => return Err(error),
            }
        }
        Ok(at - range.start)
    }

    /// Copies the beginning of a range, as much as one transaction takes.
    fn copy_piece(
        &self,
        (source, range): (&Arc<Znode>, Range<u64>),
        (target, to): (&Arc<Znode>, u64),
        options: WriteOptions,
    ) -> Result<u64> {
        /// How often the source may change before it is copied in the ordinary way.
        const TRIES: u32 = 3;
        let mut length = (range.end - range.start).min(CHUNK as u64);
        for _ in 0..TRIES {
            let size = u64::from(source.object.block_size());
            let whole = (range.end - range.start) / size;
            if !range.start.is_multiple_of(size) || !to.is_multiple_of(size) || whole == 0 {
                break;
            }
            let count = whole.min((CHUNK as u64 / size).max(1));
            let end = to.saturating_add(count * size);
            if u64::from(self.block_bytes_of(target, end)) != size {
                break;
            }
            let blocks = source.object.stored_blocks(range.start / size, count)?;
            if blocks.count() == 0 {
                length = length.min(blocks.others().max(1) * size);
                break;
            }
            let contents = Contents::Stored(source, &blocks);
            if let Some(end) = self.write_chunk(target, to, &contents, options)? {
                if options.sync && !options.uncommitted {
                    self.fsync(target)?;
                }
                return Ok(end - to);
            }
            length = length.min(blocks.bytes());
        }
        let mut data = vec![0; usize::try_from(length).unwrap_or(CHUNK)];
        let origin = Origin::read(source, range.start, to, &mut data)?;
        let written = self.write_from(target, to, &data, Some(&origin), options)?;
        Ok(written as u64)
    }
}

/// What copied data were before: whole blocks that are stored may be shared.
pub(crate) struct Origin<'a> {
    source: &'a Znode,
    block_size: u64,
    blocks: Vec<StoredBlock>,
    /// The source's first byte that was copied.
    from: u64,
}

impl<'a> Origin<'a> {
    /// Reads from `from` on what is to be copied to `to`.
    fn read(source: &'a Znode, from: u64, to: u64, data: &mut [u8]) -> Result<Self> {
        let block_size = u64::from(source.object.block_size());
        let mut origin = Self {
            source,
            block_size,
            blocks: Vec::new(),
            from,
        };
        let aligned = from.is_multiple_of(block_size) && to.is_multiple_of(block_size);
        if !aligned {
            source.object.read(from, data)?;
            return Ok(origin);
        }
        let mut at = from;
        for piece in data.chunks_mut(source.object.block_size() as usize) {
            match source.object.stored_block(at / block_size)? {
                Some(stored) if stored.data().len() >= piece.len() => {
                    piece.copy_from_slice(&stored.data()[..piece.len()]);
                    origin.blocks.push(stored);
                }
                _ => source.object.read(at, piece)?,
            }
            at += block_size;
        }
        Ok(origin)
    }

    /// Lets those blocks be shared whose copies, from `to` on in a file, have become the same.
    fn share(&self, tx: &Tx, znode: &Znode, to: u64) {
        if u64::from(znode.object.block_size()) != self.block_size {
            return;
        }
        for stored in &self.blocks {
            let block = stored.block() - self.from / self.block_size + to / self.block_size;
            znode
                .object
                .share_block(tx, block, &self.source.object, stored);
        }
    }
}
