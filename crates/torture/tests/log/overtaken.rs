//! A txg that would be on disk before the log block that leads to what it allocated.

use super::*;
use sim::WatchedDevice;
use std::sync::mpsc;

/// How long a write to the log device waits for the txg, and how long that is waited for.
const PATIENCE: Duration = Duration::from_millis(700);

/// A log block, with the pointer to the next one, is on its way to a slow device while the txg syncs in which the next
/// was allocated. After a crash at that moment nothing leads to the next block: it may be in no map either.
#[test]
fn a_txg_waits_for_the_log_blocks_that_lead_to_what_it_allocated() {
    let timeline = Timeline::new();
    let disks: Vec<_> = (0..2)
        .map(|index| Arc::new(SimulatedDisk::on_timeline(SIZE, 23 + index, &timeline)))
        .collect();
    let go_on = Arc::new(Mutex::new(None));
    let (writes, written) = mpsc::channel();
    let watched = Arc::clone(&go_on);
    let watch = move |_, _| {
        let waits: Option<mpsc::Receiver<()>> = watched.lock().unwrap().take();
        if let Some(waits) = waits {
            writes.send(()).unwrap();
            let _ = waits.recv_timeout(PATIENCE);
        }
    };
    let log = Arc::new(WatchedDevice::writes(Arc::clone(&disks[1]) as _, watch));
    let (data, log) = (
        NewDevice::Open("/simulated/disk0".into(), Arc::clone(&disks[0]) as _),
        NewDevice::Open("/simulated/disk1".into(), log),
    );
    let bench = Bench::on(vec![data], vec![log], disks, timeline);
    let (object, mut version) = logged_object(&bench);
    // The labels of the log device are written by this one, if they are to be.
    bench.pool.sync().unwrap();
    version += 1;
    bench.write(&object, version, true);
    let (goes_on, waits) = mpsc::channel();
    *go_on.lock().unwrap() = Some(waits);
    let moment = std::thread::scope(|scope| {
        scope.spawn(|| bench.commit(object.id(), version));
        written.recv_timeout(PATIENCE * 10).unwrap();
        bench.pool.sync().unwrap();
        let moment = bench.timeline.now();
        // The write may have gone on by itself.
        let _ = goes_on.send(());
        moment
    });
    let folder = tempfile::tempdir().unwrap();
    for survivors in 0..4 {
        check(&bench, moment, survivors, folder.path(), true);
        millpond_torture::aftermath::on_devices(folder.path());
    }
}
