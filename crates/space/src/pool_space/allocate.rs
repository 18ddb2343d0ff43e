//! Choosing where a block goes.

use super::{Active, COPIES_MAX, Extent, PoolSpace, REGIONS, Region, Request};
use crate::free_space::Manner;
use crate::metaslab::{Metaslab, rank_of};
use crate::vdev_space::{ClassKind, VdevSpace};
use crate::{SpaceError, SpaceStore, tunables};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// How strictly the copies of a block are kept apart.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Apart {
    /// On different vdevs if there are several, else in different metaslabs.
    Strict,
    /// Anywhere.
    Anywhere,
}

impl PoolSpace {
    /// Allocates every copy of a block, or nothing.
    ///
    /// # Errors
    /// [`SpaceError::NoSpace`] when there is no room, also not in the normal class; the caller may gang.
    pub fn allocate(
        &self,
        request: &Request,
        store: &dyn SpaceStore,
    ) -> Result<Vec<Extent>, SpaceError> {
        let quiet = self.trims.quiet();
        match self.try_allocate(request, store) {
            // What was missing may have been under a discard: it is waited for, and none begins meanwhile.
            Err(SpaceError::NoSpace { .. }) if !self.trims.was_quiet_since(quiet) => {
                let _held = self.trims.hold_off();
                self.try_allocate(request, store)
            }
            outcome => outcome,
        }
    }

    fn try_allocate(
        &self,
        request: &Request,
        store: &dyn SpaceStore,
    ) -> Result<Vec<Extent>, SpaceError> {
        const NORMAL: Region = Region::Class(ClassKind::Normal);
        const SPECIAL: Region = Region::Class(ClassKind::Special);
        let regions = match request.class {
            ClassKind::Normal => &[NORMAL, Region::Everything][..],
            ClassKind::Dedup => &[
                Region::Class(ClassKind::Dedup),
                SPECIAL,
                Region::Metadata,
                Region::Everything,
            ][..],
            ClassKind::Special => &[SPECIAL, Region::Metadata, Region::Everything][..],
            ClassKind::Log => &[Region::Class(ClassKind::Log), Region::SetAside, NORMAL][..],
        };
        for region in regions {
            let vdevs = self.vdevs_of(*region);
            if vdevs.is_empty() || !self.may_take(request, *region) {
                continue;
            }
            for apart in [Apart::Strict, Apart::Anywhere] {
                if let Some(extents) = self.all_copies(request, *region, &vdevs, apart, store)? {
                    return Ok(extents);
                }
            }
        }
        Err(SpaceError::NoSpace { size: request.size })
    }

    fn vdevs_of(&self, region: Region) -> Vec<Arc<VdevSpace>> {
        match region {
            Region::Class(class) => self.of_class(class),
            Region::Metadata => self.of_class(ClassKind::Normal),
            Region::SetAside | Region::Everything => {
                let mut vdevs = self.of_class(ClassKind::Normal);
                vdevs.retain(|vdev| vdev.log_bytes() > 0);
                vdevs
            }
        }
    }

    /// Whether the budget of log blocks allows one outside of their own space.
    fn may_take(&self, request: &Request, region: Region) -> bool {
        if request.class != ClassKind::Log || region != Region::Class(ClassKind::Normal) {
            return true;
        }
        let left = |budget: u64| budget.checked_sub(request.size);
        let order = Ordering::Relaxed;
        self.log_budget.fetch_update(order, order, left).is_ok()
    }

    fn all_copies(
        &self,
        request: &Request,
        region: Region,
        vdevs: &[Arc<VdevSpace>],
        apart: Apart,
        store: &dyn SpaceStore,
    ) -> Result<Option<Vec<Extent>>, SpaceError> {
        let mut taken: Vec<(Arc<Metaslab>, Extent)> = Vec::with_capacity(COPIES_MAX);
        for copy in 0..request.copies.clamp(1, COPIES_MAX) {
            let avoid = if apart == Apart::Strict {
                taken.as_slice()
            } else {
                &[]
            };
            match self.one_copy(request, (region, copy), vdevs, avoid, store)? {
                Some(found) => taken.push(found),
                None => {
                    for (metaslab, extent) in taken {
                        metaslab.unallocate(extent.range, request.txg)?;
                    }
                    return Ok(None);
                }
            }
        }
        Ok(Some(taken.into_iter().map(|(_, extent)| extent).collect()))
    }

    fn one_copy(
        &self,
        request: &Request,
        (region, copy): (Region, usize),
        vdevs: &[Arc<VdevSpace>],
        avoid: &[(Arc<Metaslab>, Extent)],
        store: &dyn SpaceStore,
    ) -> Result<Option<(Arc<Metaslab>, Extent)>, SpaceError> {
        let slot = self.slot(region, request.hint, copy);
        let mut active = self.active[slot].lock();
        let mut loads = tunables::LOADS_PER_ALLOCATION_COUNT.count();
        if let Some(metaslab) = active
            .metaslab
            .clone()
            .filter(|_| active.taken < tunables::ROTOR_BYTES.get())
            && may_use(&metaslab, vdevs, avoid)
            && let Some(extent) = take(&metaslab, vdevs, (request, region), store)?
        {
            active.taken += extent.range.end - extent.range.start;
            return Ok(Some((metaslab, extent)));
        }
        let current = active
            .metaslab
            .as_ref()
            .map(|metaslab| metaslab.place().vdev);
        for vdev in rotated(vdevs, current) {
            if !vdev.is_allocatable() || (vdevs.len() > 1 && is_used(vdev, avoid)) {
                continue;
            }
            let mut search = Search {
                space: self,
                vdev,
                region,
                avoid,
                request,
                size: allocated_size(vdev, request),
                loads: &mut loads,
                store,
            };
            if let Some((metaslab, extent)) = search.run(&active)? {
                let taken = extent.range.end - extent.range.start;
                active.change(Some(metaslab.clone()), taken);
                return Ok(Some((metaslab, extent)));
            }
        }
        Ok(None)
    }

    /// How many metaslabs of a vdev are for metadata first, at most: what allocators can work on at once.
    pub(super) fn metadata_count(&self) -> usize {
        self.allocators * COPIES_MAX
    }

    fn slot(&self, region: Region, hint: usize, copy: usize) -> usize {
        let mut known = REGIONS.iter();
        let region = known.position(|known| *known == region).unwrap_or(0);
        (region * self.allocators + hint % self.allocators) * COPIES_MAX + copy
    }
}

/// A search of one vdev for the space of one copy.
struct Search<'a> {
    space: &'a PoolSpace,
    vdev: &'a VdevSpace,
    region: Region,
    /// Where the block's other copies are.
    avoid: &'a [(Arc<Metaslab>, Extent)],
    request: &'a Request,
    /// Bytes that the copy takes here.
    size: u64,
    /// How many metaslabs may still be loaded for it.
    loads: &'a mut usize,
    store: &'a dyn SpaceStore,
}

type Found = Option<(Arc<Metaslab>, Extent)>;

impl Search<'_> {
    /// Takes from the most promising metaslab that has room: the current one, then those with a large free segment from
    /// the front of the vdev on, then the others by their longest segment; at the end those that other allocators
    /// work on. Metadata begin with the metaslabs that are for them, all others end with these.
    fn run(&mut self, active: &Active) -> Result<Found, SpaceError> {
        let geometry = self.vdev.geometry();
        let own = active.metaslab.as_ref();
        let is_metadata = self.region == Region::Metadata;
        let max = self.space.metadata_count();
        for metaslab in self.vdev.for_metadata(max).filter(|_| is_metadata) {
            let is_own = own.is_some_and(|own| Arc::ptr_eq(own, metaslab));
            if (is_own || !metaslab.is_in_use())
                && let Some(found) = self.attempt(metaslab)?
            {
                return Ok(Some(found));
            }
        }
        if let Some(own) = own.filter(|own| own.place().vdev == geometry.vdev)
            && let Some(found) = self.attempt(own)?
        {
            return Ok(Some(found));
        }
        let lists = self.vdev.lists();
        let last = rank_of(floor_power(self.size), 1 << geometry.metaslab_shift);
        let (mut busy, mut not_ours) = (Vec::new(), Vec::new());
        for doubtful in [false, true] {
            let mut at = None;
            while let Some(next) = if doubtful {
                lists.next_doubtful(at, last)
            } else {
                lists.next_by_rank(at, last)
            } {
                at = Some(next);
                let Some(metaslab) = self.vdev.metaslabs().get(next.1) else {
                    continue;
                };
                if !is_metadata && self.vdev.is_for_metadata(metaslab, max) {
                    not_ours.push(Arc::clone(metaslab));
                } else if metaslab.is_in_use() {
                    busy.push(Arc::clone(metaslab));
                } else if let Some(found) = self.attempt(metaslab)? {
                    return Ok(Some(found));
                }
            }
        }
        for metaslab in busy.into_iter().chain(not_ours) {
            if let Some(found) = self.attempt(&metaslab)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    fn attempt(&mut self, metaslab: &Arc<Metaslab>) -> Result<Found, SpaceError> {
        let set_aside = self.vdev.is_for_log(metaslab);
        let allowed = match self.region {
            Region::Class(_) | Region::Metadata => !set_aside,
            Region::SetAside => set_aside,
            Region::Everything => true,
        };
        let used = |(used, _): &(Arc<Metaslab>, Extent)| Arc::ptr_eq(used, metaslab);
        if !allowed || metaslab.bound() < self.size || self.avoid.iter().any(used) {
            return Ok(None);
        }
        if !metaslab.is_loaded() {
            // What cannot be cut into pieces must not fail for that.
            if *self.loads == 0 && self.size > self.vdev.geometry().layout.granule() {
                return Ok(None);
            }
            if metaslab.is_unreadable() {
                return Ok(None);
            }
            *self.loads = self.loads.saturating_sub(1);
            if !metaslab.load_unless_damaged(self.store)? {
                return Ok(None);
            }
            self.space.shed(Some(metaslab));
        }
        let wanted = (self.size, manner(self.region));
        let range = metaslab.allocate(wanted, self.request.txg, self.store)?;
        let vdev = self.vdev.geometry().vdev;
        Ok(range.map(|range| (Arc::clone(metaslab), Extent { vdev, range })))
    }
}

/// The greatest power of two that is no greater.
fn floor_power(size: u64) -> u64 {
    size.checked_ilog2().map_or(0, |log| 1 << log)
}

/// What a block takes up.
fn allocated_size(vdev: &VdevSpace, request: &Request) -> u64 {
    vdev.geometry().layout.asize(request.size, request.txg)
}

fn is_used(vdev: &VdevSpace, avoid: &[(Arc<Metaslab>, Extent)]) -> bool {
    avoid
        .iter()
        .any(|(_, extent)| extent.vdev == vdev.geometry().vdev)
}

fn may_use(
    metaslab: &Arc<Metaslab>,
    vdevs: &[Arc<VdevSpace>],
    avoid: &[(Arc<Metaslab>, Extent)],
) -> bool {
    let other_vdev = |extent: &Extent| extent.vdev != metaslab.place().vdev;
    let several = vdevs.len() > 1;
    avoid
        .iter()
        .all(|(used, extent)| !Arc::ptr_eq(used, metaslab) && (!several || other_vdev(extent)))
        && vdevs
            .iter()
            .any(|vdev| vdev.geometry().vdev == metaslab.place().vdev && vdev.is_allocatable())
}

/// How a metaslab's free segments are chosen from.
fn manner(region: Region) -> Manner {
    match region {
        Region::Metadata => Manner::Packed,
        Region::Class(_) | Region::SetAside | Region::Everything => Manner::Onwards,
    }
}

fn take(
    metaslab: &Arc<Metaslab>,
    vdevs: &[Arc<VdevSpace>],
    (request, region): (&Request, Region),
    store: &dyn SpaceStore,
) -> Result<Option<Extent>, SpaceError> {
    let place = metaslab.place();
    let Some(vdev) = vdevs.iter().find(|vdev| vdev.geometry().vdev == place.vdev) else {
        return Ok(None);
    };
    let wanted = (allocated_size(vdev, request), manner(region));
    let range = metaslab.allocate(wanted, request.txg, store)?;
    Ok(range.map(|range| Extent {
        vdev: place.vdev,
        range,
    }))
}

/// The vdevs in order, beginning after the current one.
fn rotated(
    vdevs: &[Arc<VdevSpace>],
    current: Option<base::VdevId>,
) -> impl Iterator<Item = &Arc<VdevSpace>> {
    let at = vdevs
        .iter()
        .position(|vdev| Some(vdev.geometry().vdev) == current);
    let start = at.map_or(0, |at| at + 1);
    vdevs.iter().cycle().skip(start).take(vdevs.len())
}
