//! The objects in memory, sharded by number. Clean objects that nobody holds are evicted, the least
//! recently used first (second chance); dirty ones stay.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{ObjectId, Txg};

use super::numbers::Entered;
use crate::meters::METERS;
use crate::object::Object;

static SHARD: LockClass = LockClass::new("dmu.table", rank::DMU + 20);
static FREED: LockClass = LockClass::new("dmu.freed", rank::DMU + 19);

const SHARDS: usize = 64;
/// How many objects an insertion looks at for one to evict.
const LOOKS: usize = 2;

/// Spreads object numbers; they are no adversary's choice.
#[derive(Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = value.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }
}

#[derive(Default)]
struct Shard {
    objects: HashMap<u64, Arc<Object>, BuildHasherDefault<NumberHasher>>,
    /// Numbers in order of insertion; one that is no longer here is skipped.
    ring: VecDeque<u64>,
}

pub(crate) struct Table {
    shards: Box<[RwLock<Shard>]>,
    shard_max: usize,
    /// Freed objects, which keep their numbers taken until their txg has synced.
    freed: Mutex<Vec<(Txg, ObjectId)>>,
}

impl Shard {
    fn evict(&mut self, max: usize) {
        let mut looks = LOOKS;
        while self.objects.len() > max && looks > 0 {
            looks -= 1;
            let Some(id) = self.ring.pop_front() else {
                return;
            };
            let Some(object) = self.objects.get(&id) else {
                continue;
            };
            let keep = Arc::strong_count(object) > 1
                || object.is_dirty()
                || object.referenced.swap(false, Ordering::Relaxed)
                || !object.is_allocated();
            if keep {
                self.ring.push_back(id);
            } else {
                METERS.objects_evicted.increment();
                self.objects.remove(&id);
            }
        }
    }

    fn insert(&mut self, object: &Arc<Object>, max: usize) {
        let id = object.id().0;
        self.objects.insert(id, Arc::clone(object));
        self.ring.push_back(id);
        self.evict(max);
    }
}

impl Table {
    pub(crate) fn new(objects_max: usize) -> Self {
        let shard = |_| RwLock::new(&SHARD, Shard::default());
        Self {
            shards: (0..SHARDS).map(shard).collect(),
            shard_max: objects_max.div_ceil(SHARDS),
            freed: Mutex::new(&FREED, Vec::new()),
        }
    }

    fn shard(&self, id: ObjectId) -> &RwLock<Shard> {
        let mut hasher = NumberHasher::default();
        hasher.write_u64(id.0);
        &self.shards[(hasher.finish() >> 20) as usize % SHARDS]
    }

    /// The object with a number, which counts as a use.
    pub(crate) fn get(&self, id: ObjectId) -> Option<Arc<Object>> {
        let found = self.peek(id)?;
        if !found.referenced.load(Ordering::Relaxed) {
            found.referenced.store(true, Ordering::Relaxed);
        }
        Some(found)
    }

    /// The object with a number.
    pub(crate) fn peek(&self, id: ObjectId) -> Option<Arc<Object>> {
        self.shard(id).read().objects.get(&id.0).map(Arc::clone)
    }

    /// Puts a loaded object in, unless another thread was first: whichever is in then. Nothing if
    /// `current` says no.
    pub(crate) fn insert_if(
        &self,
        object: Arc<Object>,
        current: impl FnOnce() -> bool,
    ) -> Option<Arc<Object>> {
        let mut shard = self.shard(object.id()).write();
        if let Some(first) = shard.objects.get(&object.id().0) {
            return Some(Arc::clone(first));
        }
        if !current() {
            return None;
        }
        shard.insert(&object, self.shard_max);
        Some(object)
    }

    /// Puts a new object in, unless its number is taken or `current` says no.
    pub(crate) fn insert_new(
        &self,
        object: Arc<Object>,
        current: impl FnOnce() -> bool,
    ) -> Entered<Arc<Object>> {
        let mut shard = self.shard(object.id()).write();
        if shard.objects.contains_key(&object.id().0) {
            return Entered::Taken;
        }
        // An object leaves memory under this lock only: what the earlier dnodes did not show is here.
        if !current() {
            return Entered::Outdated;
        }
        shard.insert(&object, self.shard_max);
        Entered::In(object)
    }

    /// The creation of an object was undone.
    pub(crate) fn remove_new(&self, object: &Arc<Object>) {
        let mut shard = self.shard(object.id()).write();
        let id = object.id().0;
        if shard
            .objects
            .get(&id)
            .is_some_and(|known| Arc::ptr_eq(known, object))
        {
            shard.objects.remove(&id);
        }
    }

    /// Notes that an object was freed in `txg`.
    pub(crate) fn note_freed(&self, txg: Txg, id: ObjectId) {
        self.freed.lock().push((txg, id));
    }

    /// Lets go of the objects freed up to `txg`.
    pub(crate) fn forget_freed(&self, txg: Txg) {
        let mut freed = self.freed.lock();
        let mut gone = Vec::new();
        freed.retain(|&(when, id)| {
            let keep = when > txg;
            if !keep {
                gone.push(id);
            }
            keep
        });
        drop(freed);
        for id in gone {
            let mut shard = self.shard(id).write();
            if shard
                .objects
                .get(&id.0)
                .is_some_and(|object| !object.is_allocated())
            {
                shard.objects.remove(&id.0);
            }
        }
    }
}
