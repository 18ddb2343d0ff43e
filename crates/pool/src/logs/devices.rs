//! Which log vdevs take log blocks: those that work and are not barred, as one is that is about to be removed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::VdevId;
use base::lock::{LockClass, Mutex, rank};
use space::{ClassKind, PoolSpace};
use vdev::VdevTree;

static BARRED: LockClass = LockClass::new("pool.log_devices", rank::SPACE + 1);

/// See the module.
pub(crate) struct LogDevices {
    vdevs: Arc<VdevTree>,
    space: Arc<PoolSpace>,
    /// By how many.
    barred: Mutex<BTreeMap<VdevId, usize>>,
    /// Some take log blocks.
    work: AtomicBool,
}

impl LogDevices {
    pub(crate) fn new(vdevs: &Arc<VdevTree>, space: &Arc<PoolSpace>) -> Arc<Self> {
        let devices = Self {
            vdevs: Arc::clone(vdevs),
            space: Arc::clone(space),
            barred: Mutex::new(&BARRED, BTreeMap::new()),
            work: AtomicBool::new(false),
        };
        devices.follow();
        Arc::new(devices)
    }

    /// Sends log blocks where they can go now: asked after each txg, and when a device failed or
    /// came back.
    pub(crate) fn follow(&self) {
        let barred = self.barred.lock();
        let mut any = false;
        for space in self.space.vdevs() {
            let geometry = space.geometry();
            if geometry.class == ClassKind::Log {
                let top = self.vdevs.top(geometry.vdev);
                let works = top.is_ok_and(|top| top.condition().state.is_usable());
                let takes = works && !barred.contains_key(&geometry.vdev);
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

    /// No new log blocks go to this vdev as long as the answer lives.
    pub(crate) fn bar(self: &Arc<Self>, vdev: VdevId) -> BarredFromLogs {
        *self.barred.lock().entry(vdev).or_default() += 1;
        self.follow();
        BarredFromLogs {
            devices: Arc::clone(self),
            vdev,
            for_good: false,
        }
    }
}

/// While it lives no log blocks go to a vdev.
pub(crate) struct BarredFromLogs {
    devices: Arc<LogDevices>,
    vdev: VdevId,
    for_good: bool,
}

impl BarredFromLogs {
    /// Until the pool is imported again: what was asked for may still be done.
    pub(crate) fn keep(mut self) {
        self.for_good = true;
    }
}

impl Drop for BarredFromLogs {
    fn drop(&mut self) {
        if self.for_good {
            return;
        }
        {
            let mut barred = self.devices.barred.lock();
            let left = barred.get(&self.vdev).map_or(0, |count| count - 1);
            if left == 0 {
                barred.remove(&self.vdev);
            } else {
                barred.insert(self.vdev, left);
            }
        }
        self.devices.follow();
    }
}
