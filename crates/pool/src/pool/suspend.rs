//! A pool whose devices failed: what it refuses, how it goes on, how it is given up.
//!
//! The sync thread waits where the devices failed it, with everything that was not durable in memory
//! (`txg::Engine::suspend`); what front ends ask for that lies on devices that are away waits with them
//! (`txg::Engine::await_devices`). [`Pool::clear`] has what a failed flush may have lost written again,
//! and lets it go on.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{Guid, Txg};
use dsl::property::FailMode;
use dsl::property::pool::FAILMODE;
use format::config::keys;
use vdev::{Condition, Leaf, Top, VdevAux, VdevState};

use crate::error::{PoolError, Result};
use crate::events::is_failed;
use crate::pool::Pool;

/// Whether a vdev has everything without a leaf.
fn can_do_without(top: &Top, leaf: &Leaf) -> bool {
    top.outage(&|other| other.guid() == leaf.guid()).is_empty()
}

impl Pool {
    /// Why the pool is suspended, when it is.
    #[must_use]
    pub fn suspended(&self) -> Option<String> {
        let engine = &self.writer.as_ref()?.engine;
        let failure = || engine.failure().map(|failure| failure.to_string());
        engine.suspension().or_else(failure)
    }

    /// Whether it is suspended because a file system that holds one of its devices is full.
    #[must_use]
    pub fn waits_for_room(&self) -> bool {
        self.suspended().is_some() && self.services.events.is_for_room()
    }

    /// Why the pool stopped for good, when it did: a txg could not be written for another reason than a device. It
    /// takes no changes any more.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        let failure = self.writer.as_ref()?.engine.failure()?;
        Some(failure.to_string())
    }

    /// The state that an import would find on the devices: its txg, and when that was written, in seconds since 1970.
    #[must_use]
    pub fn on_disk(&self) -> Option<(Txg, u64)> {
        let uberblock = self.writer.as_ref()?.syncer.last.get();
        Some((uberblock.txg, uberblock.timestamp))
    }

    /// Refuses what a suspended pool cannot do.
    ///
    /// # Errors
    /// The pool is suspended.
    pub fn check_running(&self) -> Result<()> {
        self.suspended()
            .map_or(Ok(()), |reason| Err(PoolError::Suspended { reason }))
    }

    /// Forgets the errors of the leaves that `named` picks, writes again what a failed flush may
    /// have lost, and lets a suspended pool go on; waits until the txg that was stopped is on
    /// disk. Devices that missed txgs are resilvered. Answers how many leaves were picked.
    ///
    /// # Errors
    /// The devices still fail: the pool is suspended as before. Or it stopped for good, because a txg could not be
    /// written for another reason.
    pub fn clear(self: &Arc<Self>, named: &dyn Fn(&Leaf) -> bool) -> Result<usize> {
        // What was not on disk when a sync failed for good cannot be written again: parts of it are.
        let engine = self.writer.as_ref().map(|writer| &writer.engine);
        if let Some(failure) = engine.and_then(|engine| engine.failure()) {
            return Err(failure.into());
        }
        self.connect_again(named);
        if let Some(writer) = &self.writer {
            writer.multihost.take_again()?;
        }
        let kept_off = self.keep_logs_off(named);
        let mut picked = 0;
        let mut failed = None;
        for top in self.vdevs.tops() {
            for leaf in top.leaves().iter().filter(|leaf| named(leaf)) {
                picked += 1;
                // One that failed too often is back as well, though it was there: a spare may stand in for it.
                let was_well = leaf.is_writable() && !is_failed(leaf.condition());
                self.keep_offline(leaf);
                match leaf.clear() {
                    Ok(()) => self.note_cleared(leaf.guid(), leaf.is_writable() && !was_well),
                    Err(_) if top.config().is_log => top.give_up(),
                    // It stays out of use, and others stand for it: the pool does not wait for it.
                    Err(_) if !leaf.is_writable() && can_do_without(&top, leaf) => {}
                    Err(error) => {
                        failed.get_or_insert(error);
                    }
                }
            }
        }
        let failed = failed.map(|error| error.to_string());
        if let Some(reason) = failed.or_else(|| self.awaited_in_vain()) {
            return Err(PoolError::Suspended { reason });
        }
        if let Some(writer) = &self.writer
            && let Some(stopped) = writer.engine.resume()
        {
            writer.engine.wait_synced(Some(stopped))?;
        }
        if let Some(writer) = &self.writer {
            writer.syncer.log_devices.follow();
            self.find_faulted_again(named)?;
            if !kept_off.is_empty() {
                writer.engine.wait_synced(None)?;
            }
        }
        drop(kept_off);
        if self.writer.is_some() {
            if !self.resilver_if_needed()? {
                self.go_on_with_scan()?;
            }
            self.run_all_work()?;
            self.go_on_expanding();
        }
        Ok(picked)
    }

    /// Why reads would find devices away again for which alone the pool is suspended. A sync finds out by itself what
    /// it can do without.
    fn awaited_in_vain(&self) -> Option<String> {
        let engine = &self.writer.as_ref()?.engine;
        let is_away = |top: &Arc<Top>| {
            let is_usable = top.condition().state.is_usable();
            !is_usable && !top.config().is_log
        };
        let awaits = engine.is_suspended_for_reads() && self.vdevs.tops().iter().any(is_away);
        engine.suspension().filter(|_| awaits)
    }

    /// A leaf that was faulted and taken offline, too, is offline when its fault is over: the next import would find it
    /// so, and lacking nothing that was written meanwhile.
    fn keep_offline(&self, leaf: &Leaf) {
        let is_offline = self.services.config.with(|config| {
            let node = config.root.find(leaf.guid());
            node.is_some_and(|node| node.flag(keys::OFFLINE))
        });
        if is_offline && leaf.condition().state == VdevState::Faulted {
            leaf.set_condition(Condition::new(VdevState::Offline, VdevAux::None));
        }
    }

    /// A leaf that is faulted and was not there when the pool was imported is looked for once its fault is over: nobody
    /// else would.
    fn find_faulted_again(&self, named: &dyn Fn(&Leaf) -> bool) -> Result<()> {
        let writer = self.writer()?;
        let _one = writer.vdev_changes.alone();
        for top in self.vdevs.tops() {
            let is_lost = |leaf: &&Arc<Leaf>| {
                leaf.condition().state == VdevState::Faulted && leaf.device().is_none()
            };
            for leaf in top.leaves().iter().filter(is_lost) {
                if named(leaf) {
                    leaf.set_condition(self.look_again(writer, &top, leaf));
                    self.note_cleared(leaf.guid(), leaf.is_writable());
                }
            }
        }
        Ok(())
    }

    fn note_cleared(&self, leaf: Guid, is_back: bool) {
        if let Some(writer) = &self.writer {
            writer.diagnosis.forget(leaf);
        }
        self.services.events.vdev("vdev_clear", leaf);
        let config = &self.services.config;
        if is_back {
            config.change(|config| config.root.note_unspare(leaf));
        }
        let is_noted = config.with(|config| {
            let node = config.root.find(leaf);
            node.is_some_and(|node| node.flag(keys::FAULTED))
        });
        if is_noted {
            config.change(|config| {
                if let Some(node) = config.root.find_mut(leaf) {
                    node.forget_fault();
                }
            });
        }
    }

    /// Lets go of a suspended pool without writing anything: its devices stay as after a crash.
    /// Answers the last txg that is on them.
    pub fn abandon(&self) -> Option<Txg> {
        let writer = self.writer.as_ref()?;
        self.state.lock().closed = true;
        writer.syncer.close_tasks();
        writer.engine.stop();
        writer.multihost.stop();
        self.pipeline.second_level().close();
        writer.syncer.under_way.forget();
        self.services.writable.store(false, Ordering::Relaxed);
        self.dsl.close();
        Some(writer.engine.synced_txg())
    }

    /// Whether changes fail at once while the pool is suspended (`failmode=continue`).
    #[must_use]
    pub fn fails_at_once(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.engine.fails_at_once())
    }

    /// Has the engine follow the property `failmode`.
    pub(crate) fn follow_failmode(&self) {
        if let Some(writer) = &self.writer {
            // A property that cannot be read counts as its default.
            let mode = self.get(FAILMODE);
            let fails = mode.is_ok_and(|found| found.value == FailMode::Continue);
            writer.engine.fail_at_once(fails);
        }
    }
}
