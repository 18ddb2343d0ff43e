//! Which metaslabs are loaded.
//!
//! Loaded are those that allocators work on, the next that they would choose (loaded ahead, when a txg has ended, so
//! that an allocation seldom waits for a map), and what was used lately. Beyond the limits the longest unused are let
//! go; never what an allocator works on, nor what was used for a txg that has not ended: its map may be changing.

use super::PoolSpace;
use crate::metaslab::Metaslab;
use crate::vdev_space::VdevSpace;
use crate::{SpaceStore, tunables};
use base::Txg;
use base::metrics::{Source, Value};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// CPUs for each allocator, when their number is not given.
const CPUS_PER_ALLOCATOR: usize = 4;

/// What is loaded of a pool's free space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Metaslabs.
    pub metaslabs: u64,
    /// Their free segments.
    pub segments: u64,
    /// Bytes of memory that these take.
    pub bytes: u64,
    /// The most that they took, each vdev's for itself, since the pool was opened.
    pub max_bytes: u64,
    /// How often a metaslab was loaded since the pool was opened.
    pub loads: u64,
}

impl Source for PoolSpace {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        let loaded = self.loaded();
        let level = |now: u64, max: u64| Value::Gauge {
            level: now.cast_signed(),
            high_water: max.cast_signed(),
        };
        sink("loaded_bytes", level(loaded.bytes, loaded.max_bytes));
        for (name, count) in [
            ("loaded_metaslabs", loaded.metaslabs),
            ("loaded_segments", loaded.segments),
            ("unflushed_ranges", self.unflushed_ranges()),
            ("unreadable_metaslabs", self.unreadable_metaslabs()),
        ] {
            sink(name, level(count, count));
        }
        sink("loads", Value::Counter(loaded.loads));
    }
}

/// How many allocators a pool of this machine has.
#[must_use]
pub fn allocators_of_machine() -> usize {
    match tunables::ALLOCATORS_COUNT.count() {
        0 => {
            let cpus = base::thread::cpus();
            cpus.div_ceil(CPUS_PER_ALLOCATOR)
        }
        given => given,
    }
}

impl PoolSpace {
    /// What is loaded now.
    #[must_use]
    pub fn loaded(&self) -> Loaded {
        let vdevs = self.vdevs.read();
        let mut loaded = Loaded::default();
        for lists in vdevs.iter().flatten().map(|vdev| vdev.lists()) {
            loaded.metaslabs += lists.loaded.get();
            loaded.segments += lists.segments.get();
            loaded.bytes += lists.memory_bytes.get();
            loaded.max_bytes += lists.memory_max.load(Ordering::Relaxed);
            loaded.loads += lists.loads.load(Ordering::Relaxed);
        }
        loaded
    }

    fn is_over_limit(&self) -> bool {
        let loaded = self.loaded();
        loaded.bytes > tunables::LOADED_BYTES.get()
            || loaded.metaslabs > tunables::LOADED_COUNT.get()
    }

    /// Lets metaslabs go until what is loaded is within the limits, the longest unused first; `but` stays.
    pub(crate) fn shed(&self, but: Option<&Arc<Metaslab>>) {
        if !self.is_over_limit() {
            return;
        }
        let finished = self.finished.load(Ordering::Relaxed);
        let mut idle: Vec<(u64, Arc<Metaslab>)> = Vec::new();
        for vdev in self.vdevs() {
            let loaded = vdev.lists().lock().loaded.clone();
            let unused = vdev
                .of(loaded)
                .filter(|metaslab| metaslab.last_used() <= finished && !metaslab.is_in_use());
            idle.extend(unused.map(|metaslab| (metaslab.last_used(), Arc::clone(metaslab))));
        }
        idle.sort_by_key(|(used, _)| *used);
        for (_, metaslab) in idle {
            if but.is_some_and(|but| Arc::ptr_eq(but, &metaslab)) {
                continue;
            }
            metaslab.unload();
            if !self.is_over_limit() {
                return;
            }
        }
    }

    /// Loads what allocators would choose next, as far as the limits allow; after a txg. What cannot be loaded is told
    /// to the allocation that needs it, if there ever is one.
    pub fn load_ahead(&self, store: &dyn SpaceStore) {
        let syncing = Txg(self.finished.load(Ordering::Relaxed)).next();
        for vdev in self.vdevs() {
            if !vdev.is_allocatable() {
                continue;
            }
            for metaslab in self.next_of(&vdev, tunables::LOADED_AHEAD_COUNT.count()) {
                if self.is_over_limit() {
                    return;
                }
                metaslab.touch(syncing);
                let _ = metaslab.load(store);
            }
        }
    }

    /// The metaslabs that an allocator would take next for data, beside those that are worked on.
    fn next_of(&self, vdev: &VdevSpace, count: usize) -> Vec<Arc<Metaslab>> {
        let mut found = Vec::with_capacity(count);
        let mut at = None;
        if count == 0 {
            return found;
        }
        while let Some(next) = vdev.lists().next_by_rank(at, u8::MAX - 1) {
            at = Some(next);
            for metaslab in vdev.of([next.1]) {
                let is_for_others = vdev.is_for_log(metaslab)
                    || vdev.is_for_metadata(metaslab, self.metadata_count());
                if !metaslab.is_in_use() && !is_for_others && !metaslab.is_unreadable() {
                    found.push(Arc::clone(metaslab));
                }
            }
            if found.len() >= count {
                break;
            }
        }
        found
    }
}
