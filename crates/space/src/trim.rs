//! Giving free space back to the devices, range by range, while others allocate.
//!
//! ```text
//! trimmer:    step ── takes a range out of use ── discards it on every leaf ── drops the Trimming: free again
//! allocator:  no room ── waits until nothing is under a discard, holds new ones off ── tries again
//! ```
//!
//! So an allocation that there is room for never fails because of a trim, and never gets what a discard still destroys.

use crate::metaslab::{Metaslab, TrimSizes};
use crate::{Extent, PoolSpace, RangeSet, SpaceError, SpaceStore};
use base::VdevId;
use base::lock::{Condvar, LockClass, Mutex, rank};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static GATE: LockClass = LockClass::new("space.trim_gate", rank::SPACE + 3);

#[derive(Debug, Default)]
struct Counts {
    /// Ranges under a discard.
    under_way: usize,
    /// Allocations that need all the space there is.
    held_off: usize,
}

/// Between those who trim and those who need the space.
#[derive(Debug)]
pub(crate) struct TrimGate {
    counts: Mutex<Counts>,
    changed: Condvar,
    /// Discards that ever began, and that ended: both only grow, under the lock.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// While it lives, no discard begins.
pub(crate) struct HeldOff<'a>(&'a TrimGate);

impl TrimGate {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            counts: Mutex::new(&GATE, Counts::default()),
            changed: Condvar::new(),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// A mark if nothing is under a discard right now.
    pub(crate) fn quiet(&self) -> Option<u64> {
        // In this order: what has ended by the first look had begun by the second.
        let ended = self.ended.load(Ordering::SeqCst);
        (self.begun.load(Ordering::SeqCst) == ended).then_some(ended)
    }

    /// Whether nothing was under a discard at any time since the mark.
    pub(crate) fn was_quiet_since(&self, mark: Option<u64>) -> bool {
        mark == Some(self.begun.load(Ordering::SeqCst))
    }

    /// Waits until nothing is under a discard, and lets none begin.
    pub(crate) fn hold_off(&self) -> HeldOff<'_> {
        let mut counts = self.counts.lock();
        counts.held_off += 1;
        while counts.under_way > 0 {
            self.changed.wait(&mut counts);
        }
        HeldOff(self)
    }

    /// Begins a discard, unless an allocation holds it off.
    fn begin(&self) -> bool {
        let mut counts = self.counts.lock();
        if counts.held_off > 0 {
            return false;
        }
        counts.under_way += 1;
        self.begun.fetch_add(1, Ordering::SeqCst);
        true
    }

    fn end(&self) {
        let mut counts = self.counts.lock();
        counts.under_way -= 1;
        self.ended.fetch_add(1, Ordering::SeqCst);
        drop(counts);
        self.changed.notify_all();
    }
}

impl Drop for HeldOff<'_> {
    fn drop(&mut self) {
        self.0.counts.lock().held_off -= 1;
    }
}

/// A free range that is out of use for a discard; free again when this is dropped.
#[derive(Debug)]
pub struct Trimming {
    gate: Arc<TrimGate>,
    metaslab: Arc<Metaslab>,
    extent: Extent,
}

impl Trimming {
    /// Where it is.
    #[must_use]
    pub const fn extent(&self) -> &Extent {
        &self.extent
    }
}

impl Drop for Trimming {
    fn drop(&mut self) {
        let given = self.metaslab.trimmed(self.extent.range.clone());
        // Space that cannot be used again is space that nobody gets until the next import.
        debug_assert!(given.is_ok(), "{given:?}");
        self.gate.end();
    }
}

/// What comes next of a trim.
#[derive(Debug)]
pub enum TrimStep {
    /// This range.
    Range(Trimming),
    /// An allocation needs all the space there is: later.
    Later,
    /// Nothing more.
    End,
}

impl PoolSpace {
    /// The next range of a vdev to be discarded, from byte `from` on; `used_only`: not in metaslabs that were never
    /// used.
    ///
    /// # Errors
    /// The maps cannot be read, or there is no such vdev.
    pub fn trim_step(
        &self,
        vdev: VdevId,
        from: u64,
        (sizes, used_only): (TrimSizes, bool),
        store: &dyn SpaceStore,
    ) -> Result<TrimStep, SpaceError> {
        let vdev = self.vdev_of(vdev, &(from..from))?;
        for metaslab in vdev.metaslabs() {
            let whole = &metaslab.place().range;
            if whole.end <= from || (used_only && !metaslab.has_map()) {
                continue;
            }
            let within = whole.start.max(from)..whole.end;
            match self.take(metaslab, &within, sizes, store)? {
                TrimStep::End => {}
                step @ (TrimStep::Range(_) | TrimStep::Later) => return Ok(step),
            }
        }
        Ok(TrimStep::End)
    }

    fn take(
        &self,
        metaslab: &Arc<Metaslab>,
        within: &std::ops::Range<u64>,
        sizes: TrimSizes,
        store: &dyn SpaceStore,
    ) -> Result<TrimStep, SpaceError> {
        // What it takes to load the maps is not to keep allocations waiting.
        if !metaslab.load_unless_damaged(store)? {
            return Ok(TrimStep::End);
        }
        self.shed(Some(metaslab));
        if !self.trims.begin() {
            return Ok(TrimStep::Later);
        }
        let taken = metaslab.take_for_trim(within, sizes, store);
        let Ok(Some(range)) = taken else {
            self.trims.end();
            return taken.map(|_| TrimStep::End);
        };
        Ok(TrimStep::Range(Trimming {
            gate: Arc::clone(&self.trims),
            metaslab: Arc::clone(metaslab),
            extent: Extent {
                vdev: metaslab.place().vdev,
                range,
            },
        }))
    }

    /// Remembers from now on what becomes free, for [`Self::take_recent`]; or no more.
    pub fn set_remembers(&self, remembers: bool) {
        self.remembers.store(remembers, Ordering::Relaxed);
        for vdev in self.vdevs() {
            vdev.set_remembers(remembers);
        }
    }

    /// What became free since this was last asked, by vdev. Parts of it may be in use again.
    #[must_use]
    pub fn take_recent(&self) -> Vec<(VdevId, RangeSet)> {
        let mut found = Vec::new();
        for vdev in self.vdevs() {
            let all = vdev.take_recent();
            if !all.is_empty() {
                found.push((vdev.geometry().vdev, all));
            }
        }
        found
    }

    /// The next range to be discarded of a range of a vdev that became free, from its beginning on.
    ///
    /// # Errors
    /// As [`Self::trim_step`].
    pub fn trim_recent(
        &self,
        extent: &Extent,
        sizes: TrimSizes,
        store: &dyn SpaceStore,
    ) -> Result<TrimStep, SpaceError> {
        let vdev = self.vdev_of(extent.vdev, &extent.range)?;
        for metaslab in vdev.metaslabs() {
            let whole = &metaslab.place().range;
            let within = whole.start.max(extent.range.start)..whole.end.min(extent.range.end);
            if within.is_empty() {
                continue;
            }
            match self.take(metaslab, &within, sizes, store)? {
                TrimStep::End => {}
                step @ (TrimStep::Range(_) | TrimStep::Later) => return Ok(step),
            }
        }
        Ok(TrimStep::End)
    }
}

#[cfg(test)]
mod tests;
