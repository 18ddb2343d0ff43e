//! The array of dnodes, as last synced.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::ObjectId;
use base::lock::{LockClass, RwLock, rank};
use format::dnode::{DnodePhys, SLOT_SIZE, SLOTS_PER_BLOCK, Slot};
use format::{BlockPointer, ObjectSetKind};
use sys::Buffer;

use super::shared::Shared;
use crate::dnode_header::{DnodeHeader, Footprint};
use crate::error::{DmuError, Result};
use crate::tree::{Reader, Tree};

static META: LockClass = LockClass::new("dmu.meta", rank::DMU + 35);

/// Bytes of a block of dnodes.
pub(crate) const BLOCK_SIZE: usize = format::dnode::BLOCK_SIZE;

/// Levels that a new object set starts with: data sets address 2^48 dnodes at once.
pub(crate) const fn levels_of_new(kind: ObjectSetKind) -> u8 {
    match kind {
        ObjectSetKind::Meta => 1,
        ObjectSetKind::None
        | ObjectSetKind::FileSystem
        | ObjectSetKind::Volume
        | ObjectSetKind::Other => 6,
    }
}

/// One version of the array.
#[derive(Clone)]
pub(crate) struct MetaVersion {
    pub(crate) header: DnodeHeader,
    pub(crate) tree: Tree,
    pub(crate) footprint: Footprint,
}

pub(crate) struct Meta {
    version: RwLock<Arc<MetaVersion>>,
    generation: AtomicU64,
}

impl Meta {
    pub(crate) fn new(phys: &DnodePhys) -> Self {
        let tree = Tree {
            object_type: phys.object_type,
            pointers: phys.pointers,
            pointer_count: phys.pointer_count,
            levels: phys.levels,
            indirect_shift: phys.indirect_shift,
            block_size: phys.data_block_size(),
            max_block: phys.max_block_id,
            seen: base::Txg(0),
        };
        let version = MetaVersion {
            header: DnodeHeader::from_phys(phys),
            tree,
            footprint: Footprint::from_phys(phys),
        };
        Self {
            version: RwLock::new(&META, Arc::new(version)),
            generation: AtomicU64::new(0),
        }
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::SeqCst)
    }

    pub(crate) fn version(&self) -> Arc<MetaVersion> {
        Arc::clone(&self.version.read())
    }

    pub(crate) fn swap(&self, next: MetaVersion) {
        *self.version.write() = Arc::new(next);
        self.generation.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn reader(shared: &Shared) -> Reader<'_> {
        Reader {
            store: shared.store.as_ref(),
            object_set: shared.id,
            object: ObjectId(0),
        }
    }

    /// Calls `read` with the present version, again if that fails while the version is swapped, or is about to be.
    fn retry<T>(&self, shared: &Shared, read: impl Fn(&Tree) -> Result<T>) -> Result<T> {
        loop {
            let generation = self.generation();
            let seen = shared.store.now();
            let tree = Tree {
                seen,
                ..self.version().tree.clone()
            };
            match read(&tree) {
                Err(error) => {
                    let is_same = || self.generation() == generation;
                    shared.passes.unless_swapped(is_same, error)?;
                }
                read => return read,
            }
        }
    }

    /// A block of dnodes.
    pub(crate) fn read_block(&self, shared: &Shared, block: u64) -> Result<Buffer> {
        let reader = Self::reader(shared);
        self.retry(shared, |tree| {
            let pointer = tree.lookup(&reader, block)?;
            if pointer.is_hole() {
                return Ok(shared.zeros(BLOCK_SIZE));
            }
            let data = if shared.seals.get().is_some() {
                reader.read_structure(&pointer, block)?
            } else {
                reader.read(&pointer, 0, block, tree.seen)?
            };
            if data.len() != tree.block_size as usize {
                let what = format!("{} bytes in place of a block of dnodes", data.len());
                return Err(DmuError::corrupt(reader.place(0, block), what));
            }
            Ok(data)
        })
    }

    /// The first block of dnodes at or after `from` that has any.
    pub(crate) fn next_block(&self, shared: &Shared, from: u64) -> Result<Option<u64>> {
        let reader = Self::reader(shared);
        self.retry(shared, |tree| {
            if tree.is_empty() {
                Ok(None)
            } else {
                tree.search(&reader, from..u64::MAX, true)
            }
        })
    }

    /// The pointer of a block of the array.
    pub(crate) fn pointer(&self, shared: &Shared, level: u8, index: u64) -> Result<BlockPointer> {
        let reader = Self::reader(shared);
        self.retry(shared, |tree| tree.lookup_at(&reader, level, index))
    }

    /// Pointers in an indirect block, as a shift.
    pub(crate) fn entries_shift(&self) -> u32 {
        self.version.read().tree.entries_shift()
    }

    /// The dnode of an object, if there is one.
    pub(crate) fn read_dnode(&self, shared: &Shared, id: ObjectId) -> Result<Option<DnodePhys>> {
        let block = id.0 / SLOTS_PER_BLOCK as u64;
        let wanted = (id.0 % SLOTS_PER_BLOCK as u64) as usize;
        let data = self.read_block(shared, block)?;
        let found = format::dnode::slots(&data).find(|(index, _)| *index >= wanted);
        if !matches!(found, Some((index, Slot::Allocated { .. })) if index == wanted) {
            return Ok(None);
        }
        let bytes = data.get(wanted * SLOT_SIZE..).unwrap_or(&[]);
        let decoded = DnodePhys::decode(bytes).map_err(|error| {
            let place = Self::reader(shared).place(0, block);
            DmuError::corrupt(place, format!("dnode {id}: {error}"))
        })?;
        Ok(Some(decoded))
    }
}
