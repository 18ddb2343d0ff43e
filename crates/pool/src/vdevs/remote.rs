//! Devices that servers have, when the connection to one broke: it is opened anew, by `zpool clear` and `zpool online`,
//! and by itself while the pool goes on without it.
//!
//! A server is asked without the lock under which devices change: one that is away takes its time. What it has then
//! must be the leaf's device still, by its labels, and nobody else may have written it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use base::{Txg, thread};
use device::{Access, BlockDevice, DeviceKind};
use format::config::keys;
use vdev::{Condition, Leaf, VdevAux, VdevState, VdevTree};

use crate::error::{PoolError, Result};
use crate::import::discover;
use crate::pool::Pool;
use crate::tunables::{RECONNECT_MAX_MS, RECONNECT_MIN_MS};
use crate::vdevs::dtl;
use crate::vdevs::new::NewDevice;

/// Whether a leaf waits for its server: nobody took it out of use.
fn is_away(leaf: &Leaf) -> bool {
    let is_remote = device::is_remote(leaf.path().as_ref().as_ref());
    is_remote
        && match leaf.condition().state {
            VdevState::Removed | VdevState::CantOpen => true,
            VdevState::Unknown
            | VdevState::Closed
            | VdevState::Offline
            | VdevState::Faulted
            | VdevState::Degraded
            | VdevState::Healthy => false,
        }
}

/// Refuses what cannot wait to be used: it would be asked for whenever somebody lists the pool.
pub(crate) fn check_not_remote(new: &NewDevice) -> Result<()> {
    match new {
        NewDevice::Path(path) if device::is_remote(path) => Err(PoolError::refused(
            "a disk of a server can be neither a spare nor a cache device",
        )),
        NewDevice::Path(_) | NewDevice::Open(..) => Ok(()),
    }
}

impl Pool {
    /// The device of a leaf in its place, with the newest txg that it has; none may be newer than `last`.
    pub(crate) fn find_again(
        &self,
        leaf: &Leaf,
        last: Txg,
    ) -> std::result::Result<(Arc<dyn BlockDevice>, Txg), Condition> {
        let path = PathBuf::from(&*leaf.path());
        let cannot = |aux| Condition::new(VdevState::CantOpen, aux);
        let opened = device::open_again(&path, Access::ReadWrite);
        let device = self.behind(opened.map_err(|_| cannot(VdevAux::OpenFailed))?);
        let found = discover::labelled(&path, device.as_ref());
        let found = found.ok_or(cannot(VdevAux::BadLabel))?;
        let pool = discover::newest(&found.labels).and_then(|label| label.u64(keys::POOL_GUID));
        let newest = found.labels.best_uberblock(None);
        let newest = newest.map_or(Txg(0), |best| best.uberblock.txg);
        if found.guid != leaf.guid() || pool != Some(self.config().guid().0) || newest > last {
            return Err(cannot(VdevAux::CorruptData));
        }
        Ok((device, newest))
    }

    /// Connects anew to the servers of those leaves that `named` picks to which the connection broke. What such a leaf
    /// was given since its last flush is in doubt until it is cleared.
    pub(crate) fn connect_again(&self, named: &dyn Fn(&Leaf) -> bool) {
        let Some(writer) = &self.writer else { return };
        // A txg of which nobody heard that it is on disk may be there.
        let last = writer.engine.open_txg();
        for leaf in dtl::leaves(&self.vdevs) {
            let device = leaf.device();
            let is_remote = |device: &Arc<dyn BlockDevice>| device.kind() == DeviceKind::Remote;
            let failure = device.filter(is_remote).and_then(|device| device.failure());
            let failure = failure.filter(device::DeviceError::is_gone);
            let is_offline = leaf.condition().state == VdevState::Offline;
            if let Some(failure) = failure.filter(|_| named(&leaf) && !is_offline)
                && let Ok((device, _)) = self.find_again(&leaf, last)
            {
                leaf.connect_again(device, &failure);
            }
        }
    }

    /// Takes those devices into use again whose servers are there. Answers whether others are away.
    fn ask_servers(self: &Arc<Self>) -> bool {
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        let mut any_away = false;
        for leaf in leaves.filter(|leaf| is_away(leaf)) {
            // A pool that is suspended is told to go on by its operator.
            let is_back = self.check_running().is_ok() && self.comes_back(&leaf).is_ok();
            any_away |= !is_back;
        }
        any_away
    }

    fn comes_back(self: &Arc<Self>, leaf: &Leaf) -> Result<()> {
        let path = PathBuf::from(&*leaf.path());
        drop(device::open_again(&path, Access::ReadOnly)?);
        let condition = self.bring_online(leaf.guid())?;
        match condition.state.is_usable() {
            true => Ok(()),
            false => Err(PoolError::NoSuchVdev { guid: leaf.guid() }),
        }
    }
}

/// From now on the servers of devices that are away are asked again and again, less and less often, until all are back;
/// once is enough. The pool is let go of between.
pub(crate) fn look_for_servers(pool: Weak<Pool>, vdevs: &VdevTree, is_looking: &Arc<AtomicBool>) {
    if !dtl::leaves(vdevs).iter().any(|leaf| is_away(leaf))
        || is_looking.swap(true, Ordering::AcqRel)
    {
        return;
    }
    let own = Arc::clone(is_looking);
    let look = move || {
        let mut pause_ms = RECONNECT_MIN_MS.get();
        loop {
            thread::sleep(Duration::from_millis(pause_ms));
            pause_ms = pause_ms.saturating_mul(2).min(RECONNECT_MAX_MS.get());
            let Some(pool) = pool.upgrade().filter(|pool| !pool.state.lock().closed) else {
                return;
            };
            if !pool.ask_servers() {
                own.store(false, Ordering::Release);
                // One that went away just now found that somebody looks.
                let is_one = dtl::leaves(&pool.vdevs).iter().any(|leaf| is_away(leaf));
                if !is_one || own.swap(true, Ordering::AcqRel) {
                    return;
                }
                pause_ms = RECONNECT_MIN_MS.get();
            }
        }
    };
    let thread = thread::named("pool-servers", sys::thread::BACKGROUND);
    if thread.spawn(look).is_err() {
        is_looking.store(false, Ordering::Release);
    }
}
