//! Flushes of many vdevs.

use super::flush_tops;
use crate::testing::MemoryDevice;
use crate::{Leaf, LeafConfig, Node, Top, TopConfig, VdevTree};
use base::{Guid, VdevId};
use device::BlockDevice;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

fn top(id: u64, device: &Arc<MemoryDevice>) -> Arc<Top> {
    let config = LeafConfig {
        guid: Guid(id + 1),
        path: format!("/d{id}"),
        ashift: 12,
        spare_room: None,
    };
    let leaf = Leaf::new(config, Some(Arc::clone(device) as Arc<dyn BlockDevice>));
    let config = TopConfig {
        id: VdevId(id),
        guid: Guid(id + 1),
        ashift: 12,
        asize: 60 << 20,
        is_log: false,
    };
    Top::new(config, Node::Leaf(leaf))
}

/// Devices whose flushes end when so many are under way, or after a long time.
#[derive(Default)]
struct Meeting {
    under_way: Mutex<(usize, usize)>,
    changed: Condvar,
}

impl Meeting {
    fn meet(&self, wanted: usize) {
        let mut counts = self.under_way.lock().unwrap();
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
        self.changed.notify_all();
        let late = Duration::from_secs(10);
        let waiting = |counts: &mut (usize, usize)| counts.1 < wanted;
        let waited = self.changed.wait_timeout_while(counts, late, waiting);
        waited.unwrap().0.0 -= 1;
    }
}

#[test]
fn vdevs_are_flushed_at_once() {
    const COUNT: u64 = 6;
    let meeting = Arc::new(Meeting::default());
    let devices: Vec<_> = (0..COUNT).map(|_| MemoryDevice::new(65 << 20)).collect();
    for device in &devices {
        let meeting = Arc::clone(&meeting);
        let meets = Arc::new(move || meeting.meet(COUNT as usize));
        *device.on_flush.lock().unwrap() = Some(meets);
    }
    let tops = devices
        .iter()
        .zip(0..)
        .map(|(device, id)| Some(top(id, device)));
    let tree = VdevTree::new(tops.collect());
    tree.flush().unwrap();
    assert_eq!(meeting.under_way.lock().unwrap().1, COUNT as usize);
}

#[test]
fn all_are_flushed_though_one_fails_and_the_first_failure_is_told() {
    let devices: Vec<_> = (0..4).map(|_| MemoryDevice::new(65 << 20)).collect();
    let tops: Vec<_> = devices
        .iter()
        .zip(0..)
        .map(|(device, id)| top(id, device))
        .collect();
    for failing in [1, 2] {
        devices[failing].fail_flush.store(true, Ordering::Relaxed);
    }
    let error = flush_tops(&tops).unwrap_err();
    assert!(
        matches!(
            error,
            crate::VdevError::FlushFailed {
                vdev: VdevId(1),
                ..
            }
        ),
        "{error}"
    );
    let flushes = devices
        .iter()
        .map(|device| device.flushes.load(Ordering::Relaxed));
    assert_eq!(flushes.collect::<Vec<_>>(), [1; 4]);
}
