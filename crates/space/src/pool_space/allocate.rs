//! Choosing where a block goes.

use super::{Active, CLASSES, COPIES_MAX, Extent, PoolSpace, ROTOR_BYTES, Request};
use crate::metaslab::Metaslab;
use crate::vdev_space::{ClassKind, VdevSpace};
use crate::{SpaceError, SpaceStore};
use std::sync::Arc;

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
        let classes = match request.class {
            ClassKind::Normal => &[ClassKind::Normal][..],
            ClassKind::Dedup => &[ClassKind::Dedup, ClassKind::Special, ClassKind::Normal][..],
            ClassKind::Special => &[ClassKind::Special, ClassKind::Normal][..],
            ClassKind::Log => &[ClassKind::Log, ClassKind::Normal][..],
        };
        for class in classes {
            let vdevs = self.of_class(*class);
            if vdevs.is_empty() {
                continue;
            }
            for apart in [Apart::Strict, Apart::Anywhere] {
                if let Some(extents) = self.all_copies(request, *class, &vdevs, apart, store)? {
                    return Ok(extents);
                }
            }
        }
        Err(SpaceError::NoSpace { size: request.size })
    }

    fn all_copies(
        &self,
        request: &Request,
        class: ClassKind,
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
            match self.one_copy(request, (class, copy), vdevs, avoid, store)? {
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
        (class, copy): (ClassKind, usize),
        vdevs: &[Arc<VdevSpace>],
        avoid: &[(Arc<Metaslab>, Extent)],
        store: &dyn SpaceStore,
    ) -> Result<Option<(Arc<Metaslab>, Extent)>, SpaceError> {
        let slot = self.slot(class, request.hint, copy);
        let mut active = self.active[slot].lock();
        if let Some(metaslab) = active
            .metaslab
            .clone()
            .filter(|_| active.taken < ROTOR_BYTES)
            && may_use(&metaslab, vdevs, avoid)
            && let Some(extent) = take(&metaslab, vdevs, request, store)?
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
            if let Some((metaslab, extent)) =
                self.take_from_vdev(vdev, &active, avoid, request, store)?
            {
                let taken = extent.range.end - extent.range.start;
                *active = Active {
                    metaslab: Some(metaslab.clone()),
                    taken,
                };
                return Ok(Some((metaslab, extent)));
            }
        }
        Ok(None)
    }

    fn slot(&self, class: ClassKind, hint: usize, copy: usize) -> usize {
        let class = CLASSES
            .iter()
            .position(|known| *known == class)
            .unwrap_or(0);
        (class * self.allocators + hint % self.allocators) * COPIES_MAX + copy
    }

    /// Takes from the vdev's most promising metaslabs, in turn.
    fn take_from_vdev(
        &self,
        vdev: &VdevSpace,
        active: &Active,
        avoid: &[(Arc<Metaslab>, Extent)],
        request: &Request,
        store: &dyn SpaceStore,
    ) -> Result<Option<(Arc<Metaslab>, Extent)>, SpaceError> {
        let size = allocated_size(vdev, request.size);
        for metaslab in self.candidates(vdev, active, size) {
            if avoid.iter().any(|(used, _)| Arc::ptr_eq(used, &metaslab)) {
                continue;
            }
            if let Some(range) = metaslab.allocate(size, request.txg, store)? {
                let extent = Extent {
                    vdev: vdev.geometry().vdev,
                    range,
                };
                return Ok(Some((metaslab, extent)));
            }
        }
        Ok(None)
    }

    /// Metaslabs that may have room: the current one, then those with a large free segment from the front of the
    /// vdev on, then the others by their largest segment; at the end those that other allocators work on.
    fn candidates(&self, vdev: &VdevSpace, active: &Active, size: u64) -> Vec<Arc<Metaslab>> {
        let roomy = 1_u64 << vdev.geometry().metaslab_shift.saturating_sub(2);
        let busy: Vec<Arc<Metaslab>> = self
            .active
            .iter()
            .filter_map(|slot| slot.try_lock().and_then(|other| other.metaslab.clone()))
            .collect();
        let mut found: Vec<(u32, u64, Arc<Metaslab>)> = Vec::new();
        for metaslab in vdev
            .metaslabs()
            .iter()
            .filter(|metaslab| metaslab.largest() >= size)
        {
            let is_current = active
                .metaslab
                .as_ref()
                .is_some_and(|own| Arc::ptr_eq(own, metaslab));
            let is_busy = busy.iter().any(|other| Arc::ptr_eq(other, metaslab));
            let order = match (is_current, is_busy, metaslab.largest() >= roomy) {
                (true, ..) => (0, 0),
                (_, false, true) => (1, metaslab.place().index as u64),
                (_, false, false) => (2, u64::MAX - metaslab.largest()),
                (_, true, _) => (3, u64::MAX - metaslab.largest()),
            };
            found.push((order.0, order.1, metaslab.clone()));
        }
        found.sort_by_key(|(class, order, _)| (*class, *order));
        found.into_iter().map(|(_, _, metaslab)| metaslab).collect()
    }
}

/// What a block of `size` bytes takes of a single disk, file or mirror.
fn allocated_size(vdev: &VdevSpace, size: u64) -> u64 {
    size.next_multiple_of(1 << vdev.geometry().ashift)
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

fn take(
    metaslab: &Arc<Metaslab>,
    vdevs: &[Arc<VdevSpace>],
    request: &Request,
    store: &dyn SpaceStore,
) -> Result<Option<Extent>, SpaceError> {
    let place = metaslab.place();
    let Some(vdev) = vdevs.iter().find(|vdev| vdev.geometry().vdev == place.vdev) else {
        return Ok(None);
    };
    let range = metaslab.allocate(allocated_size(vdev, request.size), request.txg, store)?;
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
