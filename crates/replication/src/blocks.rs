//! Finding the pointers of a dataset's blocks without opening it: that takes no key.

use std::sync::Arc;

use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use dmu::DmuError;
use dsl::{Dataset, DslError};
use format::dnode::{SLOTS_PER_BLOCK, Slot, slots};
use format::{BlockPointer, DnodePhys, FormatError, ObjectSetPhys};
use pipeline::{ReadError, ReadRequest};
use pool::Pool;
use sys::Buffer;

/// Why a pointer cannot be found.
#[derive(Debug, thiserror::Error)]
pub enum FindError {
    /// The dataset's record.
    #[error(transparent)]
    Dsl(#[from] DslError),
    /// Its objects.
    #[error(transparent)]
    Dmu(#[from] DmuError),
    /// A block that leads there.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// What such a block says.
    #[error(transparent)]
    Format(#[from] FormatError),
}

type Result<T, E = FindError> = std::result::Result<T, E>;

/// How a dnode's tree is made.
#[derive(Clone, Copy)]
struct Shape {
    /// Log2 of the pointers in an indirect block.
    shift: u32,
    /// The level of the blocks that the dnode's pointers lead to.
    top: u8,
}

impl Shape {
    fn of(dnode: &DnodePhys) -> Self {
        Self {
            shift: dnode.entries_shift(),
            top: dnode.levels.saturating_sub(1),
        }
    }

    /// The number of the block of a level that leads to a block.
    fn index(self, level: u8, block: u64) -> u64 {
        let shift = self.shift.saturating_mul(level.into());
        block.checked_shr(shift).unwrap_or(0)
    }

    /// The first block behind those that the one of a level leads to that leads to `block`.
    fn end_of(self, level: u8, block: u64) -> u64 {
        let shift = self.shift.saturating_mul(level.into());
        let next = self.index(level, block).saturating_add(1);
        match next.checked_shl(shift) {
            Some(end) if end >> shift == next => end,
            Some(_) | None => u64::MAX,
        }
    }

    fn top_pointer(self, dnode: &DnodePhys, block: u64) -> Option<BlockPointer> {
        let index = usize::try_from(self.index(self.top, block)).ok()?;
        let count = usize::from(dnode.pointer_count);
        dnode.pointers.get(..count)?.get(index).copied()
    }

    /// The pointer in an indirect block of a level that leads to a block.
    fn entry(self, data: &[u8], level: u8, block: u64) -> BlockPointer {
        let below = self.index(level.saturating_sub(1), block);
        let entry = below & ((1_u64 << self.shift) - 1);
        let at = usize::try_from(entry).unwrap_or(usize::MAX);
        dmu::raw::entry(data, at).unwrap_or(BlockPointer::HOLE)
    }
}

/// The blocks of a dataset that does not change: of a snapshot that is held.
pub(crate) struct Blocks {
    pool: Arc<Pool>,
    set: ObjectSetId,
    root: Option<ObjectSetPhys>,
    /// The block of dnodes that was asked for last.
    dnodes: Option<(u64, Buffer)>,
}

impl Blocks {
    pub(crate) fn of(pool: &Arc<Pool>, dataset: &Dataset) -> Result<Self> {
        Ok(Self {
            pool: Arc::clone(pool),
            set: ObjectSetId(dataset.id().0),
            root: dataset.root()?,
            dnodes: None,
        })
    }

    /// The object set, as places name it.
    pub(crate) const fn set(&self) -> ObjectSetId {
        self.set
    }

    /// The dnode of an object; nothing where there is none.
    pub(crate) fn dnode(&mut self, object: ObjectId) -> Result<Option<DnodePhys>> {
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        let (index, slot) = (object.0 / PER_BLOCK, (object.0 % PER_BLOCK) as usize);
        if self.dnodes.as_ref().is_none_or(|(last, _)| *last != index) {
            self.dnodes = None;
            let Some(root) = &self.root else {
                return Ok(None);
            };
            let meta = ObjectId(0);
            let pointer = self.pointer(meta, &root.meta_dnode, index)?;
            if pointer.is_hole() {
                return Ok(None);
            }
            self.dnodes = Some((index, self.read(&pointer, meta, 0, index)?));
        }
        let Some((_, block)) = &self.dnodes else {
            return Ok(None);
        };
        // What looks like a dnode in the middle of another is none.
        let is_there =
            slots(block).any(|(at, found)| at == slot && matches!(found, Slot::Allocated { .. }));
        Ok(is_there.then(|| dmu::raw::dnode(block, slot)).transpose()?)
    }

    /// The pointer of a block of dnodes.
    pub(crate) fn dnodes_pointer(&self, index: u64) -> Result<BlockPointer> {
        match &self.root {
            Some(root) => self.pointer(ObjectId(0), &root.meta_dnode, index),
            None => Ok(BlockPointer::HOLE),
        }
    }

    /// The first block of dnodes from one on that is there.
    pub(crate) fn next_dnodes(&self, index: u64) -> Result<Option<u64>> {
        let Some(root) = &self.root else {
            return Ok(None);
        };
        let mut index = index;
        while let Some((first, pointers)) = self.first_leaf(ObjectId(0), &root.meta_dnode, index)? {
            let known = (first..).zip(&pointers);
            let mut found = known.filter(|(at, pointer)| *at >= index && !pointer.is_hole());
            if let Some((at, _)) = found.next() {
                return Ok(Some(at));
            }
            index = first.saturating_add(pointers.len() as u64);
        }
        Ok(None)
    }

    /// The pointer of an object's block; a hole behind its end.
    pub(crate) fn pointer(
        &self,
        object: ObjectId,
        dnode: &DnodePhys,
        block: u64,
    ) -> Result<BlockPointer> {
        self.pointer_and_span(object, dnode, block, Txg(0))
            .map(|(pointer, _)| pointer)
    }

    /// The pointer that leads to a block, and the first block behind those that it leads to: of one that is a hole, or
    /// not younger than a txg, itself, else that of the block alone.
    pub(crate) fn pointer_and_span(
        &self,
        object: ObjectId,
        dnode: &DnodePhys,
        block: u64,
        since: Txg,
    ) -> Result<(BlockPointer, u64)> {
        let tree = Shape::of(dnode);
        let Some(mut pointer) = tree.top_pointer(dnode, block) else {
            return Ok((BlockPointer::HOLE, u64::MAX));
        };
        for level in (1..=tree.top).rev() {
            let is_old = pointer.birth() <= since && since != Txg(0);
            if pointer.is_hole() || pointer.is_redacted() || is_old {
                return Ok((pointer, tree.end_of(level, block)));
            }
            let data = self.read(&pointer, object, level, tree.index(level, block))?;
            pointer = tree.entry(&data, level, block);
        }
        Ok((pointer, block.saturating_add(1)))
    }

    /// The pointers of the first indirect block of level 1, or of the dnode of a tree without any, that is there and
    /// leads to `from` or to blocks behind it; with the number of the first block that they lead to.
    pub(crate) fn first_leaf(
        &self,
        object: ObjectId,
        dnode: &DnodePhys,
        from: u64,
    ) -> Result<Option<(u64, Vec<BlockPointer>)>> {
        let tree = Shape::of(dnode);
        let mut block = from;
        'next: while let Some(mut pointer) = tree.top_pointer(dnode, block) {
            if block > dnode.max_block_id {
                break;
            }
            if tree.top == 0 {
                let count = usize::from(dnode.pointer_count);
                let pointers = dnode.pointers.get(..count).unwrap_or_default();
                return Ok((block == 0).then(|| (0, pointers.to_vec())));
            }
            for level in (1..=tree.top).rev() {
                if pointer.is_hole() || pointer.is_redacted() {
                    let end = tree.end_of(level, block);
                    if end <= block {
                        break 'next;
                    }
                    block = end;
                    continue 'next;
                }
                let data = self.read(&pointer, object, level, tree.index(level, block))?;
                if level == 1 {
                    let first = tree.index(1, block) << tree.shift;
                    return Ok(Some((first, dmu::raw::entries(&data).collect())));
                }
                pointer = tree.entry(&data, level, block);
            }
        }
        Ok(None)
    }

    fn read(
        &self,
        pointer: &BlockPointer,
        object: ObjectId,
        level: u8,
        index: u64,
    ) -> Result<Buffer> {
        let place = Bookmark::new(self.set, object, level, index);
        let request = ReadRequest::new(place).for_structure();
        Ok(self.pool.pipeline().read(pointer, &request)?)
    }
}
