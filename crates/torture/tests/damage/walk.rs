//! Every block of metadata of a pool, with what it describes.

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId};
use dsl::Dataset;
use format::dnode::{self, DnodePhys, SLOT_SIZE, SLOTS_PER_BLOCK, Slot};
use format::record::get_at;
use format::{BlockPointer, ObjectSetPhys, ObjectType};
use pipeline::ReadRequest;
use pool::Pool;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The name under which the pool's own object set goes here.
pub(crate) const OWN: &str = "the pool";

/// Where a block is referred to.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// A head, a snapshot, or [`OWN`].
    pub(crate) dataset: String,
    /// The objects that cannot be read without it.
    pub(crate) objects: RangeInclusive<u64>,
    /// The type of the object, for messages.
    pub(crate) kind: ObjectType,
    /// Level and number of the block.
    pub(crate) at: (i8, u64),
}

/// A block of metadata.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) pointer: BlockPointer,
    /// A block is shared with snapshots.
    pub(crate) places: Vec<Place>,
}

impl Block {
    pub(crate) fn is_of_pool(&self) -> bool {
        self.places.iter().any(|place| place.dataset == OWN)
    }

    /// Whether it is the root of a dataset.
    pub(crate) fn is_root_of(&self, dataset: &str) -> bool {
        let mut places = self.places.iter();
        places.any(|place| place.dataset == dataset && place.at.0 < 0)
    }

    /// Whether it belongs to the contents of a file alone.
    pub(crate) fn is_of_a_file(&self) -> bool {
        let is_of_file = |place: &Place| place.kind == ObjectType::PLAIN_FILE && place.at.0 >= 0;
        self.places.iter().all(is_of_file)
    }

    /// Whether an object of a dataset may be unreadable on its account.
    pub(crate) fn describes(&self, dataset: &str, object: u64) -> bool {
        let mut places = self.places.iter();
        places.any(|place| place.dataset == dataset && place.objects.contains(&object))
    }
}

impl std::fmt::Display for Block {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for place in &self.places {
            let Place {
                dataset,
                objects,
                kind,
                at,
            } = place;
            write!(
                f,
                "{dataset} objects {objects:?} ({}) level {} block {}; ",
                kind.name(),
                at.0,
                at.1
            )?;
        }
        Ok(())
    }
}

type Key = [u64; 6];

/// A walk over a pool that is whole.
pub(crate) struct Walk<'a> {
    pool: &'a Pool,
    found: BTreeMap<Key, Block>,
    /// What each object is, by dataset.
    pub(crate) kinds: BTreeMap<(String, u64), ObjectType>,
}

/// Where the walk is.
#[derive(Clone)]
struct Here {
    dataset: String,
    set: ObjectSetId,
    object: u64,
    kind: ObjectType,
    level: u8,
    block: u64,
    shift: u32,
}

impl<'a> Walk<'a> {
    /// Everything in the pool.
    pub(crate) fn new(pool: &'a Arc<Pool>) -> Self {
        let mut walk = Self {
            pool,
            found: BTreeMap::new(),
            kinds: BTreeMap::new(),
        };
        walk.object_set(
            OWN,
            ObjectSetId::MOS,
            &pool.meta_object_set().root_pointer(),
        );
        let dsl = pool.dsl();
        for head in dsl.heads_under(&dsl.root_directory().unwrap()).unwrap() {
            walk.dataset(&head);
            for snapshot in head.snapshots().unwrap() {
                walk.dataset(&snapshot);
            }
        }
        walk
    }

    /// The blocks, in no particular order.
    pub(crate) fn blocks(&self) -> Vec<Block> {
        self.found.values().cloned().collect()
    }

    fn dataset(&mut self, dataset: &Arc<Dataset>) {
        let root = dataset.phys().unwrap().block_pointer;
        let name = dataset.name().unwrap();
        self.object_set(&name, ObjectSetId(dataset.id().0), &root);
    }

    fn read(&self, here: &Here, pointer: &BlockPointer) -> sys::Buffer {
        let bookmark = Bookmark {
            object_set: here.set,
            object: ObjectId(here.object),
            level: 0,
            block: here.block,
        };
        let request = ReadRequest::new(bookmark);
        self.pool.pipeline().read(pointer, &request).unwrap()
    }

    fn note(
        &mut self,
        here: &Here,
        pointer: &BlockPointer,
        objects: RangeInclusive<u64>,
        level: i8,
    ) {
        if pointer.is_hole() || pointer.is_embedded() {
            return;
        }
        let key: Key = std::array::from_fn(|index| pointer.words[index]);
        let block = self.found.entry(key).or_insert_with(|| Block {
            pointer: *pointer,
            places: Vec::new(),
        });
        block.places.push(Place {
            dataset: here.dataset.clone(),
            objects,
            kind: here.kind,
            at: (level, here.block),
        });
    }

    fn object_set(&mut self, name: &str, set: ObjectSetId, root: &BlockPointer) {
        if root.is_hole() {
            return;
        }
        let here = Here {
            dataset: name.to_owned(),
            set,
            object: 0,
            kind: ObjectType::OBJECT_SET,
            level: 0,
            block: 0,
            shift: 0,
        };
        self.note(&here, root, 0..=u64::MAX, -1);
        let phys = ObjectSetPhys::decode(&self.read(&here, root)).unwrap();
        self.dnode(&here, 0, &phys.meta_dnode);
        let special = [&phys.user_used, &phys.group_used, &phys.project_used];
        for (number, dnode) in (0..).zip(special) {
            if let Some(dnode) = dnode {
                self.dnode(&here, u64::MAX - number, dnode);
            }
        }
    }

    fn dnode(&mut self, of: &Here, object: u64, dnode: &DnodePhys) {
        self.kinds
            .insert((of.dataset.clone(), object), dnode.object_type);
        let count = usize::from(dnode.pointer_count);
        for (block, pointer) in (0..).zip(&dnode.pointers[..count]) {
            let here = Here {
                object,
                kind: dnode.object_type,
                level: dnode.levels - 1,
                block,
                shift: dnode.entries_shift(),
                ..of.clone()
            };
            self.block(&here, pointer);
        }
        if let Some(spill) = &dnode.spill {
            let here = Here {
                object,
                kind: dnode.bonus_type,
                ..of.clone()
            };
            self.note(&here, spill, object..=object, 0);
        }
    }

    fn block(&mut self, here: &Here, pointer: &BlockPointer) {
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        if pointer.is_hole() {
            return;
        }
        let array = here.object == 0;
        let data = here.level == 0 && !array && here.kind.is_file_data();
        if data {
            return;
        }
        let span = PER_BLOCK << (u32::from(here.level) * here.shift).min(50);
        let objects = if array {
            let first = here.block.saturating_mul(span);
            first..=first.saturating_add(span - 1)
        } else {
            here.object..=here.object
        };
        self.note(here, pointer, objects, here.level.cast_signed());
        if here.level > 0 {
            let block = self.read(here, pointer);
            for (index, bytes) in (0..).zip(block.chunks_exact(128)) {
                let child: BlockPointer = get_at(bytes, 0, ByteOrder::NATIVE);
                let below = Here {
                    level: here.level - 1,
                    block: (here.block << here.shift) + index,
                    ..here.clone()
                };
                self.block(&below, &child);
            }
        } else if array {
            let block = self.read(here, pointer);
            for (index, slot) in dnode::slots(&block) {
                if slot == Slot::Free {
                    continue;
                }
                let dnode = DnodePhys::decode(&block[index * SLOT_SIZE..]).unwrap();
                self.dnode(here, here.block * PER_BLOCK + index as u64, &dnode);
            }
        }
    }
}
