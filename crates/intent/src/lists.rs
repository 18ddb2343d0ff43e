//! The records in memory that no commit has taken: for each txg in batch one list of names'
//! changes, and lists by object in shards, so that writers of different files do not meet.
//!
//! Records carry a stamp, given when they are appended. What depends on something earlier was
//! appended later, for the operations exclude each other; so records in the order of their stamps
//! can be replayed.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg, VdevId};

use crate::entry::{Data, Entry, Scope};

static NAMES: LockClass = LockClass::new("intent.names", rank::INTENT + 30);
static SHARD: LockClass = LockClass::new("intent.objects", rank::INTENT + 31);

const SHARDS: usize = 32;

/// A record that waits to be committed or synced.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) stamp: u64,
    pub(crate) txg: Txg,
    pub(crate) entry: Entry,
    /// Bytes that the operation changed: of data, or of its record.
    pub(crate) changed_bytes: u64,
    /// Vdevs with blocks that the record points to: flushed before it counts.
    pub(crate) vdevs: Vec<VdevId>,
}

/// A write whose data are in the object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargeWrite {
    pub(crate) stamp: u64,
    pub(crate) txg: Txg,
    pub(crate) offset: u64,
    pub(crate) length: u64,
}

impl Item {
    fn new(stamp: u64, txg: Txg, entry: Entry) -> Self {
        let changed_bytes = match &entry {
            Entry::Record(bytes) => bytes.len() as u64,
            Entry::Write(write) => write.length,
        };
        Self {
            stamp,
            txg,
            entry,
            changed_bytes,
            vdevs: Vec::new(),
        }
    }

    /// Its write, if that is of at least `min` bytes whose data are in the object.
    fn large_write(&self, min: u64) -> Option<LargeWrite> {
        match &self.entry {
            Entry::Write(write) if matches!(write.data, Data::Later) && write.length >= min => {
                Some(LargeWrite {
                    stamp: self.stamp,
                    txg: self.txg,
                    offset: write.offset,
                    length: write.length,
                })
            }
            Entry::Record(_) | Entry::Write(_) => None,
        }
    }
}

#[derive(Default)]
struct Slot<T> {
    txg: Txg,
    list: T,
}

type Objects = HashMap<ObjectId, Vec<Item>>;

/// The lists of one log.
pub(crate) struct Lists {
    next_stamp: AtomicU64,
    names: Mutex<[Slot<Vec<Item>>; Txg::SLOTS]>,
    shards: Box<[Mutex<[Slot<Objects>; Txg::SLOTS]>]>,
}

impl<T: Default> Slot<T> {
    /// The list of `txg`; what an older txg left there (it was taken back when that had synced)
    /// goes.
    fn of(slots: &mut [Self; Txg::SLOTS], txg: Txg) -> &mut T {
        let slot = &mut slots[txg.slot()];
        if slot.txg != txg {
            slot.txg = txg;
            slot.list = T::default();
        }
        &mut slot.list
    }

    /// Takes the list of `txg`, when it is still that txg's.
    fn take(slots: &mut [Self; Txg::SLOTS], txg: Txg) -> Option<T> {
        let slot = &mut slots[txg.slot()];
        (slot.txg == txg).then(|| std::mem::take(&mut slot.list))
    }
}

impl Lists {
    pub(crate) fn new() -> Self {
        Self {
            next_stamp: AtomicU64::new(0),
            names: Mutex::new(&NAMES, Default::default()),
            shards: (0..SHARDS)
                .map(|_| Mutex::new(&SHARD, Default::default()))
                .collect(),
        }
    }

    fn shard(&self, object: ObjectId) -> &Mutex<[Slot<Objects>; Txg::SLOTS]> {
        // Neighbours are written by one thread more often than not.
        let index = object.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 59;
        &self.shards[index as usize % SHARDS]
    }

    /// Adds the records of one operation of `txg`, which the caller holds open. No take falls between them:
    /// a commit carries all or none.
    pub(crate) fn append(&self, txg: Txg, scope: Scope, entries: Vec<Entry>) {
        let count = entries.len() as u64;
        let first = self.next_stamp.fetch_add(count, Ordering::AcqRel);
        let items = (first..)
            .zip(entries)
            .map(|(stamp, entry)| Item::new(stamp, txg, entry));
        if let Scope::Object(object) = scope {
            let mut shard = self.shard(object).lock();
            let list = Slot::of(&mut shard, txg).entry(object).or_default();
            return list.extend(items);
        }
        let mut names = self.names.lock();
        // Under the lock of the names: a commit looks for an object's records first there, then here, so it must not
        // find them at neither place.
        if let Scope::NamespaceAfter(object) = scope {
            for item in self.take_object(object) {
                Slot::of(&mut names, item.txg).push(item);
            }
        }
        Slot::of(&mut names, txg).extend(items);
    }

    fn take_object(&self, object: ObjectId) -> Vec<Item> {
        let mut shard = self.shard(object).lock();
        let mut taken = Vec::new();
        for slot in shard.iter_mut() {
            taken.extend(slot.list.remove(&object).unwrap_or_default());
        }
        taken
    }

    /// Whether [`Lists::large_writes`] would find any.
    pub(crate) fn has_large_write(&self, object: ObjectId, min: u64) -> bool {
        let shard = self.shard(object).lock();
        let mut items = shard
            .iter()
            .filter_map(|slot| slot.list.get(&object))
            .flatten();
        items.any(|item| item.large_write(min).is_some())
    }

    /// The object's writes of at least `min` bytes whose data are in the object.
    pub(crate) fn large_writes(&self, object: ObjectId, min: u64) -> Vec<LargeWrite> {
        let shard = self.shard(object).lock();
        let items = shard
            .iter()
            .filter_map(|slot| slot.list.get(&object))
            .flatten();
        items.filter_map(|item| item.large_write(min)).collect()
    }

    /// Puts other records in the place of those with these stamps, as far as they are still there.
    pub(crate) fn replace(&self, object: ObjectId, mut with: HashMap<u64, Vec<Item>>) {
        let mut shard = self.shard(object).lock();
        for list in shard
            .iter_mut()
            .filter_map(|slot| slot.list.get_mut(&object))
        {
            let old = std::mem::take(list);
            for item in old {
                match with.remove(&item.stamp) {
                    Some(items) => list.extend(items),
                    None => list.push(item),
                }
            }
        }
    }

    /// Forgets what was recorded of an object whose last name went.
    pub(crate) fn discard(&self, object: ObjectId) {
        drop(self.take_object(object));
    }

    /// Takes the records of these objects and of names, in order; those of txgs up to `synced` are
    /// not needed any more.
    pub(crate) fn take(&self, objects: &[ObjectId], synced: Txg) -> Vec<Item> {
        let mut taken = Vec::new();
        for &object in objects {
            taken.extend(self.take_object(object));
        }
        self.take_names(&mut taken);
        in_order(taken, synced)
    }

    /// Takes everything, in order.
    pub(crate) fn take_all(&self, synced: Txg) -> Vec<Item> {
        let mut taken = Vec::new();
        for shard in &self.shards {
            let mut shard = shard.lock();
            for slot in shard.iter_mut() {
                let objects = std::mem::take(&mut slot.list);
                taken.extend(objects.into_values().flatten());
            }
        }
        self.take_names(&mut taken);
        in_order(taken, synced)
    }

    /// Names come last: what an object's records need of them was appended before.
    fn take_names(&self, taken: &mut Vec<Item>) {
        let mut names = self.names.lock();
        for slot in names.iter_mut() {
            taken.append(&mut slot.list);
        }
    }

    /// Whether nothing waits to be committed or synced.
    pub(crate) fn are_empty(&self) -> bool {
        let names = self.names.lock();
        let no_names = names.iter().all(|slot| slot.list.is_empty());
        drop(names);
        let mut shards = self.shards.iter();
        no_names && shards.all(|shard| shard.lock().iter().all(|slot| slot.list.is_empty()))
    }

    /// `txg` is on disk: its records are not needed any more.
    pub(crate) fn synced(&self, txg: Txg) {
        let names = Slot::take(&mut self.names.lock(), txg);
        drop(names);
        for shard in &self.shards {
            let objects = Slot::take(&mut shard.lock(), txg);
            drop(objects);
        }
    }
}

fn in_order(mut items: Vec<Item>, synced: Txg) -> Vec<Item> {
    items.retain(|item| item.txg > synced);
    items.sort_by_key(|item| item.stamp);
    items
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
