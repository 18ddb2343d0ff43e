//! Mirrors whose sides come and go while a log is owed: what was acknowledged is resilvered like everything else.

use super::*;

/// A pool on a mirror, or one whose log is on a mirror, and the two sides of it.
pub(crate) fn mirrored(seed: u64, is_log: bool) -> (Bench, [usize; 2]) {
    if is_log {
        return (Bench::new(seed, 2), [1, 2]);
    }
    let timeline = Timeline::new();
    let disks: Vec<_> = (0..2)
        .map(|index| {
            Arc::new(SimulatedDisk::on_timeline(
                SIZE,
                seed * 10 + index,
                &timeline,
            ))
        })
        .collect();
    let device = |disk: &Arc<SimulatedDisk>| {
        NewDevice::Open("/simulated/disk".into(), Arc::clone(disk) as _)
    };
    let devices = disks.iter().map(device).collect();
    (Bench::on(devices, Vec::new(), disks, timeline), [0, 1])
}

fn set_checksum_off(bench: &Bench) {
    let change = dsl::PropertyChange::Set(dsl::PropertyValue::Number(2));
    let task = dsl::SetProperties {
        name: POOL.to_owned(),
        changes: vec![("checksum".to_owned(), change)],
    };
    bench.pool.dsl().run(task).unwrap();
}

fn is_whole(pool: &Pool) -> bool {
    let tops = pool.vdevs().tops();
    let mut leaves = tops.iter().flat_map(|top| top.leaves());
    leaves.all(|leaf| leaf.missing().is_empty() && leaf.is_writable())
}

fn until_resilvered(pool: &Arc<Pool>) {
    let start = Instant::now();
    while !is_whole(pool) {
        assert!(
            start.elapsed() < Duration::from_secs(240),
            "{:?}",
            pool.scan()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The second side is away while commits are acknowledged, with or without a txg in between; then comes a crash. The
/// log is claimed, with the side away or back already, and nobody mounts the file system. The side is resilvered, the
/// first goes away for good, and the replay finds what was acknowledged.
fn lose_the_side_that_has_the_log(seed: u64, shape: Shape) {
    println!("{shape:?}");
    let (bench, sides) = mirrored(seed, shape.is_log);
    set_checksum_off(&bench);
    let (object, mut version) = logged_object(&bench);
    let others: Vec<_> = (0..6).map(|_| bench.create()).collect();
    bench.pool.sync().unwrap();
    let away = bench.timeline.now();
    bench.disks[sides[1]].inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    if shape.txg_between {
        bench.pool.sync().unwrap();
        // The chain goes on, or begins again.
        devices::until_logged(&bench, &object, &mut version);
    }
    version += 1;
    for object in others.iter().chain([&object]) {
        bench.write(object, version, object.id().0 % 2 == 0);
        bench.commit(object.id(), version);
    }
    let last = bench.timeline.now();
    let folder = tempfile::tempdir().unwrap();
    bench.crash(last, seed, folder.path());
    let path = |side: usize| image(folder.path(), &format!("crashed{}", sides[side]));
    // What the second side has is of before.
    let second = bench.disks[sides[1]].crash_at_moment(away, seed);
    std::fs::remove_file(path(1)).unwrap();
    if shape.claimed_without {
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        test_pool.export().unwrap();
    }
    second.write_to_file(&path(1)).unwrap();
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    until_resilvered(&test_pool.pool);
    let log = open_log(&test_pool);
    assert!(log.is_owed(), "the commits did not use the log");
    println!("  {:?}", log.objects().intent_log_header());
    drop(log);
    test_pool.export().unwrap();
    std::fs::remove_file(path(0)).unwrap();

    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let log = open_log(&test_pool);
    let replayed = log.replay(&mut Objects::of(&test_pool, &log)).unwrap();
    println!("  {replayed:?}");
    assert_eq!(replayed.failed, None);
    verify(&bench, &log, last, &replayed);
    drop(log);
    test_pool.export().unwrap();
    if let Some(zdb) = golden::Zdb::from_environment().filter(|_| !shape.is_log) {
        zdb.assert_clean(folder.path(), POOL);
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    /// The mirror is a log vdev.
    is_log: bool,
    /// A txg has synced while the side was away.
    txg_between: bool,
    /// The log is claimed while the side is away.
    claimed_without: bool,
}

#[test]
fn a_claimed_log_is_resilvered() {
    for case in 0..4 {
        let shape = Shape {
            is_log: false,
            txg_between: case & 1 != 0,
            claimed_without: case & 2 != 0,
        };
        lose_the_side_that_has_the_log(21 + case, shape);
    }
}

#[test]
fn a_claimed_log_on_a_mirrored_log_device_is_resilvered() {
    for case in 0..4 {
        let shape = Shape {
            is_log: true,
            txg_between: case & 1 != 0,
            claimed_without: case & 2 != 0,
        };
        lose_the_side_that_has_the_log(31 + case, shape);
    }
}
