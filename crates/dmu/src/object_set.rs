//! An object set: the array of dnodes, the objects in memory, and the number allocator.
//!
//! Invariants: an object that is dirty is in the table; the dnodes on disk are those of the last
//! sync; a number freed in a txg is not handed out before that txg has synced.

mod allocate;
mod dirty;
mod meta;
mod numbers;
mod passes;
mod sealed;
mod seals;
mod shared;
mod sync;
mod table;
mod walk;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId, Txg};
use format::dnode::{DnodePhys, SLOTS_PER_BLOCK, Slot};
use format::intent_log::LogHeader;
use format::{BlockPointer, ObjectSetKind, ObjectSetPhys, ObjectType};

use crate::error::{DmuError, Result};
use crate::meters::METERS;
use crate::object::Object;
use crate::store::{BlockStore, Owner};
use crate::tx::Tx;

pub use allocate::AllocateObject;
use numbers::Numbers;
pub use sealed::SealedShape;
pub(crate) use shared::Shared;
use table::Table;
use walk::Walks;
pub use walk::read_by_walks;

static HEADER: LockClass = LockClass::new("dmu.header", rank::DMU + 36);
static OWNERS: LockClass = LockClass::new("dmu.owners", rank::DMU + 21);

/// How an object set is opened.
#[derive(Clone)]
pub struct OpenObjectSet {
    /// Where its blocks are.
    pub store: Arc<dyn BlockStore>,
    /// Its number.
    pub id: ObjectSetId,
    /// Whether it may be changed.
    pub writable: bool,
    /// How many clean objects stay in memory.
    pub objects_max: usize,
}

/// The fields of the root block, apart from the dnodes.
#[derive(Clone)]
struct Header {
    root: BlockPointer,
    log_header: LogHeader,
    kind: ObjectSetKind,
    flags: u64,
    portable_mac: [u8; 32],
    local_mac: [u8; 32],
    size: usize,
}

/// An open object set.
pub struct ObjectSet {
    shared: Arc<Shared>,
    table: Arc<Table>,
    numbers: Numbers,
    walks: Walks,
    header: Mutex<Header>,
    header_dirty: [AtomicBool; Txg::SLOTS],
    owners: RwLock<[Option<Arc<Object>>; 3]>,
}

impl ObjectSet {
    /// Opens the object set under `root`.
    ///
    /// # Errors
    /// The root block cannot be read or is malformed.
    pub fn open(options: OpenObjectSet, root: &BlockPointer) -> Result<Arc<Self>> {
        let place = Bookmark::root(options.id);
        let (phys, size) = read_root(&*options.store, place, root)?;
        if phys.meta_dnode.data_block_size() as usize != meta::BLOCK_SIZE {
            return Err(DmuError::corrupt(
                place,
                "the blocks of dnodes are not 16 KiB",
            ));
        }
        Ok(Self::assemble(options, phys, *root, size))
    }

    /// What the root block of an object set says that need not be opened for that.
    ///
    /// # Errors
    /// The block cannot be read or is malformed.
    pub fn read_root(
        store: &dyn BlockStore,
        id: ObjectSetId,
        root: &BlockPointer,
    ) -> Result<ObjectSetPhys> {
        read_root(store, Bookmark::root(id), root).map(|(phys, _)| phys)
    }

    /// A new object set, first written when the transaction's txg syncs.
    ///
    /// # Errors
    /// The options say that it is not writable.
    pub fn create(options: OpenObjectSet, kind: ObjectSetKind, tx: &Tx) -> Result<Arc<Self>> {
        Self::create_sized(options, kind, tx, format::object_set::SIZE)
    }

    /// The same with a root block of `size` bytes, one of the three sizes.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_sized(
        options: OpenObjectSet,
        kind: ObjectSetKind,
        tx: &Tx,
        size: usize,
    ) -> Result<Arc<Self>> {
        if !options.writable {
            return Err(DmuError::ReadOnly {
                object_set: options.id,
            });
        }
        let mut meta_dnode = DnodePhys::new(
            ObjectType::DNODE,
            meta::BLOCK_SIZE as u32,
            17,
            ObjectType::NONE,
            0,
            1,
        );
        meta_dnode.levels = meta::levels_of_new(kind);
        let counts = kind == ObjectSetKind::FileSystem && size > format::object_set::SIZE_OLD;
        let flags = if counts {
            ObjectSetPhys::FLAG_USER_ACCOUNTING
                | ObjectSetPhys::FLAG_USER_OBJECT_ACCOUNTING
                | ObjectSetPhys::FLAG_PROJECT_QUOTA
        } else {
            0
        };
        let phys = ObjectSetPhys {
            meta_dnode,
            log_header: LogHeader::decode_padded(&[], ByteOrder::NATIVE),
            kind,
            flags,
            portable_mac: [0; 32],
            local_mac: [0; 32],
            user_used: None,
            group_used: None,
            project_used: None,
        };
        let created = Self::assemble(options, phys, BlockPointer::HOLE, size);
        created.numbers.created_in(tx.txg());
        created.touch_header(tx);
        Ok(created)
    }

    fn assemble(
        options: OpenObjectSet,
        phys: ObjectSetPhys,
        root: BlockPointer,
        size: usize,
    ) -> Arc<Self> {
        let shared = Arc::new(Shared::new(
            options.id,
            options.store,
            &phys.meta_dnode,
            options.writable,
        ));
        let special = |phys: &Option<DnodePhys>, owner: Owner| {
            phys.as_ref()
                .map(|phys| Object::from_phys(&shared, owner.object(), phys))
        };
        let owners = [
            special(&phys.user_used, Owner::User),
            special(&phys.group_used, Owner::Group),
            special(&phys.project_used, Owner::Project),
        ];
        Arc::new(Self {
            table: Arc::new(Table::new(options.objects_max)),
            numbers: Numbers::new(),
            walks: Walks::new(),
            header: Mutex::new(
                &HEADER,
                Header {
                    root,
                    log_header: phys.log_header,
                    kind: phys.kind,
                    flags: phys.flags,
                    portable_mac: phys.portable_mac,
                    local_mac: phys.local_mac,
                    size,
                },
            ),
            header_dirty: Default::default(),
            owners: RwLock::new(&OWNERS, owners),
            shared,
        })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> ObjectSetId {
        self.shared.id
    }

    /// What it holds.
    #[must_use]
    pub fn kind(&self) -> ObjectSetKind {
        self.header.lock().kind
    }

    /// The `FLAG_` constants of [`ObjectSetPhys`].
    #[must_use]
    pub fn flags(&self) -> u64 {
        self.header.lock().flags
    }

    /// Whether it may be changed.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.shared.is_writable()
    }

    /// Lets micro ZAPs grow beyond 128 KiB, as far as `dmu.micro_zap_bytes_max` goes: datasets count that as a feature.
    pub fn allow_large_micro_zaps(&self) {
        self.shared.allow_large_micro_zaps();
    }

    /// Takes it out of service, because it cannot be written: nothing of it changes from now on, and
    /// what is dirty stays in memory, for readers, as long as somebody uses it. On disk it stays as
    /// its last sync left it.
    pub fn stop(&self) {
        self.shared.stop();
    }

    /// Whether it was taken out of service: what was changed last is not on disk, nor will be.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.shared.is_stopped()
    }

    /// The pointer to the root block, as last synced.
    #[must_use]
    pub fn root_pointer(&self) -> BlockPointer {
        self.header.lock().root
    }

    /// How many objects there are, as last synced.
    #[must_use]
    pub fn object_count(&self) -> u64 {
        self.header.lock().root.fill()
    }

    /// The anchor of the intent log.
    #[must_use]
    pub fn intent_log_header(&self) -> LogHeader {
        self.header.lock().log_header.clone()
    }

    /// Replaces the anchor of the intent log.
    pub fn set_intent_log_header(&self, tx: &Tx, header: LogHeader) {
        self.header.lock().log_header = header;
        self.touch_header(tx);
    }

    /// Replaces the flags.
    pub fn set_flags(&self, tx: &Tx, flags: u64) {
        self.header.lock().flags = flags;
        self.touch_header(tx);
    }

    /// Enlarges the root block to the size that holds accounting by project, as when an old file
    /// system is upgraded.
    pub fn enlarge_root(&self, tx: &Tx) {
        self.header.lock().size = format::object_set::SIZE;
        self.touch_header(tx);
    }

    fn touch_header(&self, tx: &Tx) {
        self.header_dirty[tx.txg().slot()].store(true, Ordering::Release);
    }

    /// Whether a sync of `txg` would write something.
    #[must_use]
    pub fn is_dirty(&self, txg: Txg) -> bool {
        if self.is_stopped() {
            return false;
        }
        self.header_dirty[txg.slot()].load(Ordering::Acquire) || self.shared.dirty.is_dirty(txg)
    }

    /// The object that holds the accounting of a kind, once there is any.
    #[must_use]
    pub fn used_object(&self, owner: Owner) -> Option<Arc<Object>> {
        self.owners.read()[owner.index()].clone()
    }

    /// The object with a number.
    ///
    /// # Errors
    /// There is none, or its dnode cannot be read.
    pub fn object(&self, id: ObjectId) -> Result<Arc<Object>> {
        let none = || DmuError::NoSuchObject {
            object_set: self.shared.id,
            object: id,
        };
        if let Some(owner) = Owner::of_object(id) {
            return self.used_object(owner).ok_or_else(none);
        }
        loop {
            if let Some(object) = self.table.get(id) {
                return if object.is_allocated() {
                    Ok(object)
                } else {
                    Err(none())
                };
            }
            if id.0 == 0 {
                return Err(none());
            }
            let generation = self.shared.meta.generation();
            let phys = self
                .shared
                .meta
                .read_dnode(&self.shared, id)?
                .ok_or_else(none)?;
            METERS.objects_loaded.increment();
            let object = Object::from_phys(&self.shared, id, &phys);
            // A dnode read before a sync swapped the dnodes may be out of date.
            if let Some(object) = self
                .table
                .insert_if(object, || self.shared.meta.generation() == generation)
            {
                return if object.is_allocated() {
                    Ok(object)
                } else {
                    Err(none())
                };
            }
        }
    }

    /// The first object after `after` that exists.
    ///
    /// # Errors
    /// Dnodes cannot be read.
    pub fn next_object(&self, after: ObjectId) -> Result<Option<ObjectId>> {
        const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
        let Some(first) = after.0.checked_add(1) else {
            return Ok(None);
        };
        let mut block = first / PER_BLOCK;
        loop {
            let synced = self.shared.meta.next_block(&self.shared, block)?;
            let fresh = self.numbers.next_recent_block(block);
            let Some(found) = synced.into_iter().chain(fresh).min() else {
                return Ok(None);
            };
            let mut here = self.objects_in(found, synced == Some(found))?;
            here.sort_unstable();
            if let Some(&id) = here.iter().find(|&&id| id >= first) {
                return Ok(Some(ObjectId(id)));
            }
            block = found + 1;
        }
    }

    /// The first block of dnodes at or after `from` that is not a hole in this object set or in
    /// `other`, and is not the same block of the pool in both; as last synced.
    ///
    /// # Errors
    /// Blocks above the dnodes cannot be read.
    pub fn next_different_block(&self, other: &Self, from: u64) -> Result<Option<u64>> {
        let mut from = from;
        loop {
            let mine = self.shared.meta.next_block(&self.shared, from)?;
            let theirs = other.shared.meta.next_block(&other.shared, from)?;
            let Some(found) = mine.into_iter().chain(theirs).min() else {
                return Ok(None);
            };
            if mine != theirs
                || self.shared.meta.pointer(&self.shared, 0, found)?
                    != other.shared.meta.pointer(&other.shared, 0, found)?
            {
                return Ok(Some(found));
            }
            from = found + 1;
        }
    }

    /// The objects in a block of dnodes, by number, unsynced changes included.
    ///
    /// # Errors
    /// The block cannot be read.
    pub fn objects_in_block(&self, block: u64) -> Result<Vec<ObjectId>> {
        let is_there = self.shared.meta.next_block(&self.shared, block)? == Some(block);
        let mut found = self.objects_in(block, is_there)?;
        found.sort_unstable();
        Ok(found.into_iter().map(ObjectId).collect())
    }

    /// The numbers of the objects in a block of dnodes, unsynced changes included.
    fn objects_in(&self, block: u64, on_disk: bool) -> Result<Vec<u64>> {
        let base = block * SLOTS_PER_BLOCK as u64;
        let mut found = Vec::new();
        if on_disk {
            let data = self.shared.meta.read_block(&self.shared, block)?;
            for (index, slot) in format::dnode::slots(&data) {
                let id = base + index as u64;
                if matches!(slot, Slot::Free) || id == 0 {
                    continue;
                }
                if self
                    .table
                    .peek(ObjectId(id))
                    .is_none_or(|object| object.is_allocated())
                {
                    found.push(id);
                }
            }
        }
        for id in base.max(1)..base + SLOTS_PER_BLOCK as u64 {
            if !found.contains(&id)
                && self
                    .table
                    .peek(ObjectId(id))
                    .is_some_and(|object| object.is_allocated())
            {
                found.push(id);
            }
        }
        Ok(found)
    }

    /// `txg` is on disk for good: the numbers of the objects that it freed may be used again.
    pub fn synced(&self, txg: Txg) {
        self.numbers.synced(txg);
        self.table.forget_freed(txg);
        if self.is_stopped() {
            self.shared.dirty.clear();
        }
    }
}

impl Drop for ObjectSet {
    /// Nobody can write any more what is dirty. The lists refer to objects that refer to the lists, and to the devices.
    fn drop(&mut self) {
        self.shared.dirty.clear();
    }
}

/// The root block, and its size.
fn read_root(
    store: &dyn BlockStore,
    place: Bookmark,
    root: &BlockPointer,
) -> Result<(ObjectSetPhys, usize)> {
    let data = store.read(root, place);
    let data = data.map_err(|source| DmuError::Read { place, source })?;
    let phys = ObjectSetPhys::decode(&data)
        .map_err(|error| DmuError::corrupt(place, error.to_string()))?;
    Ok((phys, data.len()))
}

impl std::fmt::Debug for ObjectSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ObjectSet({})", self.shared.id)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use dirty::REQUEUES;
