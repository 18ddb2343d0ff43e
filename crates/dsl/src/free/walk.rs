//! Walks the tree under an object set's root and gives every block born after some txg to be
//! freed, children before parents, so that a walk that pauses can go on from a bookmark: the block
//! that it was about to free, whose children are gone already. It pauses before blocks of level 0
//! only, for OpenZFS goes on from nothing else; bookmarks of other levels are understood.
//!
//! Order: objects ascend, the three accounting objects last; within an object blocks ascend, the
//! spill block last. A block that cannot be read is freed, and what hangs below it is lost.

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId, Txg};
use dmu::{BlockStore, DmuError, raw};
use format::dnode::{self, DnodePhys, SLOTS_PER_BLOCK, Slot};
use format::record::get_at;
use format::{BlockPointer, ObjectSetPhys};
use sys::Buffer;

use crate::error::Result;

/// The object set of bookmarks into trees whose dataset is gone.
const NO_OBJECT_SET: u64 = u64::MAX;
const SPILL_BLOCK: u64 = u64::MAX - 1;
const POINTER: usize = 128;
const USER: u64 = u64::MAX;
const GROUP: u64 = u64::MAX - 1;
const PROJECT: u64 = u64::MAX - 2;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// Everything was given.
    Done,
    /// The limit was reached; the walk goes on from this bookmark.
    Paused([u64; 4]),
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

/// A block's place in the tree.
#[derive(Clone, Copy, Debug)]
struct Spot {
    object: u64,
    level: u8,
    block: u64,
    entries_shift: u32,
}

impl Spot {
    fn extent(self) -> Extent {
        if self.block == SPILL_BLOCK {
            let at = (self.object, SPILL_BLOCK);
            return Extent {
                first: at,
                last: at,
                level: 0,
            };
        }
        let shift = u32::from(self.level) * self.entries_shift;
        let first = shift_up(self.block, shift);
        let last = shift_up(self.block.saturating_add(1), shift).saturating_sub(1);
        if self.object != 0 {
            let level = u32::from(self.level);
            return Extent {
                first: (self.object, first),
                last: (self.object, last),
                level,
            };
        }
        /// A block of dnodes stands above all blocks of its objects.
        const ABOVE_OBJECTS: u32 = 64;
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        Extent {
            first: (first.saturating_mul(PER_BLOCK), 0),
            last: (
                last.saturating_add(1)
                    .saturating_mul(PER_BLOCK)
                    .saturating_sub(1),
                USER,
            ),
            level: ABOVE_OBJECTS + u32::from(self.level),
        }
    }

    fn bookmark(self) -> [u64; 4] {
        [NO_OBJECT_SET, self.object, self.level.into(), self.block]
    }

    fn place(self) -> Bookmark {
        let object_set = ObjectSetId(NO_OBJECT_SET);
        if self.block == SPILL_BLOCK {
            return Bookmark::spill(object_set, ObjectId(self.object));
        }
        Bookmark::new(object_set, ObjectId(self.object), self.level, self.block)
    }
}

fn shift_up(value: u64, shift: u32) -> u64 {
    if shift >= u64::BITS || value > u64::MAX >> shift {
        u64::MAX
    } else {
        value << shift
    }
}

/// What to do with a block while the walk has not found its bookmark again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Resume {
    /// It and all below were freed.
    Skip,
    /// All below was freed.
    SkipChildren,
    /// The bookmark may lie below, or the walk goes on anyway.
    Enter,
}

/// A walk.
pub(super) struct TreeWalk<'a> {
    store: &'a dyn BlockStore,
    birth: Txg,
    bookmark: Option<[u64; 4]>,
    limit: u64,
    visited: u64,
    paused: Option<[u64; 4]>,
}

type Free<'f> = dyn FnMut(&BlockPointer) -> Result<()> + 'f;

impl<'a> TreeWalk<'a> {
    /// A walk over blocks born after `birth`, from `bookmark` (zeros: from the start), that gives
    /// `limit` blocks at most, and then those above the last one of level 0 that hold nothing else.
    pub(super) fn new(
        store: &'a dyn BlockStore,
        birth: Txg,
        bookmark: [u64; 4],
        limit: u64,
    ) -> Self {
        let bookmark = (bookmark != [0; 4]).then_some(bookmark);
        Self {
            store,
            birth,
            bookmark,
            limit,
            visited: 0,
            paused: None,
        }
    }

    /// Blocks given so far.
    pub(super) const fn visited(&self) -> u64 {
        self.visited
    }

    /// Walks the tree under `root`.
    pub(super) fn run(&mut self, root: &BlockPointer, free: &mut Free<'_>) -> Result<WalkEnd> {
        if self.is_dead(root) {
            let place = Bookmark::root(ObjectSetId(NO_OBJECT_SET));
            let at_root = self.bookmark.is_some_and(|mark| mark[2] == u64::MAX);
            if !at_root
                && let Some(block) = self.read(root, place)?
                && let Ok(phys) = raw::root(&block)
            {
                self.object_set(&phys, free)?;
            }
            const ROOT_LEVEL: u64 = u64::MAX;
            self.give(root, [NO_OBJECT_SET, 0, ROOT_LEVEL, 0], free)?;
        }
        Ok(self.paused.map_or(WalkEnd::Done, WalkEnd::Paused))
    }

    fn object_set(&mut self, phys: &ObjectSetPhys, free: &mut Free<'_>) -> Result<()> {
        self.dnode(&phys.meta_dnode, 0, free)?;
        let owners = [
            (PROJECT, &phys.project_used),
            (GROUP, &phys.group_used),
            (USER, &phys.user_used),
        ];
        for (object, dnode) in owners {
            if let Some(dnode) = dnode {
                self.dnode(dnode, object, free)?;
            }
        }
        Ok(())
    }

    fn dnode(&mut self, dnode: &DnodePhys, object: u64, free: &mut Free<'_>) -> Result<()> {
        let level = dnode.levels - 1;
        let entries_shift = dnode.entries_shift();
        let count = usize::from(dnode.pointer_count).min(dnode.pointers.len());
        for (block, pointer) in (0u64..).zip(&dnode.pointers[..count]) {
            self.block(
                pointer,
                Spot {
                    object,
                    level,
                    block,
                    entries_shift,
                },
                free,
            )?;
        }
        if let Some(spill) = &dnode.spill {
            let spot = Spot {
                object,
                level: 0,
                block: SPILL_BLOCK,
                entries_shift,
            };
            self.block(spill, spot, free)?;
        }
        Ok(())
    }

    fn is_dead(&self, pointer: &BlockPointer) -> bool {
        !pointer.is_hole() && pointer.birth() > self.birth && self.paused.is_none()
    }

    fn block(&mut self, pointer: &BlockPointer, spot: Spot, free: &mut Free<'_>) -> Result<()> {
        if !self.is_dead(pointer) {
            return Ok(());
        }
        let resume = self.resume(spot);
        if resume == Resume::Skip {
            return Ok(());
        }
        if resume == Resume::Enter {
            self.below(pointer, spot, free)?;
        }
        self.give(pointer, spot.bookmark(), free)
    }

    fn below(&mut self, pointer: &BlockPointer, spot: Spot, free: &mut Free<'_>) -> Result<()> {
        if spot.level == 0 && spot.object != 0 {
            return Ok(());
        }
        let Some(block) = self.read(pointer, spot.place())? else {
            return Ok(());
        };
        if spot.level == 0 {
            return self.dnodes(&block, spot.block, free);
        }
        for (index, bytes) in (0u64..).zip(block.chunks_exact(POINTER)) {
            let child: BlockPointer = get_at(bytes, 0, ByteOrder::NATIVE);
            let first = shift_up(spot.block, spot.entries_shift);
            let child_spot = Spot {
                level: spot.level - 1,
                block: first.saturating_add(index),
                ..spot
            };
            self.block(&child, child_spot, free)?;
        }
        Ok(())
    }

    fn dnodes(&mut self, block: &Buffer, number: u64, free: &mut Free<'_>) -> Result<()> {
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        for (index, slot) in dnode::slots(block) {
            if slot == Slot::Free {
                continue;
            }
            let object = number
                .saturating_mul(PER_BLOCK)
                .saturating_add(index as u64);
            if let Ok(dnode) = raw::dnode(block, index)
                && object != 0
            {
                self.dnode(&dnode, object, free)?;
            }
        }
        Ok(())
    }

    /// The content of a block; none if it is lost. One on a device that does not answer is not.
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Option<Buffer>> {
        match self.store.read_structure(pointer, place) {
            Ok(block) => Ok(Some(block)),
            Err(source) if source.is_of_device() => Err(DmuError::Read { place, source }.into()),
            Err(_) => Ok(None),
        }
    }

    /// Gives a block, or pauses before it.
    ///
    /// Between two blocks of level 0 there are no more others than the trees above them have levels.
    fn give(
        &mut self,
        pointer: &BlockPointer,
        bookmark: [u64; 4],
        free: &mut Free<'_>,
    ) -> Result<()> {
        if self.paused.is_some() {
            return Ok(());
        }
        const LEVEL: usize = 2;
        if self.visited >= self.limit && bookmark[LEVEL] == 0 {
            self.paused = Some(bookmark);
            return Ok(());
        }
        self.visited += 1;
        free(pointer)
    }

    fn resume(&mut self, spot: Spot) -> Resume {
        let Some([_, object, level, block]) = self.bookmark else {
            return Resume::Enter;
        };
        if level == u64::MAX {
            return Resume::Skip;
        }
        if (spot.object, u64::from(spot.level), spot.block) == (object, level, block) {
            self.bookmark = None;
            return Resume::SkipChildren;
        }
        // The shift of another object's tree is not known, nor needed: its level is 0 or its
        // extent is compared by object alone.
        let level = u8::try_from(level).unwrap_or(u8::MAX);
        let mark = Spot {
            object,
            level,
            block,
            entries_shift: spot.entries_shift,
        }
        .extent();
        let mine = spot.extent();
        if mine.first > mark.last {
            self.bookmark = None;
            return Resume::Enter;
        }
        let inside = mine.first >= mark.first && mine.last <= mark.last && mine.level < mark.level;
        if mine.last < mark.first || inside {
            Resume::Skip
        } else {
            Resume::Enter
        }
    }
}
