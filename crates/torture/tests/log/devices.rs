//! Log devices that fail or go away.

use super::*;
use std::time::{Duration, Instant};

/// An object in a log that takes commits, and the version that it has.
pub(crate) fn logged_object(bench: &Bench) -> (Arc<Object>, u64) {
    bench.log.commit_all().unwrap();
    let object = bench.create();
    let mut version = 0;
    until_logged(bench, &object, &mut version);
    (object, version)
}

/// Commits until the log takes them again after a failure: a chain that broke ends with a txg, and the next begins
/// with another.
pub(crate) fn until_logged(bench: &Bench, object: &Arc<Object>, version: &mut u64) {
    for _ in 0..8 {
        let before = bench.log.statistics();
        *version += 1;
        bench.write(object, *version, true);
        bench.commit(object.id(), *version);
        let after = bench.log.statistics();
        if after.fallbacks == before.fallbacks {
            assert!(after.batches > before.batches);
            return;
        }
        bench.pool.sync().unwrap();
    }
    panic!("commits do not use the log any more");
}

/// A log device that fails: the commit under way waits for its txg, later ones use the other devices, the pool goes
/// on. Cleared, the device is used again. A crash at any of these moments loses nothing.
fn lose_log_device(seed: u64, kind: FaultKind) {
    let bench = Bench::new(seed, 1);
    let (data, log) = (&bench.disks[0], &bench.disks[1]);
    let (object, mut version) = logged_object(&bench);
    let commits = |version: &mut u64, used: &SimulatedDisk| {
        let before = (used.log_len(), log.log_len());
        let fallbacks = bench.log.statistics().fallbacks;
        for _ in 0..5 {
            *version += 1;
            bench.write(&object, *version, true);
            bench.commit(object.id(), *version);
        }
        assert_eq!(bench.log.statistics().fallbacks, fallbacks);
        assert!(used.log_len() > before.0);
        assert_eq!(log.log_len() > before.1, std::ptr::eq(used, &**log));
    };
    commits(&mut version, log);
    log.inject(Fault::everywhere(kind, Times::Always));
    let before = bench.log.statistics().fallbacks;
    version += 1;
    bench.write(&object, version, true);
    bench.commit(object.id(), version);
    assert!(bench.log.statistics().fallbacks > before);
    until_logged(&bench, &object, &mut version);
    commits(&mut version, data);
    let status = bench.pool.status().unwrap();
    assert_eq!(status.suspended, None);
    assert_eq!(status.condition.state, VdevState::Degraded);
    assert!(!status.root.children[1].condition.state.is_usable());
    let failed = bench.timeline.now();
    log.heal();
    bench.pool.clear(&|_| true).unwrap();
    bench.pool.sync().unwrap();
    let status = bench.pool.status().unwrap();
    assert_eq!(status.condition.state, VdevState::Healthy);
    for _ in 0..3 {
        // The tail of the chain is still where it was.
        until_logged(&bench, &object, &mut version);
        bench.pool.sync().unwrap();
    }
    commits(&mut version, log);
    let folder = tempfile::tempdir().unwrap();
    for (moment, survivors) in [(failed, seed), (u64::MAX, seed)] {
        check(&bench, moment, survivors, folder.path(), true);
    }
}

#[test]
fn a_log_device_that_refuses_writes_is_done_without() {
    lose_log_device(11, FaultKind::WriteError);
}

#[test]
fn a_log_device_that_fails_its_flush_is_done_without() {
    lose_log_device(12, FaultKind::FlushError);
}

/// One side of a mirrored log fails: nobody notices.
#[test]
fn a_side_of_a_mirrored_log_may_fail() {
    let bench = Bench::new(13, 2);
    let (object, mut version) = logged_object(&bench);
    bench.disks[2].inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    let before = bench.log.statistics().fallbacks;
    for _ in 0..10 {
        version += 1;
        bench.write(&object, version, true);
        bench.commit(object.id(), version);
    }
    assert_eq!(bench.log.statistics().fallbacks, before);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, u64::MAX, 13, folder.path(), true);
}

/// The log cannot be written once: the commit takes the way of the txg, and the next chain works.
#[test]
fn a_log_that_cannot_be_written_gives_way_to_the_txg() {
    let bench = Bench::new(9, 0);
    bench.log.commit_all().unwrap();
    let folder = tempfile::tempdir().unwrap();
    // One block of the log: of several that are written together each is tried again by itself.
    let mut objects = (0..LENGTHS.len()).map(|_| bench.create());
    let is_small = |object: &Arc<Object>| (object.id().0 as usize).is_multiple_of(LENGTHS.len());
    let object = objects.find(is_small).unwrap();
    let mut version = 0;
    until_logged(&bench, &object, &mut version);
    for _ in 0..3 {
        version += 1;
        bench.write(&object, version, version % 2 == 0);
        let before = bench.log.statistics();
        let fault = Fault::everywhere(FaultKind::WriteError, Times::Count(1));
        bench.disks[0].inject(fault);
        bench.commit(object.id(), version);
        let after = bench.log.statistics();
        assert_eq!(after.fallbacks, before.fallbacks + 1);
        check(&bench, u64::MAX, version, folder.path(), false);
        until_logged(&bench, &object, &mut version);
    }
    check(&bench, u64::MAX, version, folder.path(), true);
}

/// The devices are gone: commits fail, promptly, and go on where they were once the pool is cleared.
#[test]
fn a_suspended_pool_commits_nothing_and_loses_nothing() {
    let bench = Bench::new(15, 0);
    let (object, mut version) = logged_object(&bench);
    bench.disks[0].inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    version += 1;
    bench.write(&object, version, true);
    bench.log.commit(object.id()).unwrap_err();
    assert!(bench.pool.suspended().is_some());
    bench.disks[0].heal();
    bench.pool.clear(&|_| true).unwrap();
    bench.commit(object.id(), version);
    until_logged(&bench, &object, &mut version);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, u64::MAX, version, folder.path(), true);
}

/// An export that the devices refuse half-way leaves the pool open, with its logs and its scrub at work.
#[test]
fn an_export_that_fails_ends_nothing() {
    let bench = Bench::new(16, 0);
    let (object, mut version) = logged_object(&bench);
    bench.pool.start_scrub().unwrap();
    bench.pool.pause_scrub().unwrap();
    let away = Fault::everywhere(FaultKind::FlushError, Times::Always);
    bench.disks[0].inject(away);
    bench.pool.export().unwrap_err();
    bench.disks[0].heal();
    bench.pool.clear(&|_| true).unwrap();
    until_logged(&bench, &object, &mut version);
    bench.pool.start_scrub().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while bench
        .pool
        .scan()
        .unwrap()
        .is_some_and(|scan| scan.is_running())
    {
        assert!(Instant::now() < patience, "nobody scrubs");
        std::thread::sleep(Duration::from_millis(10));
    }
    let folder = tempfile::tempdir().unwrap();
    check(&bench, u64::MAX, version, folder.path(), true);
}
