//! Reading an object's data: unsynced changes first, then the tree.

use std::collections::BTreeMap;
use std::ops::Range;

use sys::{Buffer, BufferMut};

use super::Object;
use super::state::{DirtyBlock, Newest};
use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::tree::Tree;
use crate::tunables;

impl Object {
    /// Reads `out.len()` bytes at `offset`; zeros in holes and past the end.
    ///
    /// # Errors
    /// A block cannot be read.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let mut offset = offset;
        let mut out = out;
        while !out.is_empty() {
            let size = u64::from(self.block_size());
            let (block, within) = (offset / size, (offset % size) as usize);
            let len = out.len().min(size as usize - within);
            let (piece, rest) = out.split_at_mut(len);
            let data = self.read_block(block)?;
            let have = data.len().saturating_sub(within).min(len);
            piece[..have].copy_from_slice(&data[within.min(data.len())..][..have]);
            piece[have..].fill(0);
            if within + len == size as usize {
                self.end_of_block(block);
            }
            offset = offset.saturating_add(len as u64);
            out = rest;
        }
        Ok(())
    }

    /// The contents of a data block, of the object's block size.
    ///
    /// # Errors
    /// The block cannot be read.
    pub fn read_block(&self, block: u64) -> Result<Buffer> {
        loop {
            let state = self.state.read();
            let size = state.header.block_size();
            match state.newest(block) {
                Newest::Dirty(data) => return Ok(fit(data, size)),
                Newest::Stored(pointer, _) => {
                    let (seen, generation) = (self.shared.store.now(), state.generation);
                    drop(state);
                    match self.reader().read(&pointer, 0, block, seen) {
                        Ok(data) => return Ok(fit(data, size)),
                        Err(error) => self.unless_swapped(generation, error)?,
                    }
                    continue;
                }
                Newest::Sealed => return Err(self.sealed()),
                Newest::Hole => return Ok(self.shared.zeros(size)),
                Newest::OnDisk => {}
            }
            let (tree, generation) = (self.tree_of(&state), state.generation);
            drop(state);
            match self.read_synced(&tree, block) {
                Ok(data) => return Ok(fit(data, size)),
                Err(error) => self.unless_swapped(generation, error)?,
            }
        }
    }

    /// Reads a data block through `tree`.
    pub(super) fn read_synced(&self, tree: &Tree, block: u64) -> Result<Buffer> {
        let reader = self.reader();
        let pointer = tree.lookup(&reader, block)?;
        if pointer.is_hole() {
            return Ok(self.shared.zeros(tree.block_size as usize));
        }
        reader.read(&pointer, 0, block, tree.seen)
    }

    /// Says that somebody has read a data block to its end: where the cache keeps no data (`primarycache`), it has had
    /// this block for as long as it was of use. Best effort.
    pub fn end_of_block(&self, block: u64) {
        let (store, set) = (&self.shared.store, self.shared.id);
        if store.keeps(set, false) {
            return;
        }
        let tree = self.tree_of(&self.state.read());
        if !tree.object_type.is_metadata()
            && let Ok(pointer) = tree.lookup(&self.reader(), block)
        {
            store.end_of_block(&pointer, set);
        }
    }

    /// Says that nobody is expected to read a data block again: the cache keeps nothing of what is on disk of it. Best
    /// effort.
    pub fn forget_block(&self, block: u64) {
        let tree = self.tree_of(&self.state.read());
        if let Ok(pointer) = tree.lookup(&self.reader(), block) {
            self.shared.store.forget(&pointer);
        }
    }

    /// The same of the indirect blocks to which the dnode leads, which is all of them but in an object of many thousand
    /// blocks. In one of a few dozen they take a share of the memory that counts, and being nearly empty are soon read
    /// again.
    pub(crate) fn forget_top(&self) {
        let tree = self.tree_of(&self.state.read());
        if tree.levels > 1 {
            let tops = tree.pointers.iter().filter(|pointer| !pointer.is_hole());
            tops.for_each(|pointer| self.shared.store.forget(pointer));
        }
    }

    /// An error stands unless the tree of that generation was swapped, see `Passes`.
    pub(super) fn unless_swapped(&self, generation: u64, error: DmuError) -> Result<()> {
        let is_same = || self.state.read().generation == generation;
        self.shared.passes.unless_swapped(is_same, error)
    }

    /// Starts reading a range into the cache. Best effort.
    pub fn prefetch(&self, offset: u64, len: u64) {
        if len == 0 {
            return;
        }
        let size = u64::from(self.block_size());
        let state = self.state.read();
        let (tree, last) = (self.tree_of(&state), state.header.max_block);
        let end = (offset.saturating_add(len - 1) / size).min(last);
        let stored = if offset / size <= end {
            state.stored_in(offset / size, end)
        } else {
            BTreeMap::new()
        };
        drop(state);
        if tree.is_empty() && stored.is_empty() {
            return;
        }
        let reader = self.reader();
        let max = tunables::PREFETCH_REQUESTS.count();
        let mut requests = Vec::with_capacity(max);
        for block in offset / size..=end {
            let known = stored.get(&block).copied();
            match known.map_or_else(|| tree.lookup(&reader, block), Ok) {
                Ok(pointer) if !pointer.is_hole() && !pointer.is_embedded() => {
                    requests.push((pointer, reader.place(0, block)));
                }
                Ok(_) => {}
                Err(_) => return,
            }
            if requests.len() == max || block == end {
                self.shared.store.prefetch_seen(&requests, tree.seen);
                requests.clear();
            }
        }
    }

    /// Starts reading some blocks into the cache, as far as they are on disk. Best effort.
    pub(crate) fn prefetch_blocks(&self, blocks: &[u64]) {
        let tree = self.tree_of(&self.state.read());
        let reader = self.reader();
        let request = |&block: &u64| {
            let pointer = tree.lookup(&reader, block).ok()?;
            let is_stored = !pointer.is_hole() && !pointer.is_embedded();
            is_stored.then(|| (pointer, reader.place(0, block)))
        };
        let requests: Vec<_> = blocks.iter().filter_map(request).collect();
        if !requests.is_empty() {
            self.shared.store.prefetch_seen(&requests, tree.seen);
        }
    }

    /// Calls `look` with the contents of a block; an unsynced block is not copied or shared.
    pub(crate) fn with_block<R>(&self, block: u64, look: impl FnOnce(&[u8]) -> R) -> Result<R> {
        let state = self.state.read();
        for slot in state.newest_first() {
            match slot.blocks.get(&block) {
                Some(DirtyBlock::Data(data)) => return Ok(look(data)),
                Some(DirtyBlock::Stored(_) | DirtyBlock::Sealed(_) | DirtyBlock::Redacted) => break,
                None => {}
            }
            if slot.freed.contains(block) {
                break;
            }
        }
        drop(state);
        Ok(look(&self.read_block(block)?))
    }

    /// The first allocated byte of a range, or nothing. Unsynced data count. Nobody looks further than the range.
    ///
    /// # Errors
    /// An indirect block cannot be read.
    pub fn next_data(&self, range: Range<u64>) -> Result<Option<u64>> {
        let size = u64::from(self.block_size());
        let Range { start: offset, end } = range;
        let (mut block, end) = (offset / size, end.div_ceil(size));
        loop {
            let (tree, generation, last, dirty) = {
                let state = self.state.read();
                let dirty = state.dirty_from(block);
                let (tree, last) = (self.tree_of(&state), state.header.max_block);
                (tree, state.generation, last, dirty)
            };
            if block > last || block >= end {
                return Ok(None);
            }
            let synced = if tree.is_empty() || block > tree.max_block {
                None
            } else {
                match tree.search(&self.reader(), block..end, true) {
                    Ok(synced) => synced,
                    Err(error) => {
                        self.unless_swapped(generation, error)?;
                        continue;
                    }
                }
            };
            let Some(found) = dirty
                .into_iter()
                .chain(synced)
                .min()
                .filter(|&found| found <= last && found < end)
            else {
                return Ok(None);
            };
            let state = self.state.read();
            // What was dirty then may be in the new tree now, where nobody has looked.
            if state.generation != generation {
                METERS.reads_repeated.increment();
                continue;
            }
            match state.newest(found) {
                Newest::Dirty(_) | Newest::Stored(..) | Newest::Sealed => {
                    return Ok(Some(offset.max(found.saturating_mul(size))));
                }
                Newest::OnDisk if synced == Some(found) => {
                    return Ok(Some(offset.max(found.saturating_mul(size))));
                }
                Newest::OnDisk | Newest::Hole => {
                    // A freed range may hold blocks that were written again.
                    let end = state
                        .newest_first()
                        .filter_map(|slot| slot.freed.end_of(found))
                        .min();
                    let written = state.dirty_from(found.saturating_add(1));
                    block = end
                        .unwrap_or(found)
                        .saturating_add(1)
                        .min(written.unwrap_or(u64::MAX));
                }
            }
        }
    }

    /// The first byte of a hole in a range: at the latest the end of the last block, or that of the range. Nobody looks
    /// further than that.
    ///
    /// # Errors
    /// An indirect block cannot be read.
    pub fn next_hole(&self, range: Range<u64>) -> Result<u64> {
        let size = u64::from(self.block_size());
        let Range { start: offset, end } = range;
        let (mut block, end) = (offset / size, end.div_ceil(size));
        loop {
            let state = self.state.read();
            if block > state.header.max_block || block >= end {
                break;
            }
            match state.newest(block) {
                Newest::Hole => break,
                Newest::Dirty(_) | Newest::Stored(..) | Newest::Sealed => {
                    block += 1;
                    continue;
                }
                Newest::OnDisk => {}
            }
            // Up to the next change that is not synced, the tree alone decides.
            let changed = state
                .slots
                .iter()
                .flatten()
                .flat_map(|slot| {
                    let dirty = slot.blocks.range(block..).next().map(|(&block, _)| block);
                    let freed = slot
                        .freed
                        .iter()
                        .map(|(first, _)| first)
                        .find(|&f| f > block);
                    dirty.into_iter().chain(freed)
                })
                .min();
            let (tree, generation) = (self.tree_of(&state), state.generation);
            drop(state);
            // Beyond the next change it decides nothing.
            let until = changed.map_or(end, |changed| changed.saturating_add(1).min(end));
            let hole = match tree.search(&self.reader(), block..until, false) {
                Ok(hole) => hole.unwrap_or(until),
                Err(error) => {
                    self.unless_swapped(generation, error)?;
                    continue;
                }
            };
            if changed.is_none_or(|changed| hole < changed) {
                block = hole;
                let state = self.state.read();
                if matches!(
                    state.newest(block),
                    Newest::Dirty(_) | Newest::Stored(..) | Newest::Sealed
                ) {
                    drop(state);
                    block += 1;
                    continue;
                }
                let last = state.header.max_block;
                block = block.min(last.saturating_add(1));
                break;
            }
            block = changed.unwrap_or(hole);
        }
        Ok(block
            .saturating_mul(size)
            .clamp(offset, range.end.max(offset)))
    }
}

/// `data` with exactly `size` bytes: a block written before its object's block size changed.
pub(super) fn fit(data: Buffer, size: usize) -> Buffer {
    if data.len() == size {
        data
    } else {
        resized(&data, size).freeze()
    }
}

/// A copy of `data` with `size` bytes.
pub(super) fn resized(data: &[u8], size: usize) -> BufferMut {
    let len = data.len().min(size);
    if len == size {
        return BufferMut::from_slice(&data[..size]);
    }
    let mut grown = BufferMut::zeroed(size);
    grown[..len].copy_from_slice(&data[..len]);
    grown
}
