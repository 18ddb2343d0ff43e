//! The files in memory: one [`Znode`] an object, in shards, up to a bound.
//!
//! A file that someone uses (an open handle, an operation) stays; of the others a clock hand drops
//! those not used since it last passed. A miss loads outside of the shard's lock; the shard counts
//! what it dropped, so that a loader who was overtaken looks again instead of installing what it
//! read before another's change.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::ObjectId;
use base::lock::{LockClass, RwLock, rank};

use crate::Result;
use crate::tunables;
use crate::znode::Znode;

static SHARD: LockClass = LockClass::new("posix.table", rank::POSIX + 40);

const SHARDS: usize = 64;

/// Spreads object numbers; they are small, dense and not chosen by an adversary.
#[derive(Default)]
struct ObjectHasher(u64);

impl Hasher for ObjectHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(self.0 ^ u64::from(byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[derive(Default)]
struct Shard {
    files: HashMap<u64, Arc<Znode>, BuildHasherDefault<ObjectHasher>>,
    ring: Ring,
    /// How many files were dropped or removed so far.
    dropped: u64,
}

/// What the hand goes round. Numbers of files that are gone fall out as it meets them, or once they are the most.
#[derive(Default)]
struct Ring {
    numbers: Vec<u64>,
    hand: usize,
}

impl Ring {
    /// Enters a number that is not there. `present`: those that are to stay, this one included.
    fn enter(&mut self, number: u64, present: impl ExactSizeIterator<Item = u64>) {
        /// Few are let be.
        const SLACK: usize = 64;
        if self.numbers.len() >= 2 * present.len() + SLACK {
            self.numbers.clear();
            self.numbers.extend(present);
            return;
        }
        self.numbers.push(number);
    }

    /// The number at the hand.
    fn next(&mut self) -> Option<u64> {
        self.hand = self.hand.checked_rem(self.numbers.len())?;
        self.numbers.get(self.hand).copied()
    }
}

/// The files in memory of one file system.
pub(crate) struct ZnodeTable {
    shards: Box<[RwLock<Shard>]>,
    capacity: usize,
}

impl std::fmt::Debug for ZnodeTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ZnodeTable(up to {} files a shard)", self.capacity)
    }
}

impl ZnodeTable {
    /// A table for about `capacity` files; 0 for the default.
    pub(crate) fn new(capacity: usize) -> Self {
        let capacity = if capacity == 0 {
            tunables::FILES_MAX.count()
        } else {
            capacity
        };
        Self {
            shards: (0..SHARDS)
                .map(|_| RwLock::new(&SHARD, Shard::default()))
                .collect(),
            capacity: capacity.div_ceil(SHARDS).max(2),
        }
    }

    fn shard(&self, object: ObjectId) -> &RwLock<Shard> {
        let spread = object.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        &self.shards[spread as usize % SHARDS]
    }

    /// The file, if it is in memory.
    pub(crate) fn get(&self, object: ObjectId) -> Option<Arc<Znode>> {
        let shard = self.shard(object).read();
        let znode = shard.files.get(&object.0)?;
        if !znode.used.load(Ordering::Relaxed) {
            znode.used.store(true, Ordering::Relaxed);
        }
        Some(Arc::clone(znode))
    }

    /// The file, from core or by `load`.
    pub(crate) fn get_or_load(
        &self,
        object: ObjectId,
        load: impl Fn() -> Result<Arc<Znode>>,
    ) -> Result<Arc<Znode>> {
        loop {
            if let Some(znode) = self.get(object) {
                return Ok(znode);
            }
            let shard = self.shard(object);
            let dropped = shard.read().dropped;
            let loaded = load()?;
            let mut shard = shard.write();
            if let Some(znode) = shard.files.get(&object.0) {
                return Ok(Arc::clone(znode));
            }
            if shard.dropped == dropped {
                let swept = self.install(&mut shard, Arc::clone(&loaded));
                drop(shard);
                drop(swept);
                return Ok(loaded);
            }
        }
    }

    /// Installs a file that was just created.
    pub(crate) fn insert(&self, znode: Arc<Znode>) {
        let mut shard = self.shard(znode.id()).write();
        let swept = self.install(&mut shard, znode);
        drop(shard);
        drop(swept);
    }

    /// Forgets a file that was freed.
    pub(crate) fn remove(&self, object: ObjectId) {
        let mut shard = self.shard(object).write();
        shard.dropped += 1;
        let gone = shard.files.remove(&object.0);
        drop(shard);
        drop(gone);
    }

    /// Puts a file in and drops some unused ones when there are too many; returns those, to be
    /// freed without the lock.
    fn install(&self, shard: &mut Shard, znode: Arc<Znode>) -> Vec<Arc<Znode>> {
        let number = znode.id().0;
        let mut swept = Vec::new();
        swept.extend(shard.files.insert(number, znode));
        if swept.is_empty() {
            shard.ring.enter(number, shard.files.keys().copied());
        }
        if shard.files.len() <= self.capacity {
            return swept;
        }
        for _ in 0..tunables::SWEEP.get() {
            let Some(candidate) = shard.ring.next() else {
                break;
            };
            let keep = candidate == number
                || shard.files.get(&candidate).is_some_and(|znode| {
                    Arc::strong_count(znode) > 1
                        || znode.references.load(Ordering::Relaxed) != 0
                        || znode.atime_moved.load(Ordering::Relaxed)
                        || znode.used.swap(false, Ordering::Relaxed)
                });
            if keep {
                shard.ring.hand += 1;
            } else {
                swept.extend(shard.files.remove(&candidate));
                let hand = shard.ring.hand;
                shard.ring.numbers.swap_remove(hand);
                shard.dropped += 1;
            }
        }
        swept
    }
}

#[cfg(test)]
mod tests;
