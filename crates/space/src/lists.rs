//! Which metaslabs of a vdev are in which state, and what they sum up to: so that nothing done once a txg, or once an
//! allocation, looks at all of them.
//!
//! A metaslab enters and leaves a list under its own lock, as its state changes; the lists' lock comes after it.

use base::Txg;
use base::invariant;
use base::invariant::Findings;
use base::lock::{LockClass, Mutex, MutexGuard, rank};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

static LISTS: LockClass = LockClass::new("space.lists", rank::SPACE + 20);

/// A sum of what stands in the headers of maps, and changes by differences. Whoever wrote the headers may have
/// miscounted: below zero it counts as nothing.
#[derive(Debug, Default)]
pub(crate) struct Sum(AtomicI64);

impl Sum {
    pub(crate) fn add(&self, change: i64) {
        self.0.fetch_add(change, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// A count of what is in memory, which changes by differences: never below zero.
#[derive(Debug)]
pub(crate) struct Count {
    value: AtomicI64,
    of: &'static str,
    findings: Arc<Findings>,
}

impl Count {
    fn new(of: &'static str, findings: &Arc<Findings>) -> Self {
        Self {
            value: AtomicI64::new(0),
            of,
            findings: Arc::clone(findings),
        }
    }

    pub(crate) fn add(&self, change: i64) {
        let before = self.value.fetch_add(change, Ordering::Relaxed);
        let after = before.wrapping_add(change);
        let of = self.of;
        invariant!(
            self.findings,
            after >= 0,
            "space.counts",
            "{of} changed by {change} to {after}"
        );
    }

    /// Changes it by what a part of it has changed.
    pub(crate) fn change(&self, before: u64, after: u64) {
        self.add(after.cast_signed().wrapping_sub(before.cast_signed()));
    }

    pub(crate) fn get(&self) -> u64 {
        // Below zero, it was noted.
        u64::try_from(self.value.load(Ordering::Relaxed)).unwrap_or(0)
    }
}

/// What a vdev's metaslabs share.
#[derive(Debug)]
pub(crate) struct Lists {
    members: Mutex<Members>,
    /// Bytes in use on disk.
    pub(crate) allocated: Sum,
    /// Bytes in use for a checkpoint alone.
    pub(crate) kept: Sum,
    /// Bytes freed that rest.
    pub(crate) resting_bytes: Count,
    /// Metaslabs that are loaded, their segments, and the memory these take.
    pub(crate) loaded: Count,
    pub(crate) segments: Count,
    pub(crate) memory_bytes: Count,
    /// The most memory that they took so far.
    pub(crate) memory_max: AtomicU64,
    /// Ranges of changes that are in the logs only.
    pub(crate) unflushed: Count,
    /// How often a metaslab was loaded.
    pub(crate) loads: AtomicU64,
    /// Whether metaslabs note what becomes free.
    pub(crate) remembers: AtomicBool,
    /// Where broken invariants of the pool are noted.
    pub(crate) findings: Arc<Findings>,
}

/// By their index in the vdev.
#[derive(Debug, Default)]
pub(crate) struct Members {
    /// All, those with the longest free segments first: see [`super::metaslab::Rank`].
    pub(crate) by_rank: BTreeSet<(u8, usize)>,
    /// Those not loaded that may have longer free segments than their rank says, by the rank of the longest.
    pub(crate) doubtful: BTreeSet<(u8, usize)>,
    /// With allocations that are not written yet, by txg.
    pub(crate) allocating: [BTreeSet<usize>; Txg::SLOTS],
    /// With frees that are not written yet.
    pub(crate) freeing: BTreeSet<usize>,
    /// With ranges given up for a checkpoint that are not written yet.
    pub(crate) keeping: BTreeSet<usize>,
    /// With freed ranges that rest.
    pub(crate) resting: BTreeSet<usize>,
    /// With a map, by the txg from which on their changes are in the logs.
    pub(crate) mapped: BTreeSet<(Txg, usize)>,
    /// Those of them with a map that cannot be read, apart from the others: their changes stay in the logs.
    pub(crate) unreadable: BTreeSet<(Txg, usize)>,
    pub(crate) loaded: BTreeSet<usize>,
    /// With ranges that became free lately, where that is noted.
    pub(crate) recent: BTreeSet<usize>,
}

impl Lists {
    pub(crate) fn new(findings: &Arc<Findings>) -> Self {
        let count = |of| Count::new(of, findings);
        Self {
            members: Mutex::new(&LISTS, Members::default()),
            allocated: Sum::default(),
            kept: Sum::default(),
            resting_bytes: count("bytes that rest"),
            loaded: count("loaded metaslabs"),
            segments: count("loaded segments"),
            memory_bytes: count("bytes of loaded segments"),
            unflushed: count("ranges in the logs"),
            memory_max: AtomicU64::new(0),
            loads: AtomicU64::new(0),
            remembers: AtomicBool::new(false),
            findings: Arc::clone(findings),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Members> {
        self.members.lock()
    }

    /// Whether some metaslab has something to write.
    pub(crate) fn is_dirty(&self, txg: Txg) -> bool {
        let members = self.lock();
        let is_changed = !members.allocating[txg.slot()].is_empty() || !members.freeing.is_empty();
        is_changed || !members.keeping.is_empty()
    }

    /// Those with something to write, ascending.
    pub(crate) fn dirty(&self, txg: Txg) -> BTreeSet<usize> {
        let members = self.lock();
        &members.allocating[txg.slot()] | &members.freeing
    }

    /// The next of those by rank: the first after `from`, no further than rank `to`.
    pub(crate) fn next_by_rank(&self, from: Option<(u8, usize)>, to: u8) -> Option<(u8, usize)> {
        next(&self.lock().by_rank, from, to)
    }

    /// The same of those that may have longer segments than their rank says.
    pub(crate) fn next_doubtful(&self, from: Option<(u8, usize)>, to: u8) -> Option<(u8, usize)> {
        next(&self.lock().doubtful, from, to)
    }
}

fn next(list: &BTreeSet<(u8, usize)>, from: Option<(u8, usize)>, to: u8) -> Option<(u8, usize)> {
    use std::ops::Bound::{Excluded, Unbounded};
    let from = from.map_or(Unbounded, Excluded);
    let found = list.range((from, Unbounded)).next().copied();
    found.filter(|(rank, _)| *rank <= to)
}
