//! The model test: several threads do everything that files know in several file systems of one pool, while datasets
//! are created, snapshotted, cloned, promoted, renamed, rolled back and destroyed under them. Compared with the model
//! live, after export and import, and after power losses.

use millpond_torture::aftermath;
use millpond_torture::crowd::{Director, Plan};
use millpond_torture::hesitant;
use millpond_torture::operation::Limits;
use millpond_torture::pool_model::PoolModel;
use millpond_torture::random::{Random, asked, seed, seeds};
use millpond_torture::test_pool::{POOL, TestPool, image, size};
use millpond_torture::tunables;
use pool::NewDevice;
use sim::SimulatedDisk;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 768 << 20;
/// Of pools whose disk loses power: every event is kept in memory.
const SMALL_SIZE: u64 = 128 << 20;

/// Sums over all histories.
#[derive(Default)]
struct Tally {
    operations: u64,
    changes: u64,
    imports: u64,
    /// Pairs of states whose differences were compared.
    compared: usize,
    power_losses: u64,
}

impl Tally {
    fn add(&mut self, director: &Director) {
        let (operations, changes) = director.counts();
        self.operations += operations;
        self.changes += changes;
    }
}

fn no_events() -> Box<dyn Fn() -> usize + Send + Sync> {
    Box::new(|| 0)
}

fn same(director: &mut Director, when: &str, tally: &mut Tally) {
    let found = director.differences();
    assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
    tally.compared += director.compared();
}

fn judge_by_zdb(folder: &Path) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, POOL);
    }
}

/// Rounds on a pool in a file: compared live, and after each export and import.
fn rounds(
    (mut test_pool, mut pool_model): (TestPool, PoolModel),
    folder: &Path,
    (seed, workers, turns): (u64, usize, usize),
    tally: &mut Tally,
) {
    let mut random = Random::new(seed);
    // Larger blocks are stored in pieces.
    let whole_block_max = random.one_in(3).then(|| 512 << random.below(8));
    for round in 0..1 + random.below(2) as u64 {
        let plan = Plan {
            workers,
            turns,
            limits: Limits {
                file_bytes: *random.pick(&[5_000, 60_000, 600_000]),
                names: *random.pick(&[20, 60, 150]),
                unnamed: true,
                synchronous: true,
            },
            remembers: false,
        };
        println!("round {round}: {plan:?}");
        if let Some(bytes) = whole_block_max {
            println!("blocks above {bytes} bytes in pieces");
            test_pool.pool.set_whole_block_max(bytes);
        }
        let mut director = Director::new(test_pool, pool_model, (seed + round, plan), no_events());
        director.run(round);
        same(&mut director, "live", tally);
        tally.add(&director);
        (test_pool, pool_model) = director.finish();
        aftermath::export(test_pool, folder);
        if random.one_in(4) {
            judge_by_zdb(folder);
        }
        test_pool = TestPool::import(folder, false).unwrap();
        tally.imports += 1;
        let mut director = Director::new(test_pool, pool_model, (seed + round, plan), no_events());
        same(&mut director, "imported", tally);
        (test_pool, pool_model) = director.finish();
    }
    test_pool.export().unwrap();
}

fn in_a_file(seed: u64, turns: usize, tally: &mut Tally) {
    let folder = tempfile::tempdir().unwrap();
    let path = image(folder.path(), "0");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(size(SIZE, seed)).unwrap();
    let test_pool = TestPool::create(vec![NewDevice::Path(path)]).unwrap();
    let mut pool_model = PoolModel::new(POOL);
    test_pool.draw_storage(seed, false, Some(&mut pool_model));
    let state = (test_pool, pool_model);
    let workers = 1 + Random::new(seed).below(4);
    rounds(state, folder.path(), (seed, workers, turns), tally);
}

/// A pool on a disk that loses power at some moments; after the last the work goes on.
fn with_power_losses(seed: u64, turns: usize, tally: &mut Tally) {
    const LOSSES: usize = 4;
    let mut random = Random::new(seed ^ 0x1055);
    let disk = Arc::new(SimulatedDisk::new(SMALL_SIZE, seed));
    let device = NewDevice::Open(
        "/simulated/disk".into(),
        hesitant::device(Arc::clone(&disk) as _, seed),
    );
    let test_pool = TestPool::create(vec![device]).unwrap();
    let plan = Plan {
        workers: 1 + random.below(5),
        turns,
        limits: Limits {
            file_bytes: *random.pick(&[5_000, 60_000]),
            names: *random.pick(&[20, 60]),
            unnamed: random.one_in(2),
            synchronous: true,
        },
        remembers: true,
    };
    println!("{plan:?}");
    let mut pool_model = PoolModel::new(POOL);
    test_pool.draw_storage(seed, false, Some(&mut pool_model));
    let events = Arc::clone(&disk);
    let mut director = Director::new(
        test_pool,
        pool_model,
        (seed, plan),
        Box::new(move || events.log_len()),
    );
    let first = disk.log_len();
    director.run(0);
    let last = disk.log_len();
    same(&mut director, "live", tally);
    tally.add(&director);
    let folder = tempfile::tempdir().unwrap();
    for loss in 0..LOSSES {
        let (event, survivors) = (first + random.below(last - first + 1), random.draw());
        println!("power loss {loss}: event {event} of {first} to {last}, survivors {survivors}");
        let path = image(folder.path(), "crashed");
        let _ = std::fs::remove_file(&path);
        let crashed = disk.crash_at(event, survivors);
        crashed.write_to_file(&path).unwrap();
        let test_pool = TestPool::import(folder.path(), false).unwrap();
        tally.power_losses += 1;
        let pool_model = match director.judge(&test_pool, event) {
            Ok(pool_model) => pool_model,
            Err(lines) => panic!("{}", lines.join("\n")),
        };
        if loss == LOSSES - 1 {
            rounds(
                (test_pool, pool_model),
                folder.path(),
                (seed, plan.workers, turns),
                tally,
            );
        } else {
            aftermath::export(test_pool, folder.path());
            if loss == 0 && random.one_in(4) {
                judge_by_zdb(folder.path());
            }
        }
    }
}

/// A history of a seed; the turns of each worker, so that a failure can be made shorter.
fn history(seed: u64, turns: usize, tally: &mut Tally) {
    println!(
        "repeat with: MILLPOND_SEED={seed} MILLPOND_TURNS={turns} cargo test --profile fast -p millpond-torture \
         --test model -- --nocapture a_history"
    );
    let _limits = tunables::drawn_but(seed, tunables::CALLS_WHOLE);
    match seed % 2 {
        0 => in_a_file(seed, turns, tally),
        _ => with_power_losses(seed, turns, tally),
    }
}

/// A history in a file and one with power losses, or those of one seed.
#[test]
fn a_history() {
    let turns = asked("MILLPOND_TURNS").unwrap_or(80) as usize;
    for seed in seeds(0..2) {
        history(seed, turns, &mut Tally::default());
    }
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        use super::super::{Duration, Instant, Tally, asked, history, seed};

        /// `MILLPOND_SECONDS` (60) of histories, from `MILLPOND_SEED` (1000) on.
        #[test]
        #[ignore = "torture: histories one after the other"]
        fn histories() {
            let time = Duration::from_secs(asked("MILLPOND_SECONDS").unwrap_or(60));
            let turns = asked("MILLPOND_TURNS").unwrap_or(600) as usize;
            let (begun, mut tally) = (Instant::now(), Tally::default());
            let mut seed = seed(1000);
            while begun.elapsed() < time {
                history(seed, turns, &mut tally);
                seed += 1;
            }
            println!(
                "seeds to {seed}: {} operations, {} changes of datasets, {} imports, {} power losses, {} pairs of \
                 states compared, 0 differences",
                tally.operations, tally.changes, tally.imports, tally.power_losses, tally.compared
            );
        }
    }
}
