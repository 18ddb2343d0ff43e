//! Which blocks the cache in memory is to keep: the property `primarycache`, as who reads and writes blocks asks for
//! it.
//!
//! Asked with each block that is read from a device or written, by many threads and under their locks: so the answer is
//! at hand. It is looked up when an object set is opened, and for all that are open when a task has changed what
//! datasets have or inherit. A snapshot goes by its own value, or as its head's directory says.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use base::ObjectSetId;
use base::lock::{LockClass, RwLock, rank};
use pipeline::KeepSource;

use crate::property::CachePolicy;

static KNOWN: LockClass = LockClass::new("dsl.primary_cache", rank::LAST + 9);

/// Of which object sets the cache does not keep all.
pub struct PrimaryCache {
    known: RwLock<BTreeMap<ObjectSetId, CachePolicy>>,
    /// Whether there are any: in other pools nobody takes the lock.
    any: AtomicBool,
    /// A task has changed what datasets have.
    is_outdated: AtomicBool,
}

impl Default for PrimaryCache {
    fn default() -> Self {
        Self {
            known: RwLock::new(&KNOWN, BTreeMap::new()),
            any: AtomicBool::new(false),
            is_outdated: AtomicBool::new(false),
        }
    }
}

impl PrimaryCache {
    /// Whether a task has changed anything since this was asked last.
    pub(crate) fn take_change(&self) -> bool {
        self.is_outdated.swap(false, Ordering::AcqRel)
    }

    /// A task changes what datasets have, or from whom they inherit.
    pub(crate) fn note_change(&self) {
        self.is_outdated.store(true, Ordering::Release);
    }

    /// An object set is gone, or is one of another dataset now.
    pub(crate) fn forget(&self, set: ObjectSetId) {
        self.enter(set, CachePolicy::All);
    }

    /// What the cache keeps of an object set.
    pub(crate) fn enter(&self, set: ObjectSetId, policy: CachePolicy) {
        if policy == CachePolicy::All && !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut known = self.known.write();
        match policy {
            CachePolicy::All => drop(known.remove(&set)),
            CachePolicy::Metadata | CachePolicy::None => drop(known.insert(set, policy)),
        }
        self.any.store(!known.is_empty(), Ordering::Release);
    }
}

impl KeepSource for PrimaryCache {
    fn keeps(&self, set: ObjectSetId, is_metadata: bool) -> bool {
        if !self.any.load(Ordering::Acquire) {
            return true;
        }
        match self.known.read().get(&set) {
            None | Some(CachePolicy::All) => true,
            Some(CachePolicy::Metadata) => is_metadata,
            Some(CachePolicy::None) => false,
        }
    }
}
