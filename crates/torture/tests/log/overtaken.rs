//! Txgs that sync beside commits, at a moment that suits nobody.

use super::*;
use sim::WatchedDevice;
use std::sync::mpsc;

/// How long a write to the log device waits for the txg, and how long that is waited for.
const PATIENCE: Duration = Duration::from_millis(700);

/// Stops one write when it is told to, until it is let go on, or patience ends.
#[derive(Clone, Default)]
struct Barrier(Arc<Mutex<Option<Stop>>>);

/// Who is told that a write was stopped, and who hears when it may go on.
type Stop = (mpsc::Sender<()>, mpsc::Receiver<()>);

impl Barrier {
    /// In front of a device.
    fn before(&self, disk: &Arc<SimulatedDisk>) -> Arc<WatchedDevice> {
        let barrier = self.clone();
        let watch = move |_, _| {
            let told = barrier.0.lock().unwrap().take();
            if let Some((stopped, go_on)) = told {
                stopped.send(()).unwrap();
                // That nobody answers is the test's affair.
                let _ = go_on.recv_timeout(PATIENCE);
            }
        };
        Arc::new(WatchedDevice::writes(Arc::clone(disk) as _, watch))
    }

    /// The next write is stopped: who hears of it, and who lets it go on.
    fn stop_next(&self) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
        let (stopped, stops) = mpsc::channel();
        let (goes_on, go_on) = mpsc::channel();
        *self.0.lock().unwrap() = Some((stopped, go_on));
        (stops, goes_on)
    }
}

/// A pool of one disk for data and one for its log, with a barrier before one of them.
fn bench_with_barrier(seed: u64, before: usize) -> (Bench, Barrier) {
    let timeline = Timeline::new();
    let disk = |index| SimulatedDisk::on_timeline(SIZE, seed + index, &timeline);
    let disks: Vec<_> = (0..2).map(|index| Arc::new(disk(index))).collect();
    let barrier = Barrier::default();
    let mut devices = disks.iter().enumerate().map(|(index, disk)| {
        let path = format!("/simulated/disk{index}").into();
        if index == before {
            NewDevice::Open(path, barrier.before(disk))
        } else {
            NewDevice::Open(path, Arc::clone(disk) as _)
        }
    });
    let data = devices.next().into_iter().collect();
    let log = devices.collect();
    (Bench::on(data, log, disks, timeline), barrier)
}

/// A log block, with the pointer to the next one, is on its way to a slow device while the txg syncs in which the next
/// was allocated. After a crash at that moment nothing leads to the next block: it may be in no map either.
#[test]
fn a_txg_waits_for_the_log_blocks_that_lead_to_what_it_allocated() {
    let (bench, barrier) = bench_with_barrier(23, 1);
    let (object, mut version) = logged_object(&bench);
    // The labels of the log device are written by this one, if they are to be.
    bench.pool.sync().unwrap();
    version += 1;
    bench.write(&object, version, true);
    let (stopped, goes_on) = barrier.stop_next();
    let moment = std::thread::scope(|scope| {
        scope.spawn(|| bench.commit(object.id(), version));
        stopped.recv_timeout(PATIENCE * 10).unwrap();
        bench.pool.sync().unwrap();
        let moment = bench.timeline.now();
        // The write may have gone on by itself.
        let _ = goes_on.send(());
        moment
    });
    let folder = tempfile::tempdir().unwrap();
    for survivors in 0..4 {
        check(&bench, moment, survivors, folder.path(), true);
    }
}

/// Nobody uses a log any more when a txg has synced, but it has records of the next one. Who opens it again, and asks
/// for a commit, means these as well.
#[test]
fn a_log_that_is_opened_again_has_the_records_of_before() {
    let (bench, barrier) = bench_with_barrier(25, 0);
    let (object, mut version) = logged_object(&bench);
    version += 1;
    bench.write(&object, version, true);
    let pool = Arc::clone(&bench.pool);
    let (stopped, goes_on) = barrier.stop_next();
    let bench = std::thread::scope(|scope| {
        let syncing = scope.spawn(|| pool.sync().unwrap());
        stopped.recv_timeout(PATIENCE * 10).unwrap();
        version += 1;
        bench.write(&object, version, true);
        bench.reopen_log(|| {
            goes_on.send(()).unwrap();
            syncing.join().unwrap();
        })
    });
    bench.commit(object.id(), version);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, bench.timeline.now(), 25, folder.path(), true);
}
