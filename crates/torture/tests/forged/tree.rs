//! Every block of an image, with the place of the pointer to it, so that one can be replaced.

use crate::image::{Parent, PoolImage};
use base::ByteOrder;
use format::dnode::{
    self, BLOCK_POINTER_SIZE as POINTER_BYTES, CORE_SIZE as POINTERS_OFFSET, DnodePhys, SLOT_SIZE,
    Slot,
};
use format::dsl::DatasetPhys;
use format::object_set::ObjectSetAreas;
use format::{BlockPointer, ObjectType};
use std::collections::{BTreeMap, BTreeSet};

/// Of the dnodes of an object set: for objects, and for what users, groups and projects use.
const DNODES_OF_A_SET: [usize; 4] = [
    ObjectSetAreas::AT.meta_dnode.offset,
    ObjectSetAreas::AT.user_used.offset,
    ObjectSetAreas::AT.group_used.offset,
    ObjectSetAreas::AT.project_used.offset,
];
/// Of the pointer in the bonus of a dataset.
const DATASET_POINTER: usize = DatasetPhys::AT.block_pointer.offset;

/// A block and where it was found.
pub(crate) struct Found {
    pub(crate) pointer: BlockPointer,
    pub(crate) parent: Parent,
    /// What it holds.
    pub(crate) kind: ObjectType,
    pub(crate) level: u8,
    /// Object set (by the order in which they were found) and object, for messages.
    pub(crate) of: (usize, u64),
}

/// The blocks of an image.
pub(crate) struct Tree {
    pub(crate) blocks: Vec<Found>,
    sets: usize,
    /// Blocks are shared by snapshots: one place of each is enough.
    seen: BTreeSet<(u64, u64)>,
}

impl Tree {
    /// All blocks that can be reached.
    pub(crate) fn of(image: &PoolImage) -> Self {
        let mut tree = Self {
            blocks: Vec::new(),
            sets: 0,
            seen: BTreeSet::new(),
        };
        let root = image.uberblock.root;
        tree.object_set(image, root, Parent::Uberblock);
        tree
    }

    fn add(&mut self, image: &PoolImage, found: Found) -> Option<(usize, Vec<u8>)> {
        let plain = image.block(&found.pointer)?;
        let dva = found.pointer.dva(0)?;
        if !self.seen.insert((dva.offset, found.pointer.birth().0)) {
            return None;
        }
        self.blocks.push(found);
        Some((self.blocks.len() - 1, plain))
    }

    fn object_set(&mut self, image: &PoolImage, pointer: BlockPointer, parent: Parent) {
        let of = (self.sets, 0);
        let found = Found {
            pointer,
            parent,
            kind: ObjectType::OBJECT_SET,
            level: 0,
            of,
        };
        let Some((index, plain)) = self.add(image, found) else {
            return;
        };
        self.sets += 1;
        for at in DNODES_OF_A_SET {
            self.dnode(image, (index, at), &plain, of);
        }
    }

    /// The dnode that begins at a byte of a block.
    fn dnode(
        &mut self,
        image: &PoolImage,
        (block, at): (usize, usize),
        plain: &[u8],
        of: (usize, u64),
    ) {
        let Some(Ok(dnode)) = plain.get(at..).map(DnodePhys::decode) else {
            return;
        };
        let mut places: Vec<(usize, u8)> = (0..usize::from(dnode.pointer_count))
            .map(|index| {
                (
                    at + POINTERS_OFFSET + index * POINTER_BYTES,
                    dnode.levels - 1,
                )
            })
            .collect();
        let bonus = at + POINTERS_OFFSET + usize::from(dnode.pointer_count) * POINTER_BYTES;
        if dnode.spill.is_some() {
            places.push((at + dnode.size() - POINTER_BYTES, 0));
        }
        for (place, level) in places {
            let here = (block, place);
            self.pointer(image, here, plain, (dnode.object_type, level, of));
        }
        if dnode.bonus_type == ObjectType::DSL_DATASET {
            let place = bonus + DATASET_POINTER;
            if let Some(pointer) = pointer_at(plain, place) {
                self.object_set(image, pointer, Parent::Block(block, place));
            }
        }
    }

    fn pointer(
        &mut self,
        image: &PoolImage,
        (block, place): (usize, usize),
        plain: &[u8],
        (kind, level, of): (ObjectType, u8, (usize, u64)),
    ) {
        let Some(pointer) = pointer_at(plain, place) else {
            return;
        };
        let parent = Parent::Block(block, place);
        let found = Found {
            pointer,
            parent,
            kind,
            level,
            of,
        };
        let Some((index, plain)) = self.add(image, found) else {
            return;
        };
        if level > 0 {
            for child in (0..plain.len()).step_by(POINTER_BYTES) {
                self.pointer(image, (index, child), &plain, (kind, level - 1, of));
            }
        } else if kind == ObjectType::DNODE {
            for (slot, state) in dnode::slots(&plain) {
                if state != Slot::Free {
                    self.dnode(
                        image,
                        (index, slot * SLOT_SIZE),
                        &plain,
                        (of.0, slot as u64),
                    );
                }
            }
        }
    }

    /// Puts other contents into blocks: they, and all blocks above them, are stored anew.
    pub(crate) fn replace(&self, image: &mut PoolImage, mut plain: BTreeMap<usize, Vec<u8>>) {
        let mut uberblock = image.uberblock;
        // What is above was found before.
        while let Some((index, contents)) = plain.pop_last() {
            let found = &self.blocks[index];
            let mut pointer = found.pointer;
            image.store(&mut pointer, &contents);
            match found.parent {
                Parent::Uberblock => uberblock.root = pointer,
                Parent::Block(above, place) => {
                    let parent = plain.entry(above).or_insert_with(|| {
                        let parent = image.block(&self.blocks[above].pointer);
                        parent.expect("it was read before")
                    });
                    let slot = &mut parent[place..place + POINTER_BYTES];
                    pointer.encode(slot, ByteOrder::NATIVE);
                }
            }
        }
        image.store_uberblock(&uberblock);
    }
}

fn pointer_at(plain: &[u8], place: usize) -> Option<BlockPointer> {
    let bytes = plain.get(place..place + POINTER_BYTES)?;
    BlockPointer::decode(bytes, ByteOrder::NATIVE).ok()
}
