//! Makes the next tree of an object while a txg syncs: frees, new data pointers, then the indirect
//! blocks from the bottom up. Serial for one object; many objects are edited at once.
//!
//! Invariant: a pointer is reported dead exactly when nothing in the new tree holds it, and born
//! exactly when the new tree does and the old did not.

use std::collections::BTreeMap;

use base::Txg;
use base::invariant;
use format::BlockPointer;
use format::dnode::LEVELS_MAX;
use sys::{Buffer, BufferMut};

use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::pointer;
use crate::store::{BlockKind, BlockStore, BlockWrite, SyncContext};
use crate::tree::{Reader, Tree, shift_left, shift_right};
use crate::tunables;

/// An indirect block being changed.
struct Node {
    data: BufferMut,
    /// What the tree held before.
    original: BlockPointer,
}

/// The tree of one object on its way to the next version.
pub(crate) struct Editor<'a> {
    tree: Tree,
    context: &'a SyncContext<'a>,
    reader: Reader<'a>,
    nodes: BTreeMap<(u8, u64), Node>,
    /// The indirect block last read, for neighbours.
    recent: Option<((u8, u64), Buffer)>,
    /// The indirect block that the last data block's pointer was put into.
    filling: Option<u64>,
    used_delta: i64,
    touched: bool,
    /// The last block under a freed range that could not be read.
    unreadable: Option<BlockPointer>,
}

/// An object's next tree.
pub(crate) struct Edited {
    pub(crate) tree: Tree,
    /// By how many bytes the space of its blocks changed.
    pub(crate) used_delta: i64,
    /// Whether any block was born or killed.
    pub(crate) touched: bool,
    /// The last block under a freed range that could not be read: what is below it is lost.
    pub(crate) unreadable: Option<BlockPointer>,
}

/// Reports the replacement of `old` by `new`; by how much the space changed, and whether any
/// block was born or killed.
pub(crate) fn book(
    context: &SyncContext<'_>,
    store: &dyn BlockStore,
    old: &BlockPointer,
    new: &BlockPointer,
) -> (i64, bool) {
    let mut delta = 0;
    if old == new || pointer::is_rewrite(old, new) {
        return (delta, false);
    }
    if !old.is_hole() {
        delta -= store.charged_bytes(old).cast_signed();
        context.accounting.killed(old);
    }
    if !new.is_hole() {
        check_birth(context, new);
        delta += store.charged_bytes(new).cast_signed();
        context.accounting.born(new);
    }
    (delta, !(old.is_hole() && new.is_hole()))
}

/// What a txg puts into a tree is born in it, also where the bytes were stored before: by that snapshots are told apart
/// from what came after them. Of a block that was written anew as it is, that is the physical birth.
fn check_birth(context: &SyncContext<'_>, new: &BlockPointer) {
    let Some(engine) = context.engine else {
        return;
    };
    let (birth, physical) = (new.space_birth(), new.physical_birth());
    invariant!(
        engine.findings(),
        birth == context.txg && physical <= birth && new.birth() <= birth,
        "dmu.births",
        "a block is written in txg {}, and its pointer says {birth}, stored in {physical}",
        context.txg
    );
}

impl<'a> Editor<'a> {
    pub(crate) const fn new(tree: Tree, context: &'a SyncContext<'a>, reader: Reader<'a>) -> Self {
        Self {
            tree,
            context,
            reader,
            nodes: BTreeMap::new(),
            recent: None,
            filling: None,
            used_delta: 0,
            touched: false,
            unreadable: None,
        }
    }

    /// Adds levels until `block` can be addressed.
    pub(crate) fn grow_to(&mut self, block: u64) -> Result<()> {
        while block >= self.tree.capacity() {
            self.add_level()?;
        }
        Ok(())
    }

    /// Adds levels until there are so many.
    pub(crate) fn raise(&mut self, levels: u8) -> Result<()> {
        while self.tree.levels < levels {
            self.add_level()?;
        }
        Ok(())
    }

    fn add_level(&mut self) -> Result<()> {
        if self.tree.levels >= LEVELS_MAX || self.tree.entries_shift() == 0 {
            return Err(DmuError::corrupt(
                self.reader.place(self.tree.levels, 0),
                "no level can be added",
            ));
        }
        let old = self.tree.pointers;
        let level = self.tree.levels;
        self.tree.levels += 1;
        self.tree.pointers = [BlockPointer::HOLE; 3];
        if old.iter().any(|pointer| pointer.birth() != Txg(0)) {
            let mut data = BufferMut::zeroed(self.tree.indirect_size());
            for (index, pointer) in old.iter().enumerate() {
                pointer::put(&mut data, index, pointer);
            }
            self.nodes.insert(
                (level, 0),
                Node {
                    data,
                    original: BlockPointer::HOLE,
                },
            );
        }
        Ok(())
    }

    /// The pointer to block `index` of `level`, as the edit stands.
    pub(crate) fn pointer_at(&mut self, level: u8, index: u64) -> Result<BlockPointer> {
        if level + 1 >= self.tree.levels {
            let count = u64::from(self.tree.pointer_count);
            return Ok(if index < count {
                self.tree.pointers[index as usize]
            } else {
                BlockPointer::HOLE
            });
        }
        let shift = self.tree.entries_shift();
        let key = (level + 1, shift_right(index, shift));
        let entry = (index & ((1 << shift) - 1)) as usize;
        if let Some(node) = self.nodes.get(&key) {
            return Ok(pointer::get(&node.data, entry));
        }
        if let Some((recent, data)) = &self.recent
            && *recent == key
        {
            return Ok(pointer::get(data, entry));
        }
        let parent = self.pointer_at(key.0, key.1)?;
        if parent.is_hole() {
            return Ok(self.tree.child_hole(&parent, level));
        }
        let data = self
            .tree
            .read_indirect(&self.reader, &parent, key.0, key.1)?;
        let found = pointer::get(&data, entry);
        if key.0 == 1 {
            self.recent = Some((key, data));
        }
        Ok(found)
    }

    /// Sets the pointer to block `index` of `level`.
    pub(crate) fn set_pointer(&mut self, level: u8, index: u64, new: BlockPointer) -> Result<()> {
        if level + 1 >= self.tree.levels {
            if let Some(slot) = self.tree.pointers.get_mut(index as usize) {
                *slot = new;
            }
            return Ok(());
        }
        let shift = self.tree.entries_shift();
        let entry = (index & ((1 << shift) - 1)) as usize;
        let node = self.node(level + 1, shift_right(index, shift))?;
        pointer::put(&mut node.data, entry, &new);
        Ok(())
    }

    /// The indirect block `index` of `level`, loaded for changing.
    fn node(&mut self, level: u8, index: u64) -> Result<&mut Node> {
        let key = (level, index);
        if !self.nodes.contains_key(&key) {
            let original = self.pointer_at(level, index)?;
            let data = if original.is_hole() {
                self.hole_node(&original, level)
            } else {
                let recent = self.recent.take_if(|(recent, _)| *recent == key);
                let data = match recent {
                    Some((_, data)) => data,
                    None => self
                        .tree
                        .read_indirect(&self.reader, &original, level, index)?,
                };
                BufferMut::from_slice(&data)
            };
            self.nodes.insert(key, Node { data, original });
        }
        self.nodes.get_mut(&key).ok_or_else(|| {
            DmuError::corrupt(self.reader.place(level, index), "indirect block lost")
        })
    }

    /// What a hole stands for one level down.
    fn hole_node(&self, original: &BlockPointer, level: u8) -> BufferMut {
        let mut data = BufferMut::zeroed(self.tree.indirect_size());
        let child = self.tree.child_hole(original, level - 1);
        if child.birth() != Txg(0) {
            for entry in 0..1usize << self.tree.entries_shift() {
                pointer::put(&mut data, entry, &child);
            }
        }
        data
    }

    /// The pointer that takes the place of `old` when its block is freed.
    fn freed(&self, old: &BlockPointer, level: u8) -> BlockPointer {
        if old.birth() == Txg(0) || !self.context.hole_birth {
            return BlockPointer::HOLE;
        }
        pointer::hole(
            self.tree.size_at(level),
            self.tree.object_type,
            level,
            self.context.txg,
        )
    }

    fn kill(&mut self, dead: &BlockPointer) {
        self.replaced(dead, &BlockPointer::HOLE);
    }

    /// Books the replacement of `old` by `new`.
    fn replaced(&mut self, old: &BlockPointer, new: &BlockPointer) {
        let (delta, changed) = book(self.context, self.reader.store, old, new);
        self.used_delta += delta;
        self.touched |= changed;
    }

    /// Sets the pointer of a data block that was written. Given in the order of their numbers, they keep one indirect
    /// block of each level in memory at a time.
    pub(crate) fn set_data(
        &mut self,
        block: u64,
        old: &BlockPointer,
        new: BlockPointer,
    ) -> Result<()> {
        let above = shift_right(block, self.tree.entries_shift());
        if self.filling.replace(above).is_some_and(|last| last < above) {
            self.write_before(block)?;
        }
        self.replaced(old, &new);
        self.set_pointer(0, block, new)
    }

    /// Writes the changed indirect blocks that lie as a whole before data block `block`.
    fn write_before(&mut self, block: u64) -> Result<()> {
        #[cfg(test)]
        tests::note_open(self.nodes.len());
        for level in 1..self.tree.levels {
            let end = shift_right(block, self.tree.span_shift(level));
            while let Some((&key, _)) = self.nodes.range((level, 0)..(level, end)).next()
                && let Some(node) = self.nodes.remove(&key)
            {
                self.write(level, key.1, node)?;
            }
        }
        Ok(())
    }

    fn write(&mut self, level: u8, index: u64, node: Node) -> Result<()> {
        let original = node.original;
        let new = self.write_node(level, index, node)?;
        self.replaced(&original, &new);
        self.set_pointer(level, index, new)
    }

    /// Frees the data blocks `first..=last`, whole indirect subtrees at once.
    pub(crate) fn free(&mut self, first: u64, last: u64) -> Result<()> {
        let level = self.tree.levels - 1;
        let shift = self.tree.span_shift(level);
        let end = shift_right(last, shift).min(u64::from(self.tree.pointer_count) - 1);
        let mut index = shift_right(first, shift);
        while index <= end {
            self.free_under(level, index, (first, last))?;
            index += 1;
        }
        Ok(())
    }

    fn free_under(&mut self, level: u8, index: u64, range: (u64, u64)) -> Result<()> {
        let old = self.pointer_at(level, index)?;
        let loaded = self.nodes.contains_key(&(level, index));
        if old.is_hole() && !loaded {
            return Ok(());
        }
        let span = self.tree.span_shift(level);
        let start = shift_left(index, span);
        let end = start.saturating_add(shift_left(1, span) - 1);
        if range.0 <= start && end <= range.1 {
            let new = self.freed(&old, level);
            self.kill_subtree(&old, level, index)?;
            return self.set_pointer(level, index, new);
        }
        let shift = self.tree.entries_shift();
        let below = self.tree.span_shift(level - 1);
        let base = shift_left(index, shift);
        let from = shift_right(range.0.max(start), below);
        let to = shift_right(range.1.min(end), below).min(base + (1 << shift) - 1);
        for child in from..=to {
            self.free_under(level - 1, child, range)?;
        }
        Ok(())
    }

    /// An indirect block whose children are to be freed. One that cannot be read leaks them: its tree goes all the
    /// same, for a txg cannot wait for what will never come back. (A device that is away is waited for by the store.)
    fn read_doomed(&mut self, old: &BlockPointer, level: u8, index: u64) -> Option<Buffer> {
        match self.tree.read_indirect(&self.reader, old, level, index) {
            Ok(data) => Some(data),
            Err(_) => {
                METERS.unreadable_freed.increment();
                if let Some(earlier) = self.unreadable.replace(*old) {
                    self.context.accounting.leaked(&earlier, 0);
                }
                None
            }
        }
    }

    /// Kills a block and all below it. The depth is bounded by the tree's levels.
    fn kill_subtree(&mut self, old: &BlockPointer, level: u8, index: u64) -> Result<()> {
        if level > 0 {
            let changed = self.nodes.remove(&(level, index));
            let data = match changed {
                Some(node) => Some(node.data.freeze()),
                None if old.is_hole() => None,
                None => self.read_doomed(old, level, index),
            };
            if self
                .recent
                .as_ref()
                .is_some_and(|(key, _)| *key == (level, index))
            {
                self.recent = None;
            }
            if let Some(data) = data {
                let shift = self.tree.entries_shift();
                let base = shift_left(index, shift);
                for entry in 0..1u64 << shift {
                    if level > 1 {
                        self.prefetch_child(&data, level - 1, base, entry);
                    }
                    let child = pointer::get(&data, entry as usize);
                    let below = (level - 1, base + entry);
                    if !child.is_hole() || (level > 1 && self.nodes.contains_key(&below)) {
                        self.kill_subtree(&child, below.0, below.1)?;
                    }
                }
            }
        }
        if !old.is_hole() {
            if level > 0 {
                // A snapshot may have it still. But however long a tree is that goes, it takes nobody's room.
                self.reader.store.forget(old);
            }
            self.kill(old);
        }
        Ok(())
    }

    /// Starts reading an indirect block that the walk will come to soon.
    fn prefetch_child(&self, data: &[u8], level: u8, base: u64, entry: u64) {
        let soon = entry + tunables::EDITOR_AHEAD.get();
        let child = pointer::get(data, soon as usize);
        if !child.is_hole() && !child.is_embedded() {
            let place = self.reader.place(level, base + soon);
            self.reader.store.prefetch(&[(child, place)]);
        }
    }

    /// Writes all changed indirect blocks.
    pub(crate) fn finish(mut self) -> Result<Edited> {
        for level in 1..self.tree.levels {
            let above = self.nodes.split_off(&(level + 1, 0));
            let mut done = std::mem::replace(&mut self.nodes, above);
            while let Some(((level, index), node)) = done.pop_first() {
                self.write(level, index, node)?;
            }
        }
        Ok(Edited {
            tree: self.tree,
            used_delta: self.used_delta,
            touched: self.touched,
            unreadable: self.unreadable,
        })
    }

    fn write_node(&self, level: u8, index: u64, node: Node) -> Result<BlockPointer> {
        let Node { data, original } = node;
        let mut fill = 0u64;
        let mut all_holes = true;
        let mut born = false;
        for entry in 0..1usize << self.tree.entries_shift() {
            let child = pointer::get(&data, entry);
            all_holes &= child.is_hole();
            born |= child.birth() != Txg(0);
            fill = fill.saturating_add(child.fill());
        }
        if all_holes {
            let was = original.birth() != Txg(0);
            let hole = self.context.hole_birth && (was || born);
            return Ok(if hole {
                let size = self.tree.indirect_size();
                pointer::hole(size, self.tree.object_type, level, self.context.txg)
            } else {
                BlockPointer::HOLE
            });
        }
        let data = data.freeze();
        let place = self.reader.place(level, index);
        let request = BlockWrite {
            data: &data,
            form: None,
            kind: BlockKind {
                object_type: self.tree.object_type,
                level,
                spill: false,
                checksum: 0,
                compress: 0,
            },
            fill,
            previous: original,
            shared: None,
            cached: true,
            place,
        };
        let written = self.context.writer.write(&request);
        let new = written.map_err(|source| DmuError::Write { place, source })?;
        self.reader.store.keep(&new, place, &data);
        Ok(new)
    }
}

#[cfg(test)]
mod tests;
