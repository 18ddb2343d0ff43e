//! The space of one top-level vdev: its metaslabs.

use crate::lists::Lists;
use crate::metaslab::{Metaslab, Place};
use crate::tunables;
use crate::{RangeSet, SpaceError, SpaceStore};
use base::invariant::Findings;
use base::{ObjectId, Txg, VdevId};
use layout::Layout;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A vdev for data with more metaslabs sets one aside for log blocks.
///
/// Source: the notes on the intent log.
const METASLABS_FOR_LOG: usize = 64;

/// What a vdev's space is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClassKind {
    /// Data and metadata.
    Normal,
    /// The intent log.
    Log,
    /// Metadata and small blocks.
    Special,
    /// Deduplication tables.
    Dedup,
}

/// How a top-level vdev is cut into metaslabs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VdevGeometry {
    /// Index in the pool.
    pub vdev: VdevId,
    /// What it is for.
    pub class: ClassKind,
    /// What a block takes up on it.
    pub layout: Layout,
    /// log2 of a metaslab's size, bytes.
    pub metaslab_shift: u32,
    /// Allocatable bytes of the vdev.
    pub size: u64,
}

/// What is known of a metaslab at import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetaslabInfo {
    /// Its space map; 0 if it was never used.
    pub object: ObjectId,
    /// The allocated bytes that the map's header says.
    pub allocated: i64,
    /// The txg from which on its changes are in the logs; 0 without logs.
    pub unflushed: Txg,
    /// A length that the longest free segment has at least, bytes, as the histogram of the map's header says; none
    /// where there is no histogram.
    pub longest: Option<u64>,
}

/// The space of one top-level vdev.
#[derive(Debug)]
pub struct VdevSpace {
    geometry: VdevGeometry,
    /// What can be allocated when nothing is: whole units of all metaslabs.
    capacity_bytes: u64,
    metaslabs: Vec<Arc<Metaslab>>,
    /// Which of them are in which state.
    lists: Arc<Lists>,
    /// The metaslab that is set aside for log blocks: the emptiest when the vdev was opened. Nothing on disk says so.
    for_log: Option<usize>,
    /// So many of the others, from the front, are for metadata first.
    for_metadata: usize,
    /// Whether new blocks may go here.
    allocatable: AtomicBool,
}

impl VdevGeometry {
    /// How many whole metaslabs there are.
    #[must_use]
    pub fn metaslab_count(&self) -> usize {
        usize::try_from(self.size.checked_shr(self.metaslab_shift).unwrap_or(0)).unwrap_or(0)
    }

    /// Where a metaslab lies.
    fn place(&self, index: usize) -> Place {
        Place {
            vdev: self.vdev,
            index,
            range: self.layout.metaslab(index as u64, self.metaslab_shift),
            shift: self.layout.ashift(),
            unit: self.layout.unit(),
        }
    }

    /// How many of so many metaslabs are for metadata first.
    fn metaslabs_for_metadata(&self, count: usize) -> usize {
        match self.class {
            ClassKind::Normal => count / tunables::METADATA_SHARE.count(),
            ClassKind::Log | ClassKind::Special | ClassKind::Dedup => 0,
        }
    }

    /// The metaslab shift of a new vdev of that size: some 200 metaslabs, none below 16 MB or above 16 GB.
    ///
    /// Source: the behaviour notes on allocation.
    #[must_use]
    pub fn metaslab_shift_for(size: u64) -> u32 {
        const COUNT_MAX: u64 = 131_072;
        const SHIFT_DEFAULT: u32 = 29;
        let min = tunables::METASLABS_MIN_COUNT.get();
        let usual = tunables::METASLABS_USUAL_COUNT.get();
        let highbit = |value: u64| value.checked_ilog2().map_or(0, |log| log + 1);
        let count = size >> SHIFT_DEFAULT;
        let shift = if count < min {
            highbit(size / min)
        } else if count > usual {
            highbit(size / usual)
        } else {
            SHIFT_DEFAULT
        };
        match shift {
            ..24 => 24,
            24..=34 => shift,
            _ if size >> 34 > COUNT_MAX => highbit(size / COUNT_MAX),
            _ => 34,
        }
    }
}

impl VdevSpace {
    /// The space of a vdev whose metaslabs are `known`, in order; those beyond its end were never used. What is
    /// broken in it is noted in the pool's `findings`.
    #[must_use]
    pub fn new(geometry: VdevGeometry, known: &[MetaslabInfo], findings: &Arc<Findings>) -> Self {
        let lists = Arc::new(Lists::new(findings));
        let metaslabs = (0..geometry.metaslab_count()).map(|index| {
            let info = known.get(index).copied().unwrap_or_default();
            Arc::new(Metaslab::new(geometry.place(index), &info, &lists))
        });
        let metaslabs: Vec<Arc<Metaslab>> = metaslabs.collect();
        let sets_aside = geometry.class == ClassKind::Normal && metaslabs.len() > METASLABS_FOR_LOG;
        let emptiest = metaslabs.iter().min_by_key(|metaslab| metaslab.allocated());
        let for_log = emptiest.filter(|_| sets_aside);
        Self {
            for_metadata: geometry.metaslabs_for_metadata(metaslabs.len()),
            geometry,
            capacity_bytes: metaslabs.iter().map(|one| one.place().bytes()).sum(),
            for_log: for_log.map(|metaslab| metaslab.place().index),
            metaslabs,
            lists,
            allocatable: AtomicBool::new(true),
        }
    }

    /// The same vdev, that has become larger or wider: its metaslabs, and new ones behind them.
    #[must_use]
    pub fn grown(&self, geometry: VdevGeometry) -> Self {
        let mut metaslabs = self.metaslabs.clone();
        let new = (metaslabs.len()..geometry.metaslab_count()).map(|index| {
            let info = MetaslabInfo::default();
            Arc::new(Metaslab::new(geometry.place(index), &info, &self.lists))
        });
        metaslabs.extend(new);
        Self {
            for_metadata: geometry.metaslabs_for_metadata(metaslabs.len()),
            geometry,
            capacity_bytes: metaslabs.iter().map(|one| one.place().bytes()).sum(),
            for_log: self.for_log,
            metaslabs,
            lists: Arc::clone(&self.lists),
            allocatable: AtomicBool::new(self.is_allocatable()),
        }
    }

    /// The vdev's geometry.
    #[must_use]
    pub fn geometry(&self) -> &VdevGeometry {
        &self.geometry
    }

    /// Whether new blocks may go here: not while the vdev is faulted or being removed.
    pub fn set_allocatable(&self, allocatable: bool) {
        self.allocatable.store(allocatable, Ordering::Relaxed);
    }

    /// Whether new blocks may go here.
    #[must_use]
    pub fn is_allocatable(&self) -> bool {
        self.allocatable.load(Ordering::Relaxed)
    }

    /// The objects of the space maps that there are.
    #[must_use]
    pub fn map_objects(&self) -> Vec<ObjectId> {
        let objects = self.metaslabs.iter().map(|metaslab| metaslab.object());
        objects.filter(|object| *object != ObjectId(0)).collect()
    }

    /// Bytes that are set aside for log blocks.
    #[must_use]
    pub fn log_bytes(&self) -> u64 {
        let for_log = self.for_log.and_then(|index| self.metaslabs.get(index));
        for_log.map_or(0, |metaslab| metaslab.place().bytes())
    }

    /// Whether a metaslab is set aside for log blocks.
    pub(crate) fn is_for_log(&self, metaslab: &Metaslab) -> bool {
        self.for_log == Some(metaslab.place().index)
    }

    /// The metaslabs that data leave to metadata while they find room elsewhere: at most so many.
    pub(crate) fn for_metadata(&self, max: usize) -> impl Iterator<Item = &Arc<Metaslab>> {
        let others = self.metaslabs.iter().filter(|one| !self.is_for_log(one));
        others.take(self.for_metadata.min(max))
    }

    /// Whether a metaslab is one of these.
    pub(crate) fn is_for_metadata(&self, metaslab: &Metaslab, max: usize) -> bool {
        let index = metaslab.place().index;
        let others = index - usize::from(self.for_log.is_some_and(|log| log < index));
        others < self.for_metadata.min(max) && !self.is_for_log(metaslab)
    }

    pub(crate) fn metaslabs(&self) -> &[Arc<Metaslab>] {
        &self.metaslabs
    }

    pub(crate) fn lists(&self) -> &Lists {
        &self.lists
    }

    /// The metaslabs with those indices.
    pub(crate) fn of<'a>(
        &'a self,
        indices: impl IntoIterator<Item = usize> + 'a,
    ) -> impl Iterator<Item = &'a Arc<Metaslab>> + 'a {
        let found = indices.into_iter();
        found.filter_map(|index| self.metaslabs.get(index))
    }

    /// Whether metaslabs note from now on what becomes free.
    pub(crate) fn set_remembers(&self, remembers: bool) {
        self.lists.remembers.store(remembers, Ordering::Relaxed);
        if !remembers {
            self.take_recent();
        }
    }

    /// What became free since this was last asked, where that is noted.
    pub(crate) fn take_recent(&self) -> RangeSet {
        let mut all = RangeSet::new();
        let recent = std::mem::take(&mut self.lists.lock().recent);
        for metaslab in self.of(recent) {
            all.extend(metaslab.take_recent().iter());
        }
        all
    }

    /// Bytes in use.
    #[must_use]
    pub fn allocated_bytes(&self) -> u64 {
        self.lists.allocated.get()
    }

    /// Bytes in use for a checkpoint alone.
    #[must_use]
    pub fn kept_bytes(&self) -> u64 {
        self.lists.kept.get()
    }

    /// What is in use for a checkpoint alone has changed, by so many bytes: at import, and when the checkpoint goes.
    pub fn add_kept(&self, change: i64) {
        self.lists.kept.add(change);
    }

    /// Bytes of all metaslabs.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes freed that may not be used again yet.
    #[must_use]
    pub fn deferred_bytes(&self) -> u64 {
        self.lists.resting_bytes.get()
    }

    /// Free bytes of metaslabs whose maps cannot be read: nobody knows where they are.
    #[must_use]
    pub fn unreadable_bytes(&self) -> u64 {
        let unreadable = self.lists.lock().unreadable.clone();
        let of = self.of(unreadable.into_iter().map(|(_, index)| index));
        of.map(|metaslab| metaslab.free_bytes()).sum()
    }

    /// The metaslab that holds a range of the vdev.
    pub(crate) fn metaslab(&self, range: &Range<u64>) -> Result<&Arc<Metaslab>, SpaceError> {
        let index =
            usize::try_from(range.start >> self.geometry.metaslab_shift).unwrap_or(usize::MAX);
        self.metaslabs
            .get(index)
            .filter(|metaslab| range.end <= metaslab.place().range.end)
            .ok_or_else(|| SpaceError::Outside {
                vdev: self.geometry.vdev,
                range: range.clone(),
            })
    }

    /// What of a metaslab is in use, in syncing context before anything is allocated: as of the txg before, less what
    /// this one has freed. None if there is no such metaslab.
    ///
    /// # Errors
    /// A map cannot be read or contradicts itself.
    pub fn in_use(
        &self,
        metaslab: usize,
        store: &dyn SpaceStore,
    ) -> Result<Option<RangeSet>, SpaceError> {
        let metaslab = self.metaslabs.get(metaslab);
        metaslab.map(|metaslab| metaslab.in_use(store)).transpose()
    }

    /// Whether the map of a metaslab cannot be read in any copy: nobody can say what is in use of it.
    ///
    /// # Errors
    /// It cannot be read for another reason.
    pub fn is_unreadable(
        &self,
        metaslab: usize,
        store: &dyn SpaceStore,
    ) -> Result<bool, SpaceError> {
        let metaslab = self.metaslabs.get(metaslab);
        metaslab.map_or(Ok(false), |metaslab| {
            metaslab.load_unless_damaged(store).map(|known| !known)
        })
    }

    /// Everything that the maps call free, for a check of the whole pool.
    ///
    /// # Errors
    /// A map cannot be read or contradicts itself.
    pub fn free_ranges(&self, store: &dyn SpaceStore) -> Result<RangeSet, SpaceError> {
        let mut free = RangeSet::new();
        for metaslab in &self.metaslabs {
            free.extend(metaslab.free_ranges(store)?.iter().collect::<Vec<_>>());
        }
        Ok(free)
    }
}
