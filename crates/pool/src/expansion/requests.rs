//! When expansions begin, go on and end: the thread that has txgs follow one another while sectors move.

use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Guid, Txg, VdevId, thread};
use format::config::keys;
use format::{BlockPointer, Uberblock, features};
use vdev::{Leaf, LeafConfig};

use super::{Expander, Waits};
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::rebuild::requests::check_expansion;
use crate::vdevs::disks::{AttachOptions, TOO_SMALL, check_fits};
use crate::vdevs::expand::{Expansion, NOT_ENABLED, check};
use crate::vdevs::new::{NewDevice, leaf_config, open_device};
use crate::vdevs::regroup::DeviceChange;

/// How long to wait before it is looked again whether devices are back.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the thread does next.
enum Step {
    /// Has a txg follow those that there were.
    Sync(u64),
    /// Everything has moved.
    Done,
    /// The pool closes.
    Leave,
}

impl Expander {
    /// From now on sectors may move. Whether that needs a thread.
    fn run(&self) -> bool {
        let mut state = self.state.lock();
        state.is_running = true;
        state.vdev.is_some() && !std::mem::replace(&mut state.has_thread, true)
    }

    /// The thread ends.
    fn ended(&self) {
        self.state.lock().has_thread = false;
    }

    /// Nothing moves any more; the thread ends.
    pub(super) fn leave(&self) {
        self.state.lock().is_running = false;
        self.closes.notify_all();
        self.synced.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !thread.is_current()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    /// Whether the thread ends: not if another vdev began to be expanded.
    fn ends(&self) -> bool {
        let mut state = self.state.lock();
        state.has_thread = state.vdev.is_some();
        !state.has_thread
    }

    /// What comes next; waits where nothing can move.
    fn next(&self, has_waited: &mut bool) -> Step {
        let mut state = self.state.lock();
        if !state.is_running {
            return Step::Leave;
        }
        if state.vdev.is_none() {
            return Step::Done;
        }
        if state.waits.is_some() && !*has_waited {
            self.closes.wait_for(&mut state, LOOK_AGAIN);
            *has_waited = true;
        } else {
            *has_waited = false;
        }
        if state.is_running {
            Step::Sync(state.txgs)
        } else {
            Step::Leave
        }
    }

    /// Waits until there were more txgs than these, or the pool closes: it may be suspended.
    fn wait_for_txg(&self, before: u64) {
        let mut state = self.state.lock();
        while state.is_running && state.txgs == before {
            self.synced.wait(&mut state);
        }
    }

    /// From now on nobody waits for the thread's end. False if somebody does already.
    fn detach(&self) -> bool {
        self.thread.lock().take().is_some()
    }
}

impl Pool {
    /// Adds a device to a RAID-Z vdev, whose blocks spread over it from then on; that goes on when this returns.
    ///
    /// # Errors
    /// The device cannot be used, the vdev cannot be expanded now, or the pool cannot be written.
    pub fn expand_raidz(
        self: &Arc<Self>,
        vdev: Guid,
        new: &NewDevice,
        options: &AttachOptions,
    ) -> Result<()> {
        check_expansion(options.fill)?;
        let writer = self.writer()?;
        self.check_running()?;
        {
            let _one = writer.vdev_changes.alone();
            self.check_no_checkpoint()?;
            let expansion = self.prepare_expansion(vdev, new, options)?;
            self.change_devices(writer, DeviceChange::Expand(Box::new(expansion)))?;
        }
        self.go_on_expanding();
        Ok(())
    }

    /// Bytes in use on a top-level vdev.
    pub(crate) fn allocated_on(&self, vdev: VdevId) -> u64 {
        let space = self.space.as_ref().and_then(|space| space.vdev(vdev));
        space.map_or(0, |space| space.allocated_bytes())
    }

    /// Whether a RAID-Z vdev is being expanded, and waits for its devices.
    #[must_use]
    pub fn expansion_waits(&self) -> bool {
        let waits = self
            .writer
            .as_ref()
            .and_then(|writer| writer.expander.waits());
        match waits {
            Some(Waits::Devices | Waits::Failed) => true,
            None => false,
        }
    }

    /// Whether a RAID-Z vdev is being expanded.
    #[must_use]
    pub fn is_expanding(&self) -> bool {
        let stored = self.services.config.with(super::expanding);
        let writer = self.writer.as_ref();
        stored.is_some() || writer.is_some_and(|writer| writer.expander.vdev().is_some())
    }

    /// Whether a top-level vdev is being expanded, as far as the txg that syncs does not end that.
    pub(crate) fn expands(&self, vdev: VdevId) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.expander.vdev() == Some(vdev))
    }

    /// Has sectors of a vdev move that is being expanded, if there is one.
    pub(crate) fn go_on_expanding(self: &Arc<Self>) {
        let Some(writer) = &self.writer else { return };
        let expander = &writer.expander;
        let mut current = expander.thread.lock();
        if !expander.run() {
            return;
        }
        let (pool, its) = (Arc::downgrade(self), Arc::clone(expander));
        let thread = thread::named("expansion", sys::thread::BACKGROUND);
        *current = thread.spawn(move || expand(&pool, &its)).ok();
        if current.is_none() {
            // Sectors move with the txgs that come anyway.
            expander.ended();
        }
    }
}

impl Pool {
    /// Opens the device that a RAID-Z vdev is to get, and gives it labels that do not count yet.
    pub(crate) fn prepare_expansion(
        &self,
        vdev: Guid,
        new: &NewDevice,
        options: &AttachOptions,
    ) -> Result<Expansion> {
        let mut whole = self.config();
        let at = whole
            .root
            .children
            .iter()
            .position(|top| top.guid() == vdev);
        let at = at.ok_or(PoolError::NoSuchVdev { guid: vdev })?;
        let top = self.vdevs.top(whole.root.children[at].id())?;
        if !self.features().is_enabled(&features::RAIDZ_EXPANSION) {
            return Err(PoolError::refused(NOT_ENABLED));
        }
        check(&whole, vdev, &top)?;
        let (path, device) = open_device(new, options.force).map_err(|error| {
            if let PoolError::TooSmall { .. } = error {
                return PoolError::refused(TOO_SMALL);
            }
            error
        })?;
        let node = &mut whole.root.children[at];
        check_fits(node, device.as_ref(), options.ashift)?;
        let guid = Guid(self.services.rng.nonzero_u64());
        let config = leaf_config(node.children.len(), guid, &path, device.kind(), Txg(0));
        let place = LeafConfig {
            guid,
            path: path.display().to_string(),
            ashift: node.ashift(),
            spare_room: None,
        };
        let leaf = Leaf::new(place, Some(device));
        node.get_child(config.clone());
        let label = node.clone();
        whole.list.set(keys::TXG, 0_u64);
        let sum = whole.root.guid_sum();
        let blank = Uberblock::new(self.version(), Txg(0), sum, 0, BlockPointer::HOLE);
        leaf.initialise_labels(&whole.to_label(&label, guid), &blank)?;
        Ok(Expansion { vdev, config, leaf })
    }
}

fn expand(pool: &Weak<Pool>, expander: &Expander) {
    let (mut has_waited, mut is_detached) = (false, false);
    loop {
        let step = expander.next(&mut has_waited);
        let Some(pool) = pool.upgrade() else {
            return expander.ended();
        };
        match step {
            Step::Sync(before) => {
                let Ok(writer) = pool.writer() else {
                    return expander.ended();
                };
                writer.engine.kick();
                drop(pool);
                expander.wait_for_txg(before);
            }
            Step::Done => {
                if !is_detached && !expander.detach() {
                    return expander.ended();
                }
                is_detached = true;
                // It may have come to its end just now, in a txg that is not on disk yet.
                let _ = pool.sync();
                // What was copied was not read block by block. One that runs may have begun before; a pool that
                // cannot be written is scrubbed by its user.
                let _ = pool.start_scrub();
                if expander.ends() {
                    return;
                }
            }
            Step::Leave => return expander.ended(),
        }
    }
}
