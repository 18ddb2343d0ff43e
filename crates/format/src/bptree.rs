//! The queue of datasets being destroyed in the background: root pointers still to be freed.
//!
//! Blocks of a tree are freed children before parents: objects ascend, the three accounting objects last; within an
//! object blocks ascend, the spill block last. An entry's bookmark is the block that comes next, whose children are
//! gone already.

use base::Txg;

use crate::block_pointer::BlockPointer;
use crate::dnode::SLOTS_PER_BLOCK;
use crate::record::record;

/// [`BlockTreeEntry::birth`] of an entry that is done.
pub const DONE: Txg = Txg(u64::MAX);

/// The level of a bookmark that is the root's own.
pub const ROOT_LEVEL: u64 = u64::MAX;
/// The number of the block of attributes that did not fit a dnode.
pub const SPILL_BLOCK: u64 = u64::MAX - 1;
/// The object that accounts for users.
pub const USER: u64 = u64::MAX;
/// The object that accounts for groups.
pub const GROUP: u64 = u64::MAX - 1;
/// The object that accounts for projects.
pub const PROJECT: u64 = u64::MAX - 2;

record! {
    /// The bonus of the queue object.
    #[doc(alias = "bptree_phys_t")]
    pub struct BlockTreePhys [40] {
        /// First entry in use.
        #[doc(alias = "bt_begin")]
        begin: u64 = 0,
        /// One past the last entry.
        #[doc(alias = "bt_end")]
        end: u64 = 8,
        /// Allocated bytes still to be freed.
        #[doc(alias = "bt_bytes")]
        bytes: u64 = 16,
        /// Their compressed size.
        #[doc(alias = "bt_comp")]
        compressed: u64 = 24,
        /// Their uncompressed size.
        #[doc(alias = "bt_uncomp")]
        uncompressed: u64 = 32,
    }
}

record! {
    /// One dataset's tree.
    #[doc(alias = "bptree_entry_phys_t")]
    pub struct BlockTreeEntry [168] {
        /// Its root.
        #[doc(alias = "be_bp")]
        root: BlockPointer = 0,
        /// Only blocks born after this txg are freed.
        #[doc(alias = "be_birth_txg")]
        birth: Txg = 128,
        /// How far the walk came: object set, object, level, block.
        #[doc(alias = "be_zb")]
        bookmark: [u64; 4] = 136,
    }
}

impl BlockTreeEntry {
    /// Byte offset of an entry in the queue object.
    #[must_use]
    pub const fn offset(index: u64) -> u64 {
        index.saturating_mul(Self::SIZE as u64)
    }
}

/// Whether a bookmark says that only the root is left.
#[must_use]
pub const fn is_root(bookmark: &[u64; 4]) -> bool {
    bookmark[2] == ROOT_LEVEL
}

/// What of a block and of what it leads to was freed before a bookmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreedTo {
    /// It and all below.
    All,
    /// All below.
    Children,
    /// Not the block, and not all below.
    Nothing,
}

/// A block's place in the tree of an object set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreePlace {
    /// Its object; 0 for the dnodes themselves.
    pub object: u64,
    /// Its level.
    pub level: u8,
    /// Its number at this level.
    pub block: u64,
    /// Log2 of the pointers in an indirect block of the object.
    pub entries_shift: u32,
}

/// A position in the order of the walk: object, then block.
type Position = (u64, u64);

/// What a block covers, and its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    first: Position,
    last: Position,
    level: u32,
}

impl TreePlace {
    /// Where a block's pointer of this number leads to.
    #[must_use]
    pub fn child(self, index: u64) -> Self {
        let first = shift_up(self.block, self.entries_shift);
        Self {
            level: self.level.saturating_sub(1),
            block: first.saturating_add(index),
            ..self
        }
    }

    /// What was freed of it before the walk came to `bookmark`.
    #[must_use]
    pub fn freed_to(self, bookmark: &[u64; 4]) -> FreedTo {
        let &[_, object, level, block] = bookmark;
        if *bookmark == [0; 4] {
            return FreedTo::Nothing;
        }
        if is_root(bookmark) {
            return FreedTo::All;
        }
        if (self.object, u64::from(self.level), self.block) == (object, level, block) {
            return FreedTo::Children;
        }
        let next = self.extent_of(bookmark);
        let own = self.extent();
        let inside = own.first >= next.first && own.last <= next.last && own.level < next.level;
        if own.last < next.first || inside {
            FreedTo::All
        } else {
            FreedTo::Nothing
        }
    }

    /// Whether what a bookmark says that is next lies below this block.
    #[must_use]
    pub fn holds(self, bookmark: &[u64; 4]) -> bool {
        if *bookmark == [0; 4] || is_root(bookmark) {
            return false;
        }
        let (next, own) = (self.extent_of(bookmark), self.extent());
        own.first <= next.first && next.last <= own.last
    }

    /// Object and number of the first block of level 0 below this one: of the dnodes themselves, of the first object of
    /// which they can be.
    #[must_use]
    pub fn first_below(self) -> (u64, u64) {
        match self.extent().first {
            (0, _) => (1, 0),
            first => first,
        }
    }

    /// What the block of a bookmark covers. The shift of another object's tree is not known, nor needed: its level is 0
    /// or its extent is compared by object alone.
    fn extent_of(self, &[_, object, level, block]: &[u64; 4]) -> Extent {
        let level = u8::try_from(level).unwrap_or(u8::MAX);
        let named = Self {
            object,
            level,
            block,
            ..self
        };
        named.extent()
    }

    fn extent(self) -> Extent {
        /// A block of dnodes stands above all blocks of its objects.
        const ABOVE_OBJECTS: u32 = 64;
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        if self.block == SPILL_BLOCK {
            let at = (self.object, SPILL_BLOCK);
            return Extent {
                first: at,
                last: at,
                level: 0,
            };
        }
        let shift = u32::from(self.level).saturating_mul(self.entries_shift);
        let first = shift_up(self.block, shift);
        let end = shift_up(self.block.saturating_add(1), shift);
        let level = u32::from(self.level);
        if self.object != 0 {
            return Extent {
                first: (self.object, first),
                last: (self.object, end.saturating_sub(1)),
                level,
            };
        }
        Extent {
            first: (first.saturating_mul(PER_BLOCK), 0),
            last: (end.saturating_mul(PER_BLOCK).saturating_sub(1), USER),
            level: ABOVE_OBJECTS + level,
        }
    }
}

fn shift_up(value: u64, shift: u32) -> u64 {
    if shift >= u64::BITS || value > u64::MAX >> shift {
        u64::MAX
    } else {
        value << shift
    }
}

#[cfg(test)]
mod tests;
