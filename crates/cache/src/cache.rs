//! The shards, the concurrent-miss protocol and the limit.

mod brief;
#[cfg(test)]
mod tests;

use crate::tunables;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::metrics::{Source, Value};

use crate::index::Index;
use crate::shard::Shard;
use brief::BriefStays;

static SHARD_CLASS: LockClass = LockClass::new("cache shard", rank::CACHE + 2);
static BRIEF_CLASS: LockClass = LockClass::new("cache brief stays", rank::CACHE);
static PENDING_READ_CLASS: LockClass = LockClass::new("cache read in flight", rank::CACHE + 1);

/// How long a block is worth keeping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stay {
    /// While it is used and there is room.
    Long,
    /// For a while: somebody else caches it as well.
    Short,
    /// Until it was read: it is not wanted here. See [`Cache::end_brief_stay`].
    Brief,
    /// While it is used again and again, and no longer.
    InUse,
}

impl Stay {
    /// Whether the cache is not to keep it.
    const fn is_brief(self) -> bool {
        match self {
            Self::Brief | Self::InUse => true,
            Self::Long | Self::Short => false,
        }
    }
}

/// Where a block is and when it was born: no two blocks ever share all three.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct BlockKey {
    /// Top-level vdev of the first copy.
    pub vdev: u64,
    /// Byte offset of the first copy.
    pub offset: u64,
    /// The txg in which the bytes were written.
    pub birth: u64,
}

impl BlockKey {
    /// A number that tells blocks apart, nearly always.
    #[must_use]
    pub fn hash(&self) -> u64 {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let hash = mix(
            mix(mix(0x2545_F491_4F6C_DD1D, self.offset >> 9), self.birth),
            self.vdev,
        );
        hash ^ (hash >> 29)
    }
}

/// What the cache did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CacheStatistics {
    /// Lookups answered from memory.
    pub hits: u64,
    /// Lookups that had to load.
    pub misses: u64,
    /// Lookups that waited for another thread's load of the same block.
    pub shared_loads: u64,
    /// Blocks dropped for room.
    pub evictions: u64,
    /// Blocks that came and are not to be kept.
    pub brief_stays: u64,
    /// Bytes held now.
    pub bytes: u64,
    /// Blocks held now.
    pub blocks: u64,
    /// The most bytes to hold.
    pub limit_bytes: u64,
}

/// A load in progress, on which others wait. Whoever changes what the cache has of its block takes it out of the
/// pending_reads: then what it brings is outdated, and is only for those who asked before.
#[derive(Debug)]
struct PendingRead<V> {
    done: Mutex<Done<V>>,
    finished: Condvar,
}

/// How far a load has come, for those who wait for it.
#[derive(Debug)]
enum Done<V> {
    NotYet,
    /// With this block, which need not be in the cache any more.
    Loaded(V),
    /// It failed, or the block has changed: they look again.
    Nothing,
}

impl<V: Clone> PendingRead<V> {
    fn start(pending_reads: &mut HashMap<BlockKey, Arc<Self>>, key: BlockKey) -> Arc<Self> {
        let pending_read = Arc::new(Self {
            done: Mutex::new(&PENDING_READ_CLASS, Done::NotYet),
            finished: Condvar::new(),
        });
        pending_reads.insert(key, Arc::clone(&pending_read));
        pending_read
    }

    /// Wakes who waits, unless that was done.
    fn finish(&self, how: Done<V>) {
        let mut done = self.done.lock();
        if matches!(*done, Done::NotYet) {
            *done = how;
            self.finished.notify_all();
        }
    }

    /// Waits for its end: the block, if that is what it came to.
    fn wait(&self) -> Option<V> {
        let mut done = self.done.lock();
        while matches!(*done, Done::NotYet) {
            self.finished.wait(&mut done);
        }
        match &*done {
            Done::Loaded(value) => Some(value.clone()),
            Done::Nothing | Done::NotYet => None,
        }
    }
}

#[derive(Debug)]
struct Locked<V> {
    blocks: Shard<V>,
    /// At most one entry a loading thread.
    pending_reads: HashMap<BlockKey, Arc<PendingRead<V>>>,
}

impl<V> Locked<V> {
    /// Whether nothing came for the block since the pending read started.
    fn is_current(&self, key: &BlockKey, pending_read: &Arc<PendingRead<V>>) -> bool {
        let current = self.pending_reads.get(key);
        current.is_some_and(|current| Arc::ptr_eq(current, pending_read))
    }
}

#[derive(Debug)]
struct Slot<V> {
    locked: Mutex<Locked<V>>,
    /// How many loads are pending: written under the lock.
    loading: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    shared_loads: AtomicU64,
}

impl<V: Clone> Slot<V> {
    /// A load begins, of a block that is neither here nor being loaded.
    fn start_load(&self, locked: &mut Locked<V>, key: BlockKey) -> Arc<PendingRead<V>> {
        let pending_read = PendingRead::start(&mut locked.pending_reads, key);
        self.loading
            .store(locked.pending_reads.len(), Ordering::SeqCst);
        pending_read
    }

    /// The load of a block, if there is one, is nobody's to wait for any more.
    fn end_load(&self, locked: &mut Locked<V>, key: &BlockKey) -> Option<Arc<PendingRead<V>>> {
        let ended = locked.pending_reads.remove(key);
        self.loading
            .store(locked.pending_reads.len(), Ordering::SeqCst);
        ended
    }
}

/// A byte-limited map from blocks to values, which are cheap to clone (reference counted).
#[derive(Debug)]
pub struct Cache<V> {
    /// What all shards hold, for readers.
    index: Arc<Index<V>>,
    slots: Box<[Slot<V>]>,
    brief: Mutex<BriefStays>,
    limit_bytes: AtomicUsize,
}

impl<V: Clone> Cache<V> {
    /// A cache that holds at most `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        let count = (limit_bytes / tunables::SHARD_BYTES_MIN.count())
            .clamp(1, tunables::SHARDS_MAX.count());
        let count = 1 << count.ilog2();
        let index = Arc::new(Index::new());
        let slot = || Slot {
            locked: Mutex::new(
                &SHARD_CLASS,
                Locked {
                    blocks: Shard::new(
                        limit_bytes / count,
                        passing_bytes(limit_bytes) / count,
                        Arc::clone(&index),
                    ),
                    pending_reads: HashMap::new(),
                },
            ),
            loading: AtomicUsize::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            shared_loads: AtomicU64::new(0),
        };
        Self {
            slots: (0..count).map(|_| slot()).collect(),
            index,
            brief: Mutex::new(&BRIEF_CLASS, BriefStays::default()),
            limit_bytes: AtomicUsize::new(limit_bytes),
        }
    }

    /// The most bytes to hold.
    #[must_use]
    pub fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed) as u64
    }

    /// Changes the limit; evicts down to it at once.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
        let count = self.slots.len();
        for slot in &self.slots {
            slot.locked
                .lock()
                .blocks
                .set_limit(limit_bytes / count, passing_bytes(limit_bytes) / count);
        }
    }

    /// The block, if it is here.
    #[must_use]
    pub fn get(&self, key: &BlockKey) -> Option<V> {
        let slot = self.slot(key);
        let found = self.index.get(key);
        let counter = if found.is_some() {
            &slot.hits
        } else {
            &slot.misses
        };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Whether the block is here, without making it look used.
    #[must_use]
    pub fn contains(&self, key: &BlockKey) -> bool {
        self.index.contains(key)
    }

    /// Holds `value`, which weighs `bytes`, replacing what was there.
    pub fn insert(&self, key: BlockKey, value: V, bytes: usize, stay: Stay) {
        let slot = self.slot(&key);
        let mut locked = slot.locked.lock();
        let is_held = locked.blocks.insert(key, value, bytes, stay);
        let outrun = slot.end_load(&mut locked, &key);
        drop(locked);
        let outrun = outrun.iter();
        outrun.for_each(|pending_read| pending_read.finish(Done::Nothing));
        if is_held && stay.is_brief() {
            self.begin_brief_stay(key, bytes, stay);
        }
    }

    /// Forgets a block. Of one that is not here that costs a look: most blocks that are freed are not.
    pub fn remove(&self, key: &BlockKey) {
        let slot = self.slot(key);
        // In this order: a load that has ended by the first look has brought what the second one finds.
        if slot.loading.load(Ordering::SeqCst) == 0 && !self.index.contains(key) {
            return;
        }
        let mut locked = slot.locked.lock();
        locked.blocks.remove(key);
        let outrun = slot.end_load(&mut locked, key);
        drop(locked);
        let outrun = outrun.iter();
        outrun.for_each(|pending_read| pending_read.finish(Done::Nothing));
    }

    /// Forgets everything.
    pub fn clear(&self) {
        self.brief.lock().forget_all();
        for slot in &self.slots {
            let mut locked = slot.locked.lock();
            locked.blocks.clear();
            let outrun = std::mem::take(&mut locked.pending_reads);
            slot.loading.store(0, Ordering::SeqCst);
            drop(locked);
            outrun
                .values()
                .for_each(|pending_read| pending_read.finish(Done::Nothing));
        }
    }

    /// The block from the cache, or from `load`, which gives the value and its weight; `stay` is asked when it is
    /// there. Of several threads that miss the same block at once, one loads and the others take its result; when
    /// it fails, the next one tries for itself. A load that began before an [`Cache::insert`] or
    /// [`Cache::remove`] of the block changes nothing in the cache.
    pub fn get_or_load<E>(
        &self,
        key: BlockKey,
        stay: impl FnOnce() -> Stay,
        load: impl FnOnce() -> Result<(V, usize), E>,
    ) -> Result<V, E> {
        let slot = self.slot(&key);
        let guard = loop {
            if let Some(value) = self.index.get(&key) {
                slot.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(value);
            }
            let mut locked = slot.locked.lock();
            // Again, for who loaded it has removed its pending read under this lock.
            if let Some(value) = self.index.get(&key) {
                slot.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(value);
            }
            let Some(pending_read) = locked.pending_reads.get(&key).map(Arc::clone) else {
                let pending_read = slot.start_load(&mut locked, key);
                break LoadGuard {
                    cache: self,
                    slot,
                    key,
                    pending_read,
                };
            };
            drop(locked);
            slot.shared_loads.fetch_add(1, Ordering::Relaxed);
            if let Some(value) = pending_read.wait() {
                slot.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(value);
            }
        };
        slot.misses.fetch_add(1, Ordering::Relaxed);
        let (value, bytes) = load()?;
        guard.bring(value.clone(), bytes, stay());
        Ok(value)
    }

    /// Keeps a place for a block that is neither here nor being loaded: the caller loads it, and who
    /// wants it meanwhile waits for that.
    #[must_use]
    pub fn reserve(&self, key: BlockKey) -> Option<Reservation<'_, V>> {
        let slot = self.slot(&key);
        let mut locked = slot.locked.lock();
        if self.index.contains(&key) || locked.pending_reads.contains_key(&key) {
            return None;
        }
        let pending_read = slot.start_load(&mut locked, key);
        Some(Reservation {
            guard: LoadGuard {
                cache: self,
                slot,
                key,
                pending_read,
            },
        })
    }

    /// What the cache did so far.
    #[must_use]
    pub fn statistics(&self) -> CacheStatistics {
        let mut sum = CacheStatistics {
            limit_bytes: self.limit_bytes.load(Ordering::Relaxed) as u64,
            brief_stays: self.brief.lock().begun(),
            ..CacheStatistics::default()
        };
        for slot in &self.slots {
            sum.hits += slot.hits.load(Ordering::Relaxed);
            sum.misses += slot.misses.load(Ordering::Relaxed);
            sum.shared_loads += slot.shared_loads.load(Ordering::Relaxed);
            let locked = slot.locked.lock();
            sum.evictions += locked.blocks.evictions();
            sum.bytes += locked.blocks.bytes() as u64;
            sum.blocks += locked.blocks.len() as u64;
        }
        sum
    }

    fn slot(&self, key: &BlockKey) -> &Slot<V> {
        // The shard's own table uses another hash, so these bits are free to take.
        &self.slots[(key.hash() as usize) & (self.slots.len() - 1)]
    }
}

impl<V: Clone + Send + Sync> Source for Cache<V> {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        let found = self.statistics();
        let level = |amount: u64| {
            let level = i64::try_from(amount).unwrap_or(i64::MAX);
            Value::Gauge {
                level,
                high_water: level,
            }
        };
        sink("hits", Value::Counter(found.hits));
        sink("misses", Value::Counter(found.misses));
        sink("shared_loads", Value::Counter(found.shared_loads));
        sink("evictions", Value::Counter(found.evictions));
        sink("brief_stays", Value::Counter(found.brief_stays));
        sink("bytes", level(found.bytes));
        sink("blocks", level(found.blocks));
        sink("limit_bytes", level(found.limit_bytes));
    }
}

fn passing_bytes(limit_bytes: usize) -> usize {
    (limit_bytes / tunables::PASSING_SHARE.count()).min(tunables::PASSING_BYTES_MAX.count())
}

/// A place kept for a block. Dropped unfilled, those who wait for the block try for themselves.
#[must_use]
pub struct Reservation<'a, V: Clone> {
    guard: LoadGuard<'a, V>,
}

impl<V: Clone> Reservation<'_, V> {
    /// The block is loaded; it weighs `bytes`.
    pub fn fill(self, value: V, bytes: usize, stay: Stay) {
        self.guard.bring(value, bytes, stay);
    }
}

/// Wakes the waiters of a load however it ends, unwinding included.
struct LoadGuard<'a, V: Clone> {
    cache: &'a Cache<V>,
    slot: &'a Slot<V>,
    key: BlockKey,
    pending_read: Arc<PendingRead<V>>,
}

impl<V: Clone> LoadGuard<'_, V> {
    /// Holds what was loaded, if nothing else came meanwhile: that is newer.
    fn bring(self, value: V, bytes: usize, stay: Stay) {
        let mut locked = self.slot.locked.lock();
        let mut is_held = false;
        if locked.is_current(&self.key, &self.pending_read) {
            is_held = locked.blocks.insert(self.key, value.clone(), bytes, stay);
        }
        drop(locked);
        // Those who wait have it also where it does not stay.
        self.pending_read.finish(Done::Loaded(value));
        if is_held && stay.is_brief() {
            self.cache.begin_brief_stay(self.key, bytes, stay);
        }
    }
}

impl<V: Clone> Drop for LoadGuard<'_, V> {
    fn drop(&mut self) {
        let mut locked = self.slot.locked.lock();
        if locked.is_current(&self.key, &self.pending_read) {
            self.slot.end_load(&mut locked, &self.key);
        }
        drop(locked);
        self.pending_read.finish(Done::Nothing);
    }
}
