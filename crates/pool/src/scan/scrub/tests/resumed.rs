//! Resilvers that are left and gone on with.

use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use sim::WatchedDevice;
use vdev::{Condition, Leaf, VdevAux, VdevState};

use super::*;
use crate::pool::status::VdevRole;
use crate::vdevs::dtl;

pub(super) fn leaf(pool: &Pool, name: &str) -> Arc<Leaf> {
    let leaves = dtl::leaves(&pool.vdevs).into_iter();
    let mut called = leaves.filter(|leaf| leaf.path().ends_with(name));
    called.next().unwrap()
}

pub(super) fn take_out(pool: &Pool, name: &str) {
    let offline = Condition::new(VdevState::Offline, VdevAux::None);
    leaf(pool, name).set_condition(offline);
}

/// A mirror whose side `b.img` missed much, and of which a resilver goes on only where a test steps it.
fn behind(folder: &Path, seed: u64) -> (Arc<Pool>, Churn, Vec<PathBuf>) {
    let (vdev, paths) = mirror(folder);
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, seed);
    take_out(&pool, "b.img");
    churn.run(&pool, 6);
    pool.sync().unwrap();
    leaf(&pool, "b.img").set_condition(Condition::HEALTHY);
    start_paused(&pool);
    (pool, churn, paths)
}

/// Starts a resilver that goes on only where a test steps it.
pub(super) fn start_paused(pool: &Arc<Pool>) {
    let (first, last) = pool.begin_resilver(&[]).unwrap();
    let scan = ScanPhys {
        function: FUNCTION_RESILVER,
        state: STATE_SCANNING,
        txg_min: first.0 - 1,
        txg_max: last.0 + 1,
        to_examine: pool.space().allocated,
        flags: FLAG_PAUSED,
        ..ScanPhys::default()
    };
    pool.store_scan(ScanChange::Start(scan)).unwrap();
    pool.run_scrub(scan, Course::begin(scan)).unwrap();
}

/// Lets a resilver go on by itself, and waits for its end.
pub(super) fn go_on(pool: &Arc<Pool>) -> ScanPhys {
    {
        let scrub = &pool.writer().unwrap().scrub;
        let mut control = scrub.control.lock();
        if let Some(scan) = &mut control.scan {
            scan.flags &= !FLAG_PAUSED;
        }
        control.request = ScanRequest::Run;
        drop(control);
        scrub.changed.notify_all();
    }
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    pool.scan().unwrap().unwrap()
}

pub(super) fn forced(folder: &Path) -> ImportOptions {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Only);
    options.force = true;
    options
}

/// The side that was behind is all there is.
fn assert_alone(pool: Arc<Pool>, churn: &Churn, folder: &Path, paths: &[PathBuf]) {
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, "tank");
    }
    std::fs::remove_file(&paths[0]).unwrap();
    let pool = Pool::import(&forced(folder)).unwrap();
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_resilver_goes_on_where_it_was() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    let folder = tempfile::tempdir().unwrap();
    let (mut pool, mut churn, paths) = behind(folder.path(), 21);
    let max = pool.scan().unwrap().unwrap().txg_max;
    let mut rounds = 0;
    while steps(&pool, 1) {
        rounds += 1;
        if rounds <= 3 {
            churn.run(&pool, 1);
        }
        let scrub = &pool.writer().unwrap().scrub;
        let (stored, _) = scrub.stored().unwrap();
        if rounds % 2 == 0 {
            pool.export().unwrap();
        } else {
            pool.store_scan(ScanChange::Update).unwrap();
            pool.abandon();
        }
        drop(pool);
        pool = Pool::import(&forced(folder.path())).unwrap();
        let scan = pool.scan().unwrap().unwrap();
        assert!(scan.is_running() && scan.txg_max == max, "{scan:?}");
        assert_eq!(
            (scan.bookmark, scan.examined),
            (stored.bookmark, stored.examined)
        );
        assert!(leaf(&pool, "b.img").is_resilvering());
    }
    assert!(rounds >= 4, "{rounds}");
    let scan = go_on(&pool);
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    assert!(leaf(&pool, "b.img").missing().is_empty());
    SCAN_MEMORY_BYTES.reset();
    assert_alone(pool, &churn, folder.path(), &paths);
}

/// Steps a resilver that leaves something behind; the place that is stored stays.
fn go_on_behind(pool: &Pool) {
    let scrub = &pool.writer().unwrap().scrub;
    let before = scrub.stored().unwrap().0.bookmark;
    for _ in 0..40 {
        advance(pool, scrub);
    }
    assert_eq!(scrub.stored().unwrap().0.bookmark, before);
}

/// One that was away in between, and is back before anybody noticed, still gets what was passed over meanwhile.
#[test]
fn the_place_of_a_resilver_is_not_behind_what_was_left() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    let folder = tempfile::tempdir().unwrap();
    let (pool, churn, paths) = behind(folder.path(), 24);
    assert!(steps(&pool, 1));
    take_out(&pool, "b.img");
    go_on_behind(&pool);
    leaf(&pool, "b.img").set_condition(Condition::HEALTHY);
    pool.store_scan(ScanChange::Update).unwrap();
    pool.abandon();
    drop(pool);
    SCAN_MEMORY_BYTES.reset();
    let pool = Pool::import(&forced(folder.path())).unwrap();
    let scan = go_on(&pool);
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    assert_alone(pool, &churn, folder.path(), &paths);
}

/// One that was away for a while has not everything up to the place.
#[test]
fn a_resilver_begins_anew_for_a_device_that_was_away() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, paths) = behind(folder.path(), 22);
    let max = pool.scan().unwrap().unwrap().txg_max;
    assert!(steps(&pool, 1));
    take_out(&pool, "b.img");
    churn.run(&pool, 1);
    go_on_behind(&pool);
    pool.store_scan(ScanChange::Update).unwrap();
    pool.abandon();
    drop(pool);
    SCAN_MEMORY_BYTES.reset();
    let pool = Pool::import(&forced(folder.path())).unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    assert!(scan.txg_max > max);
    assert_alone(pool, &churn, folder.path(), &paths);
}

/// Also one to which nothing was written meanwhile.
#[test]
fn a_device_that_is_away_while_a_resilver_runs_misses_every_txg() {
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let log: Vec<PathBuf> = ["c.img", "d.img"].map(|n| folder.path().join(n)).into();
    for path in &log {
        device::FileDevice::create(path, 96 << 20).unwrap();
    }
    let log = NewVdev::Mirror(log.into_iter().map(NewDevice::Path).collect());
    let mut options = CreateOptions::new("tank", vec![vdev]);
    options.others = vec![(VdevRole::Log, log)];
    let pool = Pool::create(options).unwrap();
    let mut churn = Churn::new(&pool, 23);
    take_out(&pool, "d.img");
    churn.run(&pool, 1);
    let lacks = || {
        pool.sync().unwrap();
        let last = pool.writer().unwrap().syncer.last.get().txg;
        leaf(&pool, "d.img").misses(last)
    };
    assert!(!lacks());
    leaf(&pool, "b.img").begin_resilver();
    churn.run(&pool, 1);
    assert!(lacks());
    pool.export().unwrap();
}

/// One that was away and is back within the txg that stores the place may have lost what it was given before that.
#[test]
fn a_resilver_begins_anew_for_a_device_that_lost_blocks_and_is_back() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    let folder = tempfile::tempdir().unwrap();
    let (pool, churn, paths) = behind(folder.path(), 25);
    let max = pool.scan().unwrap().unwrap().txg_max;
    assert!(steps(&pool, 1));
    let side = leaf(&pool, "b.img");
    side.reopen(side.device());
    assert!(side.is_writable());
    drop(side);
    pool.store_scan(ScanChange::Update).unwrap();
    pool.abandon();
    drop(pool);
    SCAN_MEMORY_BYTES.reset();
    let pool = Pool::import(&forced(folder.path())).unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.state, scan.errors), (STATE_FINISHED, 0));
    assert!(scan.txg_max > max);
    assert_alone(pool, &churn, folder.path(), &paths);
}

/// A resilver that begins after the loss gives it everything.
#[test]
fn a_device_that_lost_blocks_and_is_back_is_whole_after_a_resilver() {
    let _turn = LIMITED.lock().unwrap_or_else(PoisonError::into_inner);
    SCAN_MEMORY_BYTES.set(16 << 10);
    let folder = tempfile::tempdir().unwrap();
    let (pool, churn, paths) = behind(folder.path(), 26);
    assert!(steps(&pool, 1));
    let side = leaf(&pool, "b.img");
    side.reopen(side.device());
    SCAN_MEMORY_BYTES.reset();
    pool.restart_resilver().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert!(side.missing().is_empty(), "{:?}", side.missing());
    drop(side);
    assert_alone(pool, &churn, folder.path(), &paths);
}

/// The writes of a txg miss a device that is back before they are done on the other side.
#[test]
fn a_txg_that_was_under_way_as_a_device_came_back_is_resilvered() {
    let folder = tempfile::tempdir().unwrap();
    let (vdev, _) = mirror(folder.path());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 32);
    let held = Arc::new(Mutex::new(None::<(Sender<()>, Receiver<()>)>));
    let a = leaf(&pool, "a.img");
    let next = Arc::clone(&held);
    let watched = WatchedDevice::writes(a.device().unwrap(), move |_, _| {
        let next = next.lock().unwrap().take();
        if let Some((begun, go_on)) = next {
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        }
    });
    a.set_device(Some(Arc::new(watched)));
    take_out(&pool, "b.img");
    churn.run(&pool, 2);
    pool.sync().unwrap();
    let (begun, begins) = channel();
    let (goes_on, go_on) = channel();
    *held.lock().unwrap() = Some((begun, go_on));
    std::thread::scope(|scope| {
        scope.spawn(|| churn.run(&pool, 1));
        begins.recv().unwrap();
        let b = leaf(&pool, "b.img");
        b.set_condition(Condition::HEALTHY);
        let resilver = scope.spawn(|| pool.resilver_if_needed().unwrap());
        // One that begins before those writes are done has the time to.
        std::thread::sleep(std::time::Duration::from_millis(100));
        goes_on.send(()).unwrap();
        assert!(resilver.join().unwrap());
    });
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert!(leaf(&pool, "b.img").missing().is_empty());
    churn.check(&pool);
    pool.export().unwrap();
}
