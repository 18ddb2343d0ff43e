//! The space of the whole pool: classes, allocators, and the writing of a txg's changes.
//!
//! Which metaslabs are loaded: those that allocators work on, the next that they would choose, and what was used
//! lately, up to a limit of memory (`memory`).
//!
//! Allocation policy. Every allocator (one for some cores; a caller's hint picks it) keeps for each copy number an
//! active metaslab and takes space from it in ascending order, so that what is written together lies together and
//! allocators do not meet. Copies of one block go to different vdevs, or to different metaslabs of the only vdev.
//! After [`ROTOR_BYTES`](crate::tunables::ROTOR_BYTES) an allocator moves to the next vdev.
//!
//! Metadata that go to normal vdevs have active metaslabs of their own, and are packed to the front of these: all of
//! them are to lie within a few megabytes, however often they are written anew. A vdev's first metaslabs are left to
//! them by data that find room elsewhere; there they are found again after an import. Nothing on disk says so, and
//! nothing depends on it.
//!
//! Log blocks go to log vdevs; else to the metaslab that a large vdev sets aside for them, so that they lie together
//! and do not meet with what txgs write; else to the others, as long as the pool's budget for them lasts. Other blocks
//! that fit nowhere else may use the metaslabs set aside, before they are cut into pieces.

mod allocate;
mod keep;
mod memory;
mod sync;
mod used;

pub use memory::{Loaded, allocators_of_machine};

use crate::metaslab::Metaslab;
use crate::trim::TrimGate;
use crate::vdev_space::{ClassKind, VdevSpace};
use crate::{SpaceError, SpaceStore};
use base::lock::{LockClass, Mutex, RwLock, rank};
use base::{Txg, VdevId};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

static VDEVS: LockClass = LockClass::new("space.vdevs", rank::SPACE + 5);
static ACTIVE: LockClass = LockClass::new("space.active", rank::DMU - 20);

/// The most copies a block can have.
pub const COPIES_MAX: usize = 3;

/// A piece of space that was allocated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The top-level vdev.
    pub vdev: VdevId,
    /// Bytes of the vdev; a multiple of its smallest allocation.
    pub range: Range<u64>,
}

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Bytes of the block as stored.
    pub size: u64,
    /// How many copies, up to [`COPIES_MAX`].
    pub copies: usize,
    /// For which txg.
    pub txg: Txg,
    /// Where from; normal space serves where the class has no vdev or no room.
    pub class: ClassKind,
    /// Callers with the same hint get neighbouring space; different hints do not meet.
    pub hint: usize,
}

/// What an allocator works on for a copy.
#[derive(Debug, Default)]
struct Active {
    metaslab: Option<Arc<Metaslab>>,
    taken: u64,
}

impl Active {
    /// Goes on with another metaslab, or none.
    fn change(&mut self, metaslab: Option<Arc<Metaslab>>, taken: u64) {
        if let Some(new) = &metaslab {
            new.begin_use();
        }
        if let Some(old) = std::mem::replace(&mut self.metaslab, metaslab) {
            old.end_use();
        }
        self.taken = taken;
    }
}

/// The space of a pool.
#[derive(Debug)]
pub struct PoolSpace {
    vdevs: RwLock<Vec<Option<Arc<VdevSpace>>>>,
    /// By region, allocator and copy.
    active: Vec<Mutex<Active>>,
    allocators: usize,
    /// The last txg that has ended: what was used for it and not since may be unloaded.
    finished: AtomicU64,
    logs: bool,
    last_logs: sync::LastLogs,
    two_words: bool,
    /// Bytes that log blocks may still take of the space that is not theirs.
    log_budget: AtomicU64,
    /// Who trims, and who needs the space.
    pub(crate) trims: Arc<TrimGate>,
    /// Whether metaslabs remember what became free.
    pub(crate) remembers: AtomicBool,
}

/// Where to look for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    /// Vdevs of a class, less what is set aside.
    Class(ClassKind),
    /// Normal vdevs, the same, for metadata.
    Metadata,
    /// What normal vdevs set aside for log blocks.
    SetAside,
    /// Normal vdevs, with what is set aside.
    Everything,
}

const REGIONS: [Region; 7] = [
    Region::Class(ClassKind::Normal),
    Region::Class(ClassKind::Log),
    Region::Class(ClassKind::Special),
    Region::Class(ClassKind::Dedup),
    Region::Metadata,
    Region::SetAside,
    Region::Everything,
];

impl PoolSpace {
    /// The space of a pool; `logs`: changes go to a log each txg (feature log_spacemap), otherwise to every
    /// metaslab's own map; `two_words`: the feature spacemap_v2.
    #[must_use]
    pub fn new(
        vdevs: Vec<Option<VdevSpace>>,
        allocators: usize,
        logs: bool,
        two_words: bool,
    ) -> Self {
        let allocators = allocators.clamp(1, 64);
        let slots = REGIONS.len() * allocators * COPIES_MAX;
        let active = || Mutex::new(&ACTIVE, Active::default());
        Self {
            vdevs: RwLock::new(
                &VDEVS,
                vdevs.into_iter().map(|vdev| vdev.map(Arc::new)).collect(),
            ),
            active: (0..slots).map(|_| active()).collect(),
            allocators,
            finished: AtomicU64::new(0),
            logs,
            last_logs: sync::LastLogs::default(),
            two_words,
            log_budget: AtomicU64::new(u64::MAX),
            trims: TrimGate::new(),
            remembers: AtomicBool::new(false),
        }
    }

    /// Says how many bytes log blocks may take from now on of the space of normal vdevs that is not set aside for
    /// them: what is left to a pool that is nearly full is for its txgs.
    pub fn set_log_budget(&self, bytes: u64) {
        self.log_budget.store(bytes, Ordering::Relaxed);
    }

    /// Whether changes go to a log each txg.
    #[must_use]
    pub fn has_logs(&self) -> bool {
        self.logs
    }

    /// The space of every vdev.
    #[must_use]
    pub fn vdevs(&self) -> Vec<Arc<VdevSpace>> {
        self.vdevs.read().iter().flatten().cloned().collect()
    }

    /// The space of one vdev; none if it has none.
    #[must_use]
    pub fn vdev(&self, vdev: VdevId) -> Option<Arc<VdevSpace>> {
        let index = usize::try_from(vdev.0).ok()?;
        self.vdevs.read().get(index)?.clone()
    }

    /// Adds a vdev, or replaces it when it has grown.
    pub fn set_vdev(&self, space: VdevSpace) {
        let index = usize::try_from(space.geometry().vdev.0).unwrap_or(usize::MAX);
        space.set_remembers(self.remembers.load(Ordering::Relaxed));
        let mut vdevs = self.vdevs.write();
        if index >= vdevs.len() {
            vdevs.resize(index + 1, None);
        }
        vdevs[index] = Some(Arc::new(space));
    }

    /// Forgets a vdev that is removed: nothing uses its space any more.
    pub fn remove_vdev(&self, vdev: VdevId) {
        let index = usize::try_from(vdev.0).unwrap_or(usize::MAX);
        if let Some(slot) = self.vdevs.write().get_mut(index) {
            *slot = None;
        }
        let gone = |metaslab: &Arc<Metaslab>| metaslab.place().vdev == vdev;
        for active in &self.active {
            let mut active = active.lock();
            if active.metaslab.as_ref().is_some_and(gone) {
                active.change(None, 0);
            }
        }
    }

    /// The space that a range lies in.
    pub(crate) fn vdev_of(
        &self,
        vdev: VdevId,
        range: &Range<u64>,
    ) -> Result<Arc<VdevSpace>, SpaceError> {
        self.vdev(vdev).ok_or_else(|| SpaceError::Outside {
            vdev,
            range: range.clone(),
        })
    }

    /// Notes that an extent is no longer used; in syncing context. It may be used again three txgs later.
    ///
    /// # Errors
    /// It is free already, or lies outside: damage, or a bug.
    pub fn free(&self, extent: &Extent) -> Result<(), SpaceError> {
        let vdev = self.vdev_of(extent.vdev, &extent.range)?;
        let metaslab = vdev.metaslab(&extent.range)?;
        metaslab.free(extent.range.clone())
    }

    /// Notes that an extent is used by the checkpointed state alone from now on; in syncing context. It stays in use,
    /// and enters the vdev's map of what is kept.
    ///
    /// # Errors
    /// It is free already, or lies outside: damage, or a bug.
    pub fn keep(&self, extent: &Extent) -> Result<(), SpaceError> {
        let vdev = self.vdev_of(extent.vdev, &extent.range)?;
        let metaslab = vdev.metaslab(&extent.range)?;
        metaslab.keep(extent.range.clone())
    }

    /// Takes an extent that is in use although the maps call it free: an intent log's block at import.
    ///
    /// # Errors
    /// It is not free.
    pub fn claim(
        &self,
        extent: &Extent,
        txg: Txg,
        store: &dyn SpaceStore,
    ) -> Result<(), SpaceError> {
        let vdev = self.vdev_of(extent.vdev, &extent.range)?;
        vdev.metaslab(&extent.range)?
            .claim(extent.range.clone(), txg, store)
    }

    /// Bytes in use, over the vdevs of a class.
    #[must_use]
    pub fn allocated_bytes(&self, class: ClassKind) -> u64 {
        self.of_class(class)
            .iter()
            .map(|vdev| vdev.allocated_bytes())
            .sum()
    }

    /// Bytes there are, over the vdevs of a class.
    #[must_use]
    pub fn capacity_bytes(&self, class: ClassKind) -> u64 {
        self.of_class(class)
            .iter()
            .map(|vdev| vdev.capacity_bytes())
            .sum()
    }

    /// Bytes freed that may not be used again yet, over the vdevs of a class.
    #[must_use]
    pub fn deferred_bytes(&self, class: ClassKind) -> u64 {
        self.of_class(class)
            .iter()
            .map(|vdev| vdev.deferred_bytes())
            .sum()
    }

    fn of_class(&self, class: ClassKind) -> Vec<Arc<VdevSpace>> {
        let vdevs = self.vdevs.read();
        vdevs
            .iter()
            .flatten()
            .filter(|vdev| vdev.geometry().class == class)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests;
