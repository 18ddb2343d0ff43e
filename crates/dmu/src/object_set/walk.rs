//! Reading dnodes ahead for those who walk through directories and look at everything they list.
//!
//! What lies in one directory may have its dnodes anywhere; what lies in one part of the array of dnodes is all wanted
//! sooner or later by who walks a tree. So where a walk has found many blocks of dnodes missing below one indirect
//! block, all of them are read, by their places on the device, and the directories that they lead to. That costs no
//! more than what the walk has paid already. Nothing here is a lock: what two threads write over each other costs a
//! prefetch.

mod parts;
#[cfg(test)]
mod tests;

use base::{Bookmark, ObjectId};
use format::dnode::{BLOCK_POINTER_SIZE, DnodePhys, SLOT_SIZE, SLOTS_PER_BLOCK, Slot};
use format::{BlockPointer, ObjectType};

use super::ObjectSet;
use super::meta::Meta;
use crate::meters::METERS;
use crate::{pointer, tunables};

pub(super) use parts::Walks;

/// So many of the blocks wanted of a part are looked for in the cache first: if they are there, the others are too.
const SAMPLES: usize = 8;

/// What is to be read ahead.
#[derive(Default)]
struct Wanted {
    /// Whole parts.
    swept: Vec<(BlockPointer, Bookmark)>,
    /// What was listed.
    missing: Vec<(BlockPointer, Bookmark)>,
}

impl ObjectSet {
    /// Starts reading the dnodes of objects that somebody who walks through directories is about to look at. Best
    /// effort; waits for at most a few indirect blocks, which he needs as well.
    pub fn prefetch_dnodes(&self, ids: &[ObjectId]) {
        // What the cache does not keep would be gone again before the walk comes there.
        if !self.shared.store.keeps(self.shared.id, true) {
            return;
        }
        let mut blocks: Vec<u64> = ids.iter().map(|id| id.0 / SLOTS_PER_BLOCK as u64).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let shift = self.shared.meta.entries_shift();
        let of_part = |a: &u64, b: &u64| a >> shift == b >> shift;
        let mut found = Wanted::default();
        let parts = blocks.chunk_by(of_part);
        for wanted in parts.take(tunables::WALK_PARTS.count()) {
            self.look_in_part(wanted, shift, &mut found);
        }
        // Each together, for what lies in several parts lies mixed on the device.
        let store = &self.shared.store;
        let seen = store.now();
        if !found.swept.is_empty() {
            store.prefetch_scattered(&found.swept, seen, true);
        }
        if !found.missing.is_empty() {
            store.prefetch_scattered(&found.missing, seen, false);
        }
    }

    /// What of one part of the array is to be read.
    fn look_in_part(&self, wanted: &[u64], shift: u32, found: &mut Wanted) {
        let Some(part) = wanted.first().map(|block| block >> shift) else {
            return;
        };
        let shared = &self.shared;
        let reader = Meta::reader(shared);
        let version = self.shared.meta.version();
        let tree = crate::tree::Tree {
            seen: shared.store.now(),
            ..version.tree.clone()
        };
        let Ok(above) = tree.lookup_at(&reader, 1, part) else {
            return;
        };
        if tree.levels < 2 || above.is_hole() {
            return;
        }
        let Ok(data) = tree.read_indirect(&reader, &above, 1, part) else {
            return;
        };
        let first = part << shift;
        let at = |block: u64| {
            let found = pointer::get(&data, (block - first) as usize);
            (!found.is_hole()).then(|| (found, reader.place(0, block)))
        };
        let is_missing = |found: &(BlockPointer, Bookmark)| !shared.store.is_cached(&found.0);
        // Who walks through what is cached pays for a few looks, not for one a block.
        let apart = wanted.len().div_ceil(SAMPLES).max(1);
        let mut samples = wanted.iter().step_by(apart);
        if !samples.any(|&block| at(block).is_some_and(|found| is_missing(&found))) {
            return;
        }
        let missing: Vec<_> = wanted
            .iter()
            .filter_map(|&block| at(block))
            .filter(is_missing)
            .collect();
        let end = tree.max_block.saturating_add(1);
        let end = end.min(first.saturating_add(1 << shift));
        let blocks = end.saturating_sub(first);
        if self.walks.note(part, missing.len() as u64, blocks) {
            METERS.sweeps.increment();
            found.swept.extend((first..end).filter_map(at));
        } else {
            found.missing.extend(missing);
        }
    }
}

/// What a walk through directories reads of that to which a block leads: of a block of dnodes the directories and the
/// attributes that lie outside of dnodes, of an indirect block the first blocks below it.
#[must_use]
pub fn read_by_walks(data: &[u8], place: Bookmark) -> Vec<(BlockPointer, Bookmark)> {
    let is_read = |found: &BlockPointer| !found.is_hole() && !found.is_embedded();
    let mut found = Vec::new();
    if place.object != ObjectId(0) {
        let Some(below) = u8::try_from(place.level)
            .ok()
            .and_then(|l| l.checked_sub(1))
        else {
            return found;
        };
        let entries = data.len() / BLOCK_POINTER_SIZE;
        let first = place.block.saturating_mul(entries as u64);
        let children = (0..entries).map(|at| (at, pointer::get(data, at)));
        let children = children.filter(|(_, child)| is_read(child));
        for (at, child) in children.take(tunables::WALK_DIRECTORY_BLOCKS.count()) {
            let block = first.saturating_add(at as u64);
            found.push((
                child,
                Bookmark::new(place.object_set, place.object, below, block),
            ));
        }
        return found;
    }
    if place.level != 0 {
        return found;
    }
    for (index, slot) in format::dnode::slots(data) {
        if slot == Slot::Free {
            continue;
        }
        let Some(Ok(dnode)) = data.get(index * SLOT_SIZE..).map(DnodePhys::decode) else {
            continue;
        };
        let number = place.block.saturating_mul(SLOTS_PER_BLOCK as u64);
        let id = ObjectId(number.saturating_add(index as u64));
        if let Some(spill) = dnode.spill.filter(is_read) {
            found.push((spill, Bookmark::spill(place.object_set, id)));
        }
        if dnode.object_type != ObjectType::DIRECTORY {
            continue;
        }
        let level = dnode.levels.saturating_sub(1);
        let top = dnode.pointers.iter().zip(0..u64::from(dnode.pointer_count));
        for (top, at) in top.filter(|(top, _)| is_read(top)) {
            found.push((*top, Bookmark::new(place.object_set, id, level, at)));
        }
    }
    found
}
