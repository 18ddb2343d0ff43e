//! Which log vdevs take log blocks: those that work and are not about to be removed.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::VdevId;
use base::lock::{LockClass, Mutex, rank};
use space::{ClassKind, PoolSpace};
use vdev::VdevTree;

static LEAVING: LockClass = LockClass::new("pool.log_devices", rank::SPACE + 1);

/// See the module.
pub(crate) struct LogDevices {
    vdevs: Arc<VdevTree>,
    space: Arc<PoolSpace>,
    leaving: Mutex<BTreeSet<VdevId>>,
    /// Some take log blocks.
    work: AtomicBool,
}

impl LogDevices {
    pub(crate) fn new(vdevs: &Arc<VdevTree>, space: &Arc<PoolSpace>) -> Arc<Self> {
        let devices = Self {
            vdevs: Arc::clone(vdevs),
            space: Arc::clone(space),
            leaving: Mutex::new(&LEAVING, BTreeSet::new()),
            work: AtomicBool::new(false),
        };
        devices.follow();
        Arc::new(devices)
    }

    /// Sends log blocks where they can go now: asked after each txg, and when a device failed or
    /// came back.
    pub(crate) fn follow(&self) {
        let leaving = self.leaving.lock();
        let mut any = false;
        for space in self.space.vdevs() {
            let geometry = space.geometry();
            if geometry.class == ClassKind::Log {
                let top = self.vdevs.top(geometry.vdev);
                let works = top.is_ok_and(|top| top.condition().state.is_usable());
                let takes = works && !leaving.contains(&geometry.vdev);
                space.set_allocatable(takes);
                any |= takes;
            }
        }
        self.work.store(any, Ordering::Relaxed);
    }

    /// Whether some vdev takes log blocks.
    pub(crate) fn work(&self) -> bool {
        self.work.load(Ordering::Relaxed)
    }

    /// A log block could not be written or flushed there. A vdev for data is for the txgs to judge.
    pub(crate) fn failed(&self, vdev: VdevId) {
        if let Ok(top) = self.vdevs.top(vdev)
            && top.config().is_log
        {
            top.give_up();
            self.follow();
        }
    }

    /// No new log blocks go to this vdev any more, or they do again.
    pub(crate) fn set_leaving(&self, vdev: VdevId, leaving: bool) {
        {
            let mut all = self.leaving.lock();
            if leaving {
                all.insert(vdev);
            } else {
                all.remove(&vdev);
            }
        }
        self.follow();
    }
}
