//! What users ask of removals.

use std::sync::{Arc, Weak};

use base::{Guid, VdevId, thread};
use dsl::SpaceClass;
use format::config::keys;
use format::features;
use space::{ClassKind, PoolSpace, VdevSpace};

use super::copying::{room, room_on_normal};
use super::{Evacuation, RemovalsBarred, Request, WhenEnded};
use crate::config::{PoolConfig, VdevConfig};
use crate::error::{PoolError, Result};
use crate::pool::{Pool, Writer};
use crate::tunables::REMOVAL_SEGMENT_BYTES;

/// Bytes of memory that an entry of a mapping takes.
const ENTRY_BYTES: u64 = 24;

impl Evacuation {
    fn want(&self, request: Request) {
        let mut state = self.state.lock();
        state.wanted = Some(request);
        state.outcome = None;
    }

    /// Says what is to be done when a removal has ended.
    fn on_ended(&self, when_ended: WhenEnded) {
        *self.when_ended.lock() = Some(when_ended);
    }

    fn outcome(&self) -> Result<()> {
        let outcome = self.state.lock().outcome.take();
        outcome.unwrap_or(Err(PoolError::Busy))
    }
}

impl Pool {
    /// Begins to remove a top-level vdev that holds data; it goes on when this returns.
    ///
    /// # Errors
    /// There is none of that guid; it cannot be removed, as it, or another, has parity or other sectors, lacks data, or
    /// is needed for the room that it has; another one is being removed; there is a checkpoint; a log waits for its
    /// replay; blocks are being healed.
    pub fn remove_vdev(&self, guid: Guid) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        self.check_no_checkpoint()?;
        if writer.removal.is_barred() {
            return Err(PoolError::Busy);
        }
        let (id, space) = self.removable(writer, guid)?;
        space.set_allocatable(false);
        let begun = self.begin_removal(writer, id);
        writer.logs.go_on();
        if begun.is_err() {
            space.set_allocatable(true);
            writer.trim.bar(id, false);
            writer.initialize.bar(id, false);
        }
        begun
    }

    fn begin_removal(&self, writer: &Writer, id: VdevId) -> Result<()> {
        writer.trim.bar(id, true);
        writer.initialize.bar(id, true);
        // What was allocated there is in use when nothing of these txgs is under way any more, logs included.
        let ended = self.wind_up_logs(writer);
        if let Err(PoolError::Busy) = ended {
            return Err(PoolError::refused(
                "Mount encrypted datasets to replay logs.",
            ));
        }
        ended?;
        writer.removal.want(Request::Begin(id));
        writer.engine.wait_synced(None)?;
        writer.removal.outcome()
    }

    /// Gives a removal up; what was copied is freed when this returns.
    ///
    /// # Errors
    /// None is under way, or the pool cannot be written.
    pub fn cancel_removal(&self) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        if writer.removal.vdev().is_none() {
            return Err(PoolError::NoRemoval);
        }
        writer.removal.want(Request::Cancel);
        writer.engine.wait_synced(None)?;
        writer.removal.outcome()
    }

    /// Has no removal begin while blocks are written over where they lie: of what is copied already, the copy would
    /// stay as it was.
    ///
    /// # Errors
    /// One is under way.
    pub fn bar_removals(&self) -> Result<RemovalsBarred> {
        let writer = self.writer()?;
        let _one = writer.vdev_changes.alone();
        match writer.removal.vdev() {
            Some(_) => Err(PoolError::Busy),
            None => Ok(RemovalsBarred::new(&writer.removal)),
        }
    }

    /// Whether a vdev is being removed.
    #[must_use]
    pub fn is_removing(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.removal.vdev().is_some())
    }

    /// Waits until nothing is being removed any more. The devices of what was removed belong to no pool then.
    ///
    /// # Errors
    /// The pool stopped, or closes.
    pub fn wait_removal(&self) -> Result<()> {
        let writer = self.writer()?;
        while self.is_removing() {
            self.check_running()?;
            writer.engine.wait_synced(None)?;
        }
        self.let_go(writer);
        Ok(())
    }

    /// Memory that the mapping of a vdev would take if it were removed now, at most.
    ///
    /// # Errors
    /// It cannot be removed.
    pub fn removal_memory(&self, guid: Guid) -> Result<u64> {
        let writer = self.writer()?;
        self.check_no_checkpoint()?;
        let (_, space) = self.removable(writer, guid)?;
        let shift = space.geometry().metaslab_shift;
        let mut pieces = space.allocated_bytes() / REMOVAL_SEGMENT_BYTES.get();
        for index in 0..usize::try_from(space.geometry().size >> shift).unwrap_or(0) {
            if let Some(used) = space.in_use(index, &*writer.syncer.maps)? {
                pieces = pieces.saturating_add(used.count() as u64);
            }
        }
        Ok(pieces.saturating_mul(ENTRY_BYTES))
    }

    /// Goes on with a removal that the last import left. When one ends its devices are to forget the pool.
    pub(crate) fn resume_removal(self: &Arc<Self>) {
        let Some(writer) = &self.writer else { return };
        let pool = Arc::downgrade(self);
        let bars = [Arc::clone(&writer.trim), Arc::clone(&writer.initialize)];
        writer.removal.on_ended(Arc::new(move |id| {
            // It may have been given up.
            bars.iter().for_each(|bar| bar.bar(id, false));
            let pool = Weak::clone(&pool);
            // The thread that syncs calls this, and must not wait for itself.
            let thread = thread::named("pool-removal", sys::thread::BACKGROUND);
            let started = thread.spawn(move || {
                let pool = pool.upgrade();
                if let Some((pool, writer)) =
                    pool.as_ref().and_then(|p| Some((p, p.writer.as_ref()?)))
                {
                    pool.let_go(writer);
                    // What devices missed while it was copied is to be looked for where it is now.
                    if let Err(error) = pool.resilver_anew() {
                        base::notice::say(&format_args!(
                            "no resilver could begin after a removal: {error}"
                        ));
                    }
                }
            });
            // Without a thread, the next change of devices does it.
            drop(started);
        }));
        if let Some(id) = writer.removal.vdev() {
            writer.trim.bar(id, true);
            writer.initialize.bar(id, true);
            writer.engine.kick();
        }
    }

    /// A vdev that can be removed, with its space.
    fn removable(&self, writer: &Writer, guid: Guid) -> Result<(VdevId, Arc<VdevSpace>)> {
        let config = self.config();
        let top = config.root.children.iter().find(|top| top.guid() == guid);
        let top = top.filter(|top| !top.is_indirect() && !top.is_hole());
        let top = top.ok_or(PoolError::NoSuchVdev { guid })?;
        if !self.features().is_enabled(&features::DEVICE_REMOVAL) {
            return Err(PoolError::refused(
                "operation not supported on this type of pool",
            ));
        }
        if writer.removal.vdev().is_some() {
            return Err(PoolError::Busy);
        }
        if top.flag(keys::IS_LOG) {
            // It is emptied, and leaves a hole. Moved away and then emptied, it would be in the chain of removed vdevs,
            // and no import would find it there.
            return Err(PoolError::refused("log devices have nothing to be moved"));
        }
        check_shapes(&config, top)?;
        let id = top.id();
        let there = self.vdevs.top(id)?;
        let lacks = |leaf: &Arc<vdev::Leaf>| !leaf.is_writable() || !leaf.missing().is_empty();
        if there.leaves().iter().all(lacks) {
            return Err(PoolError::Busy);
        }
        let pool = self.space.as_ref().ok_or(PoolError::NoSuchVdev { guid })?;
        let space = pool.vdev(id).ok_or(PoolError::NoSuchVdev { guid })?;
        self.check_room(pool, &space)?;
        Ok((id, space))
    }

    /// Whether there is room for what a vdev holds.
    fn check_room(&self, pool: &PoolSpace, leaving: &VdevSpace) -> Result<()> {
        let (id, class) = (leaving.geometry().vdev, leaving.geometry().class);
        let (lost, there) = match class {
            // Datasets lose all of its room.
            ClassKind::Normal => {
                let root = self.dsl.root_directory()?;
                let available = root.available(SpaceClass::Normal)?;
                (leaving.capacity_bytes(), available)
            }
            // They never had it: what counts is where its blocks go, which is normal space when others of its kind are
            // full.
            ClassKind::Special | ClassKind::Dedup | ClassKind::Log => {
                let special = room(pool, id, ClassKind::Special);
                let own = match class {
                    ClassKind::Dedup => special.saturating_add(room(pool, id, class)),
                    ClassKind::Normal | ClassKind::Special | ClassKind::Log => special,
                };
                let slop = self.services.limits.figures().slop;
                let lost = leaving.allocated_bytes().saturating_sub(own);
                (lost, room_on_normal(pool, id, slop))
            }
        };
        match there < lost {
            true => Err(PoolError::NoSpace),
            false => Ok(()),
        }
    }
}

/// Refuses pools with parity or sectors of several sizes, and mirrors within which something is replaced.
fn check_shapes(config: &PoolConfig, removed: &VdevConfig) -> Result<()> {
    let tops = config.root.children.iter();
    let mut there =
        tops.filter(|top| !top.is_hole() && !top.is_indirect() && !top.flag(keys::IS_LOG));
    let is_odd = |top: &VdevConfig| {
        let of_copies = top.layout().is_some_and(|layout| layout.is_copies());
        let is_flat = top.children.iter().all(VdevConfig::is_leaf);
        !of_copies || !is_flat || top.ashift() != removed.ashift()
    };
    if !there.any(is_odd) {
        return Ok(());
    }
    let reason = "invalid config; all top-level vdevs must have the same sector size and not be \
                  raidz.";
    Err(PoolError::refused(reason))
}
