//! When rebuilds begin, and who asks how they stand.

use std::sync::Arc;

use base::{Guid, VdevId, thread};
use format::config::keys;
use format::features;
use format::rebuild::{Rebuild, RebuildState};
use txg::TXGS_UNDER_WAY;
use vdev::{Leaf, Top};

use super::fill::Fill;
use super::work;
use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::scan::scrub::WAIT_PAUSE;
use crate::vdevs::disks::AttachOptions;

/// Why devices of a vdev are not rebuilt sequentially.
const NOT_FOR_THESE: &str = "only mirror and dRAID vdevs support sequential reconstruction";
/// The same, where the pool lacks the feature.
const NOT_ENABLED: &str =
    "device_rebuild feature must be enabled in order to use sequential reconstruction";
/// Why a rebuild does not begin beside a resilver.
const RESILVERING: &str = "currently resilvering";
/// Why a resilver does not begin beside a rebuild.
const REBUILDING: &str = "currently sequentially resilvering";

/// Refuses what could only be done sequentially where it cannot.
pub(crate) fn check_expansion(fill: Fill) -> Result<()> {
    match fill {
        Fill::Healing => Ok(()),
        Fill::Sequential => Err(PoolError::refused(NOT_FOR_THESE)),
    }
}

impl Pool {
    /// Whether a device may be added to a vdev that is to be filled so, beside what is under way.
    pub(crate) fn check_fill(&self, top: &Top, options: &AttachOptions) -> Result<()> {
        let writer = self.writer()?;
        match options.fill {
            Fill::Healing if writer.rebuilds.is_any() => Err(PoolError::refused(REBUILDING)),
            Fill::Healing => Ok(()),
            Fill::Sequential if !top.can_be_copied() => Err(PoolError::refused(NOT_FOR_THESE)),
            Fill::Sequential if !self.features().is_enabled(&features::DEVICE_REBUILD) => {
                // As OpenZFS says it.
                let reason = match options.replace {
                    true => NOT_FOR_THESE,
                    false => NOT_ENABLED,
                };
                Err(PoolError::refused(reason))
            }
            Fill::Sequential if writer.scrub.is_resilver() => Err(PoolError::refused(RESILVERING)),
            Fill::Sequential => Ok(()),
        }
    }

    /// Whether vdevs are being rebuilt.
    #[must_use]
    pub fn is_rebuilding(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.rebuilds.is_any())
    }

    /// Waits until no vdev is being rebuilt.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn wait_rebuilds(&self) -> Result<()> {
        while self.is_rebuilding() {
            self.check_running()?;
            thread::sleep(WAIT_PAUSE);
        }
        self.sync()
    }

    /// The leaves of a vdev that are there and to be rebuilt.
    fn to_rebuild(&self, top: &Top) -> Vec<Arc<Leaf>> {
        let leaves = top.leaves().iter().filter(|_| top.can_be_copied());
        let behind = leaves.filter(|leaf| leaf.is_writable() && !leaf.is_whole());
        let is_marked = |root: &VdevConfig, leaf: &Leaf| {
            let node = root.find(leaf.guid());
            node.is_some_and(|node| node.flag(keys::REBUILD_TXG))
        };
        let config = &self.services.config;
        config.with(|config| {
            let marked = behind.filter(|leaf| is_marked(&config.root, leaf));
            marked.cloned().collect()
        })
    }

    /// Starts rebuilds of vdevs that have devices for it, or goes on with them; one that has got others begins anew.
    /// Whether any is under way.
    pub(crate) fn rebuild_if_needed(self: &Arc<Self>) -> Result<bool> {
        let writer = self.writer()?;
        let _starting = writer.rebuilds.starting();
        let mut is_any = false;
        for top in self.vdevs.tops() {
            // The vdev is not held: nothing is copied as long as somebody may write through one whose place another
            // took.
            let (id, targets) = (top.id(), self.to_rebuild(&top));
            let is_whole = self.is_whole_but(&top, &targets);
            drop(top);
            is_any |= self.rebuild_vdev(id, &targets, is_whole)?;
        }
        Ok(is_any)
    }

    /// Whether the other leaves of a vdev lack nothing.
    fn is_whole_but(&self, top: &Top, targets: &[Arc<Leaf>]) -> bool {
        let is_target = |leaf: &Arc<Leaf>| targets.iter().any(|other| Arc::ptr_eq(other, leaf));
        let leaves = top.leaves().iter();
        leaves
            .filter(|leaf| !is_target(leaf))
            .all(|leaf| leaf.is_whole())
    }

    fn rebuild_vdev(
        self: &Arc<Self>,
        vdev: VdevId,
        targets: &[Arc<Leaf>],
        others_are_whole: bool,
    ) -> Result<bool> {
        let rebuilds = &self.writer()?.rebuilds;
        let running = rebuilds.targets(vdev);
        let stored = self.services.stored_rebuild(vdev)?;
        if targets.is_empty() {
            if let (None, Some(stored)) = (&running, stored.filter(Rebuild::is_active)) {
                self.end_stored(vdev, stored)?;
            }
            return Ok(running.is_some());
        }
        let mut guids: Vec<Guid> = targets.iter().map(|leaf| leaf.guid()).collect();
        guids.sort_unstable();
        if running.as_ref() == Some(&guids) {
            return Ok(true);
        }
        rebuilds.leave(vdev);
        let bounds = targets.iter().filter_map(|leaf| leaf.missing().bounds());
        let bounds = bounds.map(|(first, last)| (first.0, last.0));
        let bounds = bounds.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
        let (first, last) = bounds.unwrap_or_default();
        // One that was away missed a txg that is younger than all of these
        // ([`crate::vdevs::dtl::MissedTxgs::note_away`]).
        let goes_on = |stored: &Rebuild| {
            let holds = last < stored.txg_max && others_are_whole;
            stored.is_active() && stored.errors == 0 && running.is_none() && holds
        };
        let rebuild = stored.filter(goes_on).unwrap_or_else(|| Rebuild {
            state: RebuildState::Active,
            txg_min: first.saturating_sub(1),
            txg_max: last.saturating_add(1),
            started_s: self.clock().now_s(),
            estimated: self.allocated_on(vdev),
            ..Rebuild::default()
        });
        targets.iter().for_each(|leaf| leaf.begin_rebuild());
        self.run_rebuild(vdev, rebuild, guids)
    }

    /// One that is stored as under way has no device any more that it is for.
    fn end_stored(&self, vdev: VdevId, stored: Rebuild) -> Result<()> {
        let writer = self.writer()?;
        let ended = Rebuild {
            state: RebuildState::Cancelled,
            ended_s: self.clock().now_s(),
            ..stored
        };
        writer.rebuilds.end_next(vdev, ended);
        Ok(writer.engine.wait_synced(None)?)
    }

    fn run_rebuild(
        self: &Arc<Self>,
        vdev: VdevId,
        rebuild: Rebuild,
        targets: Vec<Guid>,
    ) -> Result<bool> {
        let writer = self.writer()?;
        let rebuilds = Arc::clone(&writer.rebuilds);
        let Some(number) = rebuilds.begin(vdev, rebuild, targets) else {
            return Ok(false);
        };
        // What the devices missed is on disk, with its beginning: also the txgs that were under way when they came. One
        // of them that a device misses from now on would not be news, and its import would go on from where it was.
        for _ in 0..TXGS_UNDER_WAY {
            if let Err(error) = writer.engine.wait_synced(None) {
                rebuilds.take(vdev, number);
                return Err(error.into());
            }
        }
        let (pool, own) = (Arc::downgrade(self), Arc::clone(&rebuilds));
        let thread = thread::named("pool-rebuild", sys::thread::BACKGROUND);
        let thread = thread.spawn(move || {
            work::run(&pool, &own, (vdev, number), rebuild.offset);
            own.forget_thread(vdev, number);
        });
        match thread {
            Ok(thread) => {
                rebuilds.set_thread(vdev, number, thread);
                Ok(true)
            }
            Err(_) => {
                rebuilds.take(vdev, number);
                Err(PoolError::Scan("no thread can be started"))
            }
        }
    }
}
