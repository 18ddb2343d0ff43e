//! Walks the tree under an object set's root and gives every block born after some txg to be
//! freed, children before parents, so that a walk that pauses can go on from a bookmark: the block
//! that it was about to free, whose children are gone already. It pauses before blocks of level 0
//! only, for OpenZFS goes on from nothing else; bookmarks of other levels are understood.
//!
//! Order: objects ascend, the three accounting objects last; within an object blocks ascend, the
//! spill block last. A block that cannot be read is freed, and what hangs below it is lost; one on a device that does
//! not answer is waited for: by the walk, which comes back another time, or by the sync where there is no other time.

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId, Txg};
use dmu::{BlockStore, DmuError, raw};
use format::bptree::{self, FreedTo, TreePlace};
use format::dnode::{self, DnodePhys, SLOTS_PER_BLOCK, Slot};
use format::record::get_at;
use format::{BlockPointer, ObjectSetPhys};
use sys::Buffer;
use txg::SyncContext;

use crate::error::Result;

/// The object set of bookmarks into trees whose dataset is gone.
const NO_OBJECT_SET: u64 = u64::MAX;
const POINTER: usize = 128;

/// How a walk ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WalkEnd {
    /// Everything was given.
    Done,
    /// The limit was reached; the walk goes on from this bookmark.
    Paused([u64; 4]),
    /// A device does not answer that may have what comes next; from this bookmark on nothing was freed.
    Waiting([u64; 4]),
}

/// What a walk does when a device does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// It ends, and comes back in a later txg.
    Later,
    /// It waits for the device, as the txg does that it is a part of.
    Now,
}

/// A walk.
pub(super) struct TreeWalk<'a> {
    store: &'a dyn BlockStore,
    birth: Txg,
    bookmark: Option<[u64; 4]>,
    limit: u64,
    visited: u64,
    /// How it ends, as far as is known: once it is to pause, nothing more is looked at.
    end: WalkEnd,
    patience: Patience,
}

/// The content of a block.
enum Content {
    There(Buffer),
    /// No device has it any more.
    Lost,
    /// Some device may have it that does not answer.
    Away,
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
        patience: Patience,
    ) -> Self {
        let bookmark = (bookmark != [0; 4]).then_some(bookmark);
        Self {
            store,
            birth,
            bookmark,
            limit,
            visited: 0,
            end: WalkEnd::Done,
            patience,
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
            let at_root = self.bookmark.is_some_and(|at| bptree::is_root(&at));
            if !at_root {
                match self.read(root, place)? {
                    Content::There(block) => {
                        if let Ok(phys) = raw::root(&block) {
                            self.object_set(&phys, free)?;
                        }
                    }
                    Content::Lost => {}
                    Content::Away => self.end = WalkEnd::Waiting(self.bookmark.unwrap_or_default()),
                }
            }
            self.give(root, [NO_OBJECT_SET, 0, bptree::ROOT_LEVEL, 0], free)?;
        }
        Ok(self.end)
    }

    /// Ends before anything below a block, but for what was freed there before this walk.
    fn wait_below(&mut self, place: TreePlace) {
        let (object, block) = place.first_below();
        let first = [NO_OBJECT_SET, object, 0, block];
        let known = self.bookmark.filter(|at| place.holds(at));
        self.end = WalkEnd::Waiting(known.unwrap_or(first));
    }

    fn object_set(&mut self, phys: &ObjectSetPhys, free: &mut Free<'_>) -> Result<()> {
        self.dnode(&phys.meta_dnode, 0, free)?;
        let owners = [
            (bptree::PROJECT, &phys.project_used),
            (bptree::GROUP, &phys.group_used),
            (bptree::USER, &phys.user_used),
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
                TreePlace {
                    object,
                    level,
                    block,
                    entries_shift,
                },
                free,
            )?;
        }
        if let Some(spill) = &dnode.spill {
            let place = TreePlace {
                object,
                level: 0,
                block: bptree::SPILL_BLOCK,
                entries_shift,
            };
            self.block(spill, place, free)?;
        }
        Ok(())
    }

    fn is_dead(&self, pointer: &BlockPointer) -> bool {
        !pointer.is_hole() && pointer.space_birth() > self.birth && self.end == WalkEnd::Done
    }

    fn block(
        &mut self,
        pointer: &BlockPointer,
        place: TreePlace,
        free: &mut Free<'_>,
    ) -> Result<()> {
        if !self.is_dead(pointer) {
            return Ok(());
        }
        let freed = self
            .bookmark
            .map_or(FreedTo::Nothing, |at| place.freed_to(&at));
        if freed == FreedTo::All {
            return Ok(());
        }
        if freed == FreedTo::Nothing {
            self.below(pointer, place, free)?;
        }
        let [object, level, block] = [place.object, place.level.into(), place.block];
        self.give(pointer, [NO_OBJECT_SET, object, level, block], free)
    }

    fn below(
        &mut self,
        pointer: &BlockPointer,
        place: TreePlace,
        free: &mut Free<'_>,
    ) -> Result<()> {
        if place.level == 0 && place.object != 0 {
            return Ok(());
        }
        let block = match self.read(pointer, bookmark(place))? {
            Content::There(block) => block,
            Content::Lost => return Ok(()),
            Content::Away => {
                self.wait_below(place);
                return Ok(());
            }
        };
        if place.level == 0 {
            return self.dnodes(&block, place.block, free);
        }
        for (index, bytes) in (0u64..).zip(block.chunks_exact(POINTER)) {
            let child: BlockPointer = get_at(bytes, 0, ByteOrder::NATIVE);
            self.block(&child, place.child(index), free)?;
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

    /// The content of a block, as far as it can be had.
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Content> {
        let _impatient = match self.patience {
            Patience::Later => Some(SyncContext::enter_task()),
            Patience::Now => None,
        };
        match self.store.read_structure(pointer, place) {
            Ok(block) => Ok(Content::There(block)),
            Err(source) if !source.is_of_device() => Ok(Content::Lost),
            Err(_) if self.patience == Patience::Later => Ok(Content::Away),
            Err(source) => Err(DmuError::Read { place, source }.into()),
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
        if self.end != WalkEnd::Done {
            return Ok(());
        }
        const LEVEL: usize = 2;
        if self.visited >= self.limit && bookmark[LEVEL] == 0 {
            self.end = WalkEnd::Paused(bookmark);
            return Ok(());
        }
        self.visited += 1;
        free(pointer)
    }
}

fn bookmark(place: TreePlace) -> Bookmark {
    let object_set = ObjectSetId(NO_OBJECT_SET);
    if place.block == bptree::SPILL_BLOCK {
        return Bookmark::spill(object_set, ObjectId(place.object));
    }
    Bookmark::new(object_set, ObjectId(place.object), place.level, place.block)
}
