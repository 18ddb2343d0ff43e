//! Growing a fat ZAP: splitting leaves and doubling the pointer table.
//!
//! Everything that is changed is part of the transaction before anything changes, so that a bad block leaves the ZAP as
//! it was.

use std::sync::Arc;

use format::zap::fat::{embedded_entry, external_entry, set_embedded_entry, set_external_entry};
use format::zap::{FatHeader, HashKind, Leaf, LeafMut};
use sys::BufferMut;

use super::header::{header, malformed, place};
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::object::Object;
use crate::tx::Tx;

/// The header is changed and stored.
fn change_header(
    object: &Arc<Object>,
    tx: &Tx,
    change: impl FnOnce(&mut FatHeader, &mut [u8]),
) -> Result<()> {
    let done = object.modify_block(tx, 0, |block| {
        let mut header = FatHeader::read(block)?;
        change(&mut header, block);
        header.write(block);
        Ok(())
    })?;
    done.map_err(|error| malformed(object, 0, &error))
}

/// Splits the leaf in `block`, to which `hash` belongs, growing the table first if it must.
pub(super) fn split(object: &Arc<Object>, tx: &Tx, block: u64, hash: u64) -> Result<()> {
    let prefix_len = {
        let data = object.read_block(block)?;
        let leaf = Leaf::new(&data).map_err(|error| malformed(object, block, &error))?;
        if leaf.header().entry_count <= 1 {
            return Err(full(object));
        }
        u64::from(leaf.header().prefix_len)
    };
    let mut known = header(object)?.0;
    if prefix_len > known.table_shift {
        let what = "a leaf with a longer prefix than the pointer table has";
        return Err(DmuError::corrupt(place(object, block), what));
    }
    if prefix_len >= known.table_shift {
        grow_table(object, tx, &known)?;
        known = header(object)?.0;
    }
    let kind = HashKind::from_flags(known.flags);
    let upper = Upper::new(&known, hash, prefix_len);
    if !known.is_embedded() {
        let per_block = u64::from(object.block_size()) / 8;
        for table in upper.first / per_block..=upper.last / per_block {
            object.hold_block(tx, known.table_block + table)?;
        }
    }
    object.hold_block(tx, 0)?;
    METERS.leaves_split.increment();
    let new_block = known.free_block;
    let mut new = BufferMut::zeroed(object.block_size() as usize);
    object
        .modify_block(tx, block, |bytes| {
            LeafMut::new(bytes)?.split(&mut new, kind.words)
        })?
        .map_err(|error| malformed(object, block, &error))?;
    object.write_block(tx, new_block, new.freeze())?;
    let embedded = known.is_embedded();
    change_header(object, tx, |header, bytes| {
        header.free_block += 1;
        header.leaf_count += 1;
        if embedded {
            for index in upper.first..=upper.last {
                set_embedded_entry(bytes, index, new_block);
            }
        }
    })?;
    if !embedded {
        upper.store(object, tx, known.table_block, new_block)?;
    }
    Ok(())
}

fn full(object: &Object) -> DmuError {
    DmuError::ZapFull {
        object_set: object.object_set(),
        object: object.id(),
    }
}

/// The table entries of the upper half of a leaf's hashes.
struct Upper {
    first: u64,
    last: u64,
}

impl Upper {
    fn new(header: &FatHeader, hash: u64, prefix_len: u64) -> Self {
        let below = header.table_shift - prefix_len - 1;
        let prefix = if prefix_len == 0 {
            0
        } else {
            hash >> (64 - prefix_len)
        };
        let first = ((prefix << 1) | 1) << below;
        Self {
            first,
            last: first + (1 << below) - 1,
        }
    }

    /// Points these entries of an external table to `leaf`.
    fn store(&self, object: &Arc<Object>, tx: &Tx, table: u64, leaf: u64) -> Result<()> {
        let per_block = u64::from(object.block_size()) / 8;
        for block in self.first / per_block..=self.last / per_block {
            let base = block * per_block;
            let from = self.first.max(base) - base;
            let to = self.last.min(base + per_block - 1) - base;
            object.modify_block(tx, table + block, |bytes| {
                for index in from..=to {
                    set_external_entry(bytes, index as usize, leaf);
                }
            })?;
        }
        Ok(())
    }
}

/// Doubles the pointer table.
fn grow_table(object: &Arc<Object>, tx: &Tx, known: &FatHeader) -> Result<()> {
    let kind = HashKind::from_flags(known.flags);
    if known.table_shift >= u64::from(kind.bits) - 2 {
        return Err(full(object));
    }
    if known.is_embedded() {
        return leave_header(object, tx, known);
    }
    if known.table_next_block == 0 {
        let next = known.free_block;
        let blocks = known.table_block_count * 2;
        change_header(object, tx, |header, _| {
            header.table_next_block = next;
            header.table_blocks_copied = 0;
            header.free_block += blocks;
        })?;
    }
    finish_table(object, tx)
}

/// Moves the embedded table to a block of its own, each entry twice.
fn leave_header(object: &Arc<Object>, tx: &Tx, known: &FatHeader) -> Result<()> {
    let (_, first) = header(object)?;
    let mut table = BufferMut::zeroed(first.len());
    for index in 0..1u64 << known.table_shift {
        let leaf = embedded_entry(&first, index);
        set_external_entry(&mut table, index as usize * 2, leaf);
        set_external_entry(&mut table, index as usize * 2 + 1, leaf);
    }
    drop(first);
    let block = known.free_block;
    object.write_block(tx, block, table.freeze())?;
    change_header(object, tx, |header, _| {
        header.table_block = block;
        header.table_block_count = 1;
        header.table_shift += 1;
        header.free_block += 1;
    })
}

/// Copies what is left of the old external table into the new, and switches over.
pub(super) fn finish_table(object: &Arc<Object>, tx: &Tx) -> Result<()> {
    let (known, first) = header(object)?;
    let size = first.len();
    drop(first);
    let per_block = size / 8;
    for copied in known.table_blocks_copied..known.table_block_count {
        let old = object.read_block(known.table_block + copied)?;
        for half in 0..2 {
            let mut new = BufferMut::zeroed(size);
            for index in 0..per_block {
                let leaf = external_entry(&old, half * per_block / 2 + index / 2);
                set_external_entry(&mut new, index, leaf);
            }
            let target = known.table_next_block + copied * 2 + half as u64;
            object.write_block(tx, target, new.freeze())?;
        }
    }
    change_header(object, tx, |header, _| {
        header.table_block = known.table_next_block;
        header.table_block_count = known.table_block_count * 2;
        header.table_shift += 1;
        header.table_next_block = 0;
        header.table_blocks_copied = 0;
    })?;
    let size = size as u64;
    object.free_range(tx, known.table_block * size, known.table_block_count * size)
}
