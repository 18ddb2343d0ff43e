//! Log devices that are taken out of use while commits are acknowledged, and come back: a crash at any moment loses
//! nothing, and while they are out of use nobody needs them.

use super::*;
use base::Guid;
use pool::{OutOfUse, PoolError};

/// How the devices go.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// One device, or a mirror of two.
    logs: usize,
    faulted: bool,
}

fn log_leaves(pool: &Pool) -> Vec<Guid> {
    let mut tops = pool.vdevs().tops();
    tops.retain(|top| top.config().is_log);
    let leaves = tops.iter().flat_map(|top| top.leaves());
    leaves.map(|leaf| leaf.guid()).collect()
}

fn acknowledged(bench: &Bench) -> usize {
    bench.acknowledged.lock().unwrap().len()
}

/// Waits until so many more commits were acknowledged, or nobody commits any more.
fn until_committed(bench: &Bench, more: usize, working: &AtomicU64) {
    let before = acknowledged(bench);
    while acknowledged(bench) < before + more && working.load(Ordering::Relaxed) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Takes all devices out and brings them back beside threads that commit. Answers the moments between which they are
/// not needed.
fn out_and_back(bench: &Bench, seed: u64, shape: Shape) -> (u64, u64) {
    const THREADS: u64 = 3;
    let working = AtomicU64::new(THREADS);
    let how = OutOfUse {
        faulted: shape.faulted,
        temporary: false,
    };
    let pool = &bench.pool;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let working = &working;
            scope.spawn(move || {
                bench.work(seed * 100 + thread, 60);
                working.fetch_sub(1, Ordering::Relaxed);
            });
        }
        until_committed(bench, 20, &working);
        for leaf in log_leaves(pool) {
            pool.take_out(leaf, how).unwrap();
        }
        let from = bench.timeline.now();
        until_committed(bench, 30, &working);
        let to = bench.timeline.now();
        if shape.faulted {
            pool.clear(&|_| true).unwrap();
        }
        for leaf in log_leaves(pool) {
            assert!(pool.bring_online(leaf).unwrap().state.is_usable());
        }
        (from, to)
    })
}

fn explore_out_of_use(seed: u64, shape: Shape, points: usize) {
    println!(
        "{shape:?}, repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test log"
    );
    let _limits = millpond_torture::tunables::drawn(seed);
    let bench = Bench::hesitant(seed, shape.logs);
    let (object, mut version) = logged_object(&bench);
    let first = bench.timeline.now();
    let (from, to) = out_and_back(&bench, seed, shape);
    let log = &bench.disks[1];
    let before = log.log_len();
    for _ in 0..3 {
        devices::until_logged(&bench, &object, &mut version);
        bench.pool.sync().unwrap();
    }
    devices::until_logged(&bench, &object, &mut version);
    assert!(log.log_len() > before, "the log device is not used again");
    let last = bench.timeline.now();
    let commits: Vec<u64> = {
        let all = bench.acknowledged.lock().unwrap();
        all.iter().map(|(events, ..)| *events).collect()
    };
    let (mut random, mut without) = (Random::new(seed), 0);
    for point in 0..points {
        let moment = match point % 3 {
            0 => *random.pick(&commits),
            1 => first + random.draw() % (last - first + 1),
            _ => from + random.draw() % (to - from + 1),
        };
        let folder = tempfile::tempdir().unwrap();
        let is_needed = !(from..=to).contains(&moment);
        println!("crash point {point}: {moment} of {first} to {last}, {from} to {to} without");
        if is_needed && random.one_in(2) {
            check(&bench, moment, random.draw(), folder.path(), point % 4 == 0);
            continue;
        }
        bench.crash(moment, random.draw(), folder.path());
        for index in 1..=shape.logs {
            let path = image(folder.path(), &format!("crashed{index}"));
            std::fs::remove_file(path).unwrap();
        }
        if is_needed {
            // Where the import does without all the same, there is nothing on them.
            let imported = TestPool::import(folder.path(), false).map(drop);
            match imported {
                Err(PoolError::MissingLogs { .. }) => {}
                Err(error) => panic!("{error}"),
                Ok(()) => without += check_images(&bench, moment, folder.path()).min(1),
            }
            continue;
        }
        check_images(&bench, moment, folder.path());
        without += 1;
    }
    println!("{without} crash points without the log devices");
    assert!(without > 0 || points < 3);
    let folder = tempfile::tempdir().unwrap();
    check(&bench, u64::MAX, seed, folder.path(), true);
}

const SHAPES: [Shape; 4] = [
    Shape {
        logs: 1,
        faulted: false,
    },
    Shape {
        logs: 2,
        faulted: false,
    },
    Shape {
        logs: 1,
        faulted: true,
    },
    Shape {
        logs: 2,
        faulted: true,
    },
];

#[test]
fn what_was_committed_survives_log_devices_going_out_of_use() {
    for (run, shape) in SHAPES.into_iter().enumerate() {
        explore_out_of_use(seed(41) + run as u64, shape, 6);
    }
}

/// What nobody has replayed yet may lie on the device: it stays.
#[test]
fn a_log_device_that_a_replay_needs_is_not_taken_out() {
    let bench = Bench::new(45, 1);
    let (object, mut version) = logged_object(&bench);
    version += 1;
    bench.write(&object, version, true);
    bench.commit(object.id(), version);
    let folder = tempfile::tempdir().unwrap();
    bench.crash(u64::MAX, 45, folder.path());
    let test_pool = TestPool::import(folder.path(), false).unwrap();
    let [leaf] = log_leaves(&test_pool.pool)[..] else {
        panic!("one log device");
    };
    for faulted in [false, true] {
        let how = OutOfUse {
            faulted,
            temporary: false,
        };
        let refused = test_pool.pool.take_out(leaf, how).unwrap_err();
        assert!(matches!(refused, PoolError::Invalid { .. }), "{refused}");
    }
    let log = open_log(&test_pool);
    let replayed = log.replay(&mut Objects::of(&test_pool, &log)).unwrap();
    verify(&bench, &log, u64::MAX, &replayed);
    drop(log);
    let how = OutOfUse {
        faulted: false,
        temporary: false,
    };
    test_pool.pool.take_out(leaf, how).unwrap();
    test_pool.export().unwrap();
}

mod sim_runs {
    /// Modules of long tests are named after their level.
    mod sim {
        use super::super::{SHAPES, explore_out_of_use, seed};

        #[test]
        #[ignore = "sim: 160 crash points"]
        fn log_devices_out_of_use() {
            for run in 0..16 {
                explore_out_of_use(seed(4100) + run, SHAPES[run as usize % 4], 10);
            }
        }
    }
}
