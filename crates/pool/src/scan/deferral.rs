//! Devices that wait for the end of a resilver (`resilver_defer`): one that comes back or is attached while others get
//! what they missed does not have these begin anew, once a part of their resilver is done. It is marked in the
//! configuration, keeps lacking all that it missed, and gets it by the resilver that follows.
//!
//! One that the running resilver is for, and that was away for a moment, stays with it: what it could not be given is
//! noted ([`vdev::Leaf::has_left`]), and the resilver that follows looks for that alone.
//!
//! The marks are there until a scan begins or ends; so long the feature is active. An import of a pool that has them
//! goes on with the resilver without these devices. OpenZFS does all that as well.

use std::sync::{Arc, Weak};

use base::{Guid, thread};
use dmu::Tx;
use format::config::keys;
use format::features::RESILVER_DEFER;
use format::nvlist::Value;
use vdev::Leaf;

use super::control::{ScanChange, ScanRequest, Scrub};
use crate::config::VdevConfig;
use crate::error::Result;
use crate::pool::Pool;
use crate::pool::services::PoolServices;
use crate::scan::phys::{FUNCTION_RESILVER, ScanPhys};
use crate::tunables::RESILVER_DEFER_PERCENT;

impl Pool {
    /// The devices that wait for the end of a resilver.
    pub(super) fn deferred(&self) -> Vec<Guid> {
        self.services.deferred()
    }

    /// Whether a resilver runs that is for all devices which lack something, or for whose end the others wait from now
    /// on. While nobody else starts a scan.
    pub(super) fn is_left_to_running(&self) -> Result<bool> {
        let writer = self.writer()?;
        let scrub = &writer.scrub;
        if scrub.thread.lock().is_none() || !scrub.is_resilver() {
            return Ok(false);
        }
        // What a device lost while it was away is known when a txg has ended.
        writer.engine.wait_synced(None)?;
        let is_waiting = |leaf: &Arc<Leaf>| {
            !leaf.missing().is_empty() && (!leaf.is_resilvering() || leaf.has_left())
        };
        let there = self.to_resilver().into_iter();
        let waiting: Vec<Guid> = there.filter(is_waiting).map(|leaf| leaf.guid()).collect();
        let is_enabled = self.services.features.is_enabled(&RESILVER_DEFER);
        {
            let mut control = scrub.control.lock();
            // The resilver's own thread ends it under this lock.
            let scan = match control.request {
                ScanRequest::Run => control.scan,
                ScanRequest::Pause | ScanRequest::Stop | ScanRequest::Leave => None,
            };
            let Some(scan) = scan.filter(|scan| scan.function == FUNCTION_RESILVER) else {
                return Ok(false);
            };
            if waiting.is_empty() {
                return Ok(true);
            }
            if !is_enabled || has_just_begun(&scan) {
                return Ok(false);
            }
            control.is_followed = true;
            scrub.change_next(ScanChange::Defer(waiting));
        }
        writer.engine.wait_synced(None)?;
        Ok(true)
    }

    /// Begins the resilver for devices that waited for the end of another one, if that has ended.
    pub(super) fn follow_resilver(self: &Arc<Self>) -> Result<()> {
        let scrub = &self.writer()?.scrub;
        {
            let control = scrub.control.lock();
            if control.is_closed || !control.is_followed || control.scan.is_some() {
                return Ok(());
            }
        }
        let outcome = match self.to_resilver().iter().all(|leaf| leaf.is_whole()) {
            true => Ok(false),
            false => self.start_resilver(),
        };
        let mut control = scrub.control.lock();
        // It may be gone again, or whole.
        if control.scan.is_none() {
            control.is_followed = false;
        }
        outcome.map(|_| ())
    }
}

/// Whether so little is done that nothing is lost by beginning anew.
fn has_just_begun(scan: &ScanPhys) -> bool {
    let wanted = u128::from(scan.to_examine.saturating_sub(scan.skipped));
    let percent = u128::from(RESILVER_DEFER_PERCENT.get());
    u128::from(scan.examined) * 100 < wanted * percent
}

/// A scan has ended: begins the resilver that is to follow. Another thread does, for who starts a scan waits for the
/// end of this one.
pub(super) fn follow(pool: &Weak<Pool>, scrub: &Arc<Scrub>) {
    {
        let control = scrub.control.lock();
        if !control.is_followed || control.scan.is_some() {
            return;
        }
    }
    let (pool, own) = (Weak::clone(pool), Arc::clone(scrub));
    let started = thread::named("pool-resilver", sys::thread::BACKGROUND).spawn(move || {
        let Some(pool) = pool.upgrade() else { return };
        let _starting = own.starting();
        if let Err(error) = pool.follow_resilver() {
            base::notice::say(&format_args!(
                "the devices that waited for a resilver get theirs with the next import: {error}"
            ));
        }
    });
    if started.is_err() {
        scrub.control.lock().is_followed = false;
    }
}

impl PoolServices {
    fn deferred(&self) -> Vec<Guid> {
        self.config.with(|config| {
            let leaves = config.root.leaves().into_iter();
            let marked = leaves.filter(|leaf| leaf.flag(keys::RESILVER_DEFER));
            marked.map(VdevConfig::guid).collect()
        })
    }

    /// Marks devices that wait for the end of the resilver; in syncing context.
    pub(super) fn defer(&self, tx: &Tx, leaves: &[Guid]) -> Result<()> {
        self.config.change(|config| {
            for leaf in leaves {
                // It may have been detached since.
                if let Some(leaf) = config.root.find_mut(*leaf) {
                    leaf.list.set(keys::RESILVER_DEFER, Value::Boolean);
                }
            }
        });
        if !self.features.is_active(&RESILVER_DEFER) {
            self.change_feature(tx, &RESILVER_DEFER, 1)?;
        }
        Ok(())
    }

    /// A scan begins or ends: none waits any more; whether one did. In syncing context.
    pub(super) fn end_deferral(&self, tx: &Tx) -> Result<bool> {
        let deferred = self.deferred();
        if !deferred.is_empty() {
            self.config.change(|config| {
                for leaf in &deferred {
                    if let Some(leaf) = config.root.find_mut(*leaf) {
                        leaf.list.remove(keys::RESILVER_DEFER);
                    }
                }
            });
        }
        if self.features.is_active(&RESILVER_DEFER) {
            self.change_feature(tx, &RESILVER_DEFER, -1)?;
        }
        Ok(!deferred.is_empty())
    }
}
