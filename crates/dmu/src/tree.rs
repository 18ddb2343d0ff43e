//! The block tree of an object as last synced: immutable, shared with readers.
//!
//! A sync makes a new tree and swaps it in; readers of the old one stay right, for freed blocks
//! are not reused before later txgs have synced.

use std::ops::Range;

use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use format::dnode::{BLOCK_POINTER_SIZE, LEVELS_MAX};
use format::{BlockPointer, ObjectType};
use sys::Buffer;

use crate::error::{DmuError, Result};
use crate::pointer;
use crate::store::BlockStore;

/// Log2 of the size of a block pointer.
const POINTER_SHIFT: u32 = BLOCK_POINTER_SIZE.trailing_zeros();

/// Pointers, height and block sizes of an object.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) object_type: ObjectType,
    pub(crate) pointers: [BlockPointer; 3],
    pub(crate) pointer_count: u8,
    pub(crate) levels: u8,
    pub(crate) indirect_shift: u8,
    /// Size of a data block in bytes.
    pub(crate) block_size: u32,
    /// The highest block id on disk.
    pub(crate) max_block: u64,
    /// When it was in use, as of [`BlockStore::now`].
    pub(crate) seen: Txg,
}

/// Through what, and on whose behalf, a tree is read.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    pub(crate) store: &'a dyn BlockStore,
    pub(crate) object_set: ObjectSetId,
    pub(crate) object: ObjectId,
}

impl Reader<'_> {
    pub(crate) fn place(&self, level: u8, block: u64) -> Bookmark {
        Bookmark::new(self.object_set, self.object, level, block)
    }

    /// Reads a block of a tree that was in use at `seen`.
    pub(crate) fn read(
        &self,
        pointer: &BlockPointer,
        level: u8,
        block: u64,
        seen: Txg,
    ) -> Result<Buffer> {
        let place = self.place(level, block);
        self.store
            .read_seen(pointer, place, seen)
            .map_err(|source| DmuError::Read { place, source })
    }

    /// Reads a block of dnodes for what it leads to: its bonuses may be ciphertext.
    pub(crate) fn read_structure(&self, pointer: &BlockPointer, block: u64) -> Result<Buffer> {
        let place = self.place(0, block);
        self.store
            .read_structure(pointer, place)
            .map_err(|source| DmuError::Read { place, source })
    }
}

/// `value >> shift`, for any shift.
pub(crate) const fn shift_right(value: u64, shift: u32) -> u64 {
    if shift >= u64::BITS {
        0
    } else {
        value >> shift
    }
}

/// `value << shift`, saturating.
pub(crate) const fn shift_left(value: u64, shift: u32) -> u64 {
    if value == 0 {
        0
    } else if shift > value.leading_zeros() {
        u64::MAX
    } else {
        value << shift
    }
}

impl Tree {
    /// Log2 of the pointers in an indirect block.
    pub(crate) const fn entries_shift(&self) -> u32 {
        (self.indirect_shift as u32).saturating_sub(POINTER_SHIFT)
    }

    /// Bytes of an indirect block.
    pub(crate) const fn indirect_size(&self) -> usize {
        1 << self.indirect_shift
    }

    /// How many data blocks the tree can address without growing.
    pub(crate) fn capacity(&self) -> u64 {
        let shift = u32::from(self.levels.saturating_sub(1)) * self.entries_shift();
        shift_left(u64::from(self.pointer_count), shift)
    }

    /// Data blocks under one pointer at `level`, as a shift.
    pub(crate) fn span_shift(&self, level: u8) -> u32 {
        u32::from(level) * self.entries_shift()
    }

    /// Whether the tree holds nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.pointers.iter().all(BlockPointer::is_hole)
    }

    /// Bytes of a block at `level`.
    pub(crate) fn size_at(&self, level: u8) -> usize {
        if level == 0 {
            self.block_size as usize
        } else {
            self.indirect_size()
        }
    }

    /// The pointer of the hole that stands for a child of a hole.
    pub(crate) fn child_hole(&self, parent: &BlockPointer, level: u8) -> BlockPointer {
        let birth = parent.birth();
        if birth == Txg(0) {
            return BlockPointer::HOLE;
        }
        pointer::hole(self.size_at(level), self.object_type, level, birth)
    }

    /// Reads the indirect block of `pointer` and checks its size.
    pub(crate) fn read_indirect(
        &self,
        reader: &Reader<'_>,
        pointer: &BlockPointer,
        level: u8,
        index: u64,
    ) -> Result<Buffer> {
        let data = reader.read(pointer, level, index, self.seen)?;
        if data.len() != self.indirect_size() {
            return Err(DmuError::corrupt(
                reader.place(level, index),
                format!("{} bytes in place of an indirect block", data.len()),
            ));
        }
        Ok(data)
    }

    /// The pointer of data block `block`.
    pub(crate) fn lookup(&self, reader: &Reader<'_>, block: u64) -> Result<BlockPointer> {
        self.lookup_at(reader, 0, block)
    }

    /// The pointer of block `index` of level `target`.
    pub(crate) fn lookup_at(
        &self,
        reader: &Reader<'_>,
        target: u8,
        index: u64,
    ) -> Result<BlockPointer> {
        let mut level = self.levels.clamp(1, LEVELS_MAX) - 1;
        if target > level {
            return Ok(BlockPointer::HOLE);
        }
        let shift = self.entries_shift();
        let top = shift_right(index, self.span_shift(level - target));
        if top >= u64::from(self.pointer_count) {
            return Ok(BlockPointer::HOLE);
        }
        let mut found = self.pointers[top as usize];
        while level > target {
            if found.is_hole() {
                return Ok(self.child_hole(&found, target));
            }
            let here = shift_right(index, self.span_shift(level - target));
            let data = self.read_indirect(reader, &found, level, here)?;
            level -= 1;
            let entry = shift_right(index, self.span_shift(level - target)) & ((1 << shift) - 1);
            found = pointer::get(&data, entry as usize);
        }
        Ok(found)
    }

    /// Reads the indirect blocks above data block `block` that a change below them would have to read, once the ranges
    /// of `freed` are gone: a block that is freed whole is not among them, nor anything below it. From the first call
    /// on, `known` keeps the level 1 block that was looked at last.
    ///
    /// # Errors
    /// One cannot be read: the change cannot be synced.
    pub(crate) fn warm(
        &self,
        reader: &Reader<'_>,
        block: u64,
        freed: &[(u64, u64)],
        known: &mut Option<u64>,
    ) -> Result<()> {
        let mut level = self.levels.clamp(1, LEVELS_MAX) - 1;
        let top = shift_right(block, self.span_shift(level));
        let parent = shift_right(block, self.span_shift(1));
        if level == 0
            || top >= u64::from(self.pointer_count)
            || known.replace(parent) == Some(parent)
        {
            return Ok(());
        }
        let mut found = self.pointers[top as usize];
        while level > 0 && !found.is_hole() {
            let span = self.span_shift(level);
            let index = shift_right(block, span);
            let first = shift_left(index, span);
            let last = first.saturating_add(shift_left(1, span) - 1);
            if freed
                .iter()
                .any(|range| range.0 <= first && last <= range.1)
            {
                return Ok(());
            }
            let data = self.read_indirect(reader, &found, level, index)?;
            level -= 1;
            let entry =
                shift_right(block, self.span_shift(level)) & ((1 << self.entries_shift()) - 1);
            found = pointer::get(&data, entry as usize);
        }
        Ok(())
    }

    /// The first of the data blocks `range` that is allocated (`data`) or a hole (not `data`). Beyond the reach of the
    /// tree everything is a hole. Nobody looks further than the range.
    pub(crate) fn search(
        &self,
        reader: &Reader<'_>,
        range: Range<u64>,
        data: bool,
    ) -> Result<Option<u64>> {
        let level = self.levels.clamp(1, LEVELS_MAX) - 1;
        let shift = self.span_shift(level);
        let Range { start: from, end } = range;
        for top in shift_right(from, shift)..u64::from(self.pointer_count) {
            if shift_left(top, shift) >= end {
                return Ok(None);
            }
            let found = self.pointers[top as usize];
            let walk = Walk {
                tree: self,
                reader,
                from,
                end,
                data,
            };
            if let Some(block) = walk.search(&found, level, top)? {
                return Ok(Some(block));
            }
        }
        let hole = from.max(self.capacity());
        Ok((!data && hole < end).then_some(hole))
    }
}

/// A search under way; its depth is bounded by the levels of the tree.
struct Walk<'a> {
    tree: &'a Tree,
    reader: &'a Reader<'a>,
    from: u64,
    end: u64,
    data: bool,
}

impl Walk<'_> {
    fn search(&self, pointer: &BlockPointer, level: u8, index: u64) -> Result<Option<u64>> {
        let tree = self.tree;
        let first = shift_left(index, tree.span_shift(level));
        let start = first.max(self.from);
        if pointer.is_hole() {
            return Ok((!self.data).then_some(start));
        }
        if level == 0 {
            return Ok(self.data.then_some(start));
        }
        let full = shift_left(1, tree.span_shift(level));
        if !self.data && pointer.fill() >= full && tree.object_type != ObjectType::DNODE {
            return Ok(None);
        }
        let block = tree.read_indirect(self.reader, pointer, level, index)?;
        let shift = tree.entries_shift();
        let base = shift_left(index, shift);
        let skip = shift_right(start, tree.span_shift(level - 1)).saturating_sub(base);
        for entry in skip..1 << shift {
            if shift_left(base + entry, tree.span_shift(level - 1)) >= self.end {
                break;
            }
            let child = pointer::get(&block, entry as usize);
            if let Some(found) = self.search(&child, level - 1, base + entry)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}
