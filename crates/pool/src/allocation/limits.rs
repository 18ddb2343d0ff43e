//! How much space datasets may use: the pool's space less what is kept back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::metrics::registry;
use dsl::SpaceClass;
use space::{ClassKind, PoolSpace, VdevSpace};

/// The pool keeps back this part of its space (as a shift), …
const SLOP_SHIFT: u32 = 5;
/// … at most so much, …
const SLOP_MAX: u64 = 128 << 30;
/// … at least so much, or half of the pool.
const SLOP_MIN: u64 = 128 << 20;

/// The pool's space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceFigures {
    /// Bytes of all metaslabs (`size` of `zpool list`).
    pub size: u64,
    /// Bytes in use.
    pub allocated: u64,
    /// Bytes that datasets could be charged with if nothing were kept back.
    pub data_space: u64,
    /// Bytes kept back.
    pub slop: u64,
    /// Freed bytes that may not be used again yet.
    pub deferred: u64,
    /// Bytes that a checkpoint keeps, as datasets are charged.
    pub checkpoint: u64,
    /// Free bytes that cannot be used, as the maps that know where they are cannot be read; as datasets are charged.
    pub unreadable: u64,
    /// How often deduplicated bytes are referenced, in percent: 100 without dedup.
    pub dedup_percent: u64,
}

impl SpaceFigures {
    /// Free bytes.
    #[must_use]
    pub const fn free(&self) -> u64 {
        self.size.saturating_sub(self.allocated)
    }
}

/// Computes the limits from the space maps.
#[derive(Default)]
pub(crate) struct Limits {
    /// None where the maps cannot be read.
    space: Option<Arc<PoolSpace>>,
    /// Bytes on the list of deferred frees.
    listed: AtomicU64,
    /// Bytes that dedup saves.
    saved: AtomicU64,
    /// Bytes that shared blocks save.
    shared: AtomicU64,
    /// How often deduplicated bytes are referenced, in percent; 0 = unknown.
    dedup_percent: AtomicU64,
    read_only: AtomicBool,
}

impl Limits {
    /// The limits over the space maps, if they are open.
    pub(crate) fn new(space: Option<&Arc<PoolSpace>>) -> Self {
        if let Some(space) = space {
            registry().add_source("space", space);
        }
        Self {
            space: space.cloned(),
            ..Self::default()
        }
    }

    /// Says how many bytes are on the list of deferred frees.
    pub(crate) fn set_listed(&self, bytes: u64) {
        self.listed.store(bytes, Ordering::Relaxed);
    }

    /// Says that nothing is allocated: OpenZFS then leaves the use of special vdevs out of account, and what rests is
    /// kept from nobody.
    pub(crate) fn set_read_only(&self) {
        self.read_only.store(true, Ordering::Relaxed);
    }

    /// Says how often deduplicated bytes are referenced, in percent.
    pub(crate) fn set_dedup_percent(&self, percent: u64) {
        self.dedup_percent.store(percent, Ordering::Relaxed);
    }

    /// Says how many bytes shared blocks save.
    pub(crate) fn set_shared(&self, bytes: u64) {
        self.shared.store(bytes, Ordering::Relaxed);
    }

    /// Says how many bytes dedup saves.
    pub(crate) fn set_saved(&self, bytes: u64) {
        self.saved.store(bytes, Ordering::Relaxed);
    }

    /// The pool's space as of now; nothing where the maps are not open.
    pub(crate) fn figures(&self) -> SpaceFigures {
        let Some(space) = &self.space else {
            return SpaceFigures::default();
        };
        let vdevs = space.vdevs();
        let of = |class: ClassKind| {
            vdevs
                .iter()
                .filter(move |vdev| vdev.geometry().class == class)
        };
        let capacity = |vdev: &Arc<VdevSpace>| vdev.capacity_bytes();
        let deflated = |vdev: &VdevSpace, bytes: u64| vdev.geometry().layout.deflated(bytes);
        // What is being removed has to fit on the others.
        let normal = of(ClassKind::Normal).filter(|vdev| vdev.is_allocatable());
        let data: u64 = normal.map(|vdev| deflated(vdev, capacity(vdev))).sum();
        let read_only = self.read_only.load(Ordering::Relaxed);
        let extra = if read_only {
            0
        } else {
            let extra = of(ClassKind::Special).chain(of(ClassKind::Dedup));
            let used = |vdev: &Arc<VdevSpace>| deflated(vdev, vdev.allocated_bytes());
            extra.map(used).sum()
        };
        let normal = of(ClassKind::Normal);
        let log: u64 = normal.map(|vdev| deflated(vdev, vdev.log_bytes())).sum();
        let shown = |class: ClassKind| class != ClassKind::Log;
        let counted = vdevs.iter().filter(|vdev| shown(vdev.geometry().class));
        SpaceFigures {
            size: counted.clone().map(capacity).sum(),
            allocated: counted.map(|vdev| vdev.allocated_bytes()).sum(),
            data_space: data
                .saturating_add(extra)
                .saturating_add(self.saved.load(Ordering::Relaxed))
                .saturating_add(self.shared.load(Ordering::Relaxed)),
            dedup_percent: match self.dedup_percent.load(Ordering::Relaxed) {
                0 => 100,
                percent => percent,
            },
            checkpoint: vdevs
                .iter()
                .map(|vdev| deflated(vdev, vdev.kept_bytes()))
                .sum(),
            unreadable: of(ClassKind::Normal)
                .map(|vdev| deflated(vdev, vdev.unreadable_bytes()))
                .sum(),
            slop: slop(data, log),
            deferred: self.listed.load(Ordering::Relaxed)
                + if read_only {
                    0
                } else {
                    space.deferred_bytes(ClassKind::Normal)
                },
        }
    }

    /// How much more than its stored bytes a block is charged with, at most, on any device.
    pub(crate) fn charge_overhead(&self) -> u64 {
        let vdevs = self.space.as_ref().map(|space| space.vdevs());
        let overheads = vdevs
            .iter()
            .flatten()
            .map(|vdev| vdev.geometry().layout.charge_overhead());
        overheads.max().unwrap_or(0)
    }

    /// Bytes of normal vdevs that log blocks may take until the next txg. They may take what datasets may not, but
    /// for the part of what is kept back that frees of a full pool need, and what may be `promised` to transactions.
    pub(crate) fn log_budget(&self, promised: u64) -> u64 {
        let Some(space) = &self.space else {
            return 0;
        };
        let vdevs = space.vdevs();
        let normal = vdevs
            .iter()
            .filter(|vdev| vdev.geometry().class == ClassKind::Normal);
        // As datasets are charged, which is never more than what is taken up.
        let (mut data, mut log, mut used) = (0, 0, 0);
        for vdev in normal {
            let deflated = |bytes| vdev.geometry().layout.deflated(bytes);
            data += deflated(vdev.capacity_bytes());
            log += deflated(vdev.log_bytes());
            let taken = vdev.allocated_bytes() + vdev.deferred_bytes();
            used += deflated(taken + vdev.unreadable_bytes());
        }
        let kept = slop(data, log) / 4;
        data.saturating_sub(used)
            .saturating_sub(log + kept)
            .saturating_sub(promised)
    }

    /// Bytes that datasets may use in all.
    pub(crate) fn usable_bytes(&self, class: SpaceClass) -> u64 {
        let figures = self.figures();
        let kept = match class {
            SpaceClass::Normal => figures.slop,
            SpaceClass::Reserved => figures.slop / 2,
            SpaceClass::ExtraReserved => figures.slop / 4,
            SpaceClass::Unlimited => 0,
        };
        figures
            .data_space
            .saturating_sub(figures.checkpoint)
            .saturating_sub(figures.unreadable)
            .saturating_sub(figures.deferred)
            .saturating_sub(kept)
    }
}

/// What is kept back of so much normal space.
fn slop(data: u64, log: u64) -> u64 {
    let slop = (data >> SLOP_SHIFT).min(SLOP_MAX);
    let slop = slop - log.min(slop / 2);
    slop.max((data / 2).min(SLOP_MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slop_is_a_thirty_second_within_its_bounds() {
        assert_eq!(slop(83_886_080, 0), 41_943_040);
        assert_eq!(slop(1 << 40, 0), 1 << 35);
        assert_eq!(slop(1 << 50, 0), SLOP_MAX);
        assert_eq!(slop(1 << 40, 1 << 33), (1 << 35) - (1 << 33));
        assert_eq!(slop(1 << 30, 0), SLOP_MIN);
    }
}
