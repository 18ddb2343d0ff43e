//! Random histories against the model: live, after export and import, and judged by zdb.

use millpond_torture::aftermath;
use millpond_torture::comparison;
use millpond_torture::operation::Chooser;
use millpond_torture::pool_model::PoolModel;
use millpond_torture::pool_model::choose::ChangeChooser;
use millpond_torture::pool_model::real::differences;
use millpond_torture::random::seed;
use millpond_torture::test_pool::{POOL, TestPool, image, run_change, run_operations, size};
use millpond_torture::tunables;
use pool::NewDevice;
use std::path::Path;

const SIZE: u64 = 768 << 20;

fn new_devices(folder: &Path, count: usize, seed: u64) -> Vec<NewDevice> {
    let size = size(SIZE, seed);
    (0..count)
        .map(|index| {
            let path = image(folder, &format!("{index}"));
            std::fs::File::create(&path).unwrap().set_len(size).unwrap();
            NewDevice::Path(path)
        })
        .collect()
}

/// Operations of a round.
const OPERATIONS: usize = 100;

/// How a history goes.
struct Plan {
    /// Sides of the mirror.
    devices: usize,
    /// How often it is exported and imported.
    rounds: usize,
    /// Larger blocks are stored in pieces.
    whole_block_max: Option<u64>,
    /// Encrypted in any case; else if the seed says so.
    encrypted: bool,
}

impl Plan {
    const PLAIN: Self = Self {
        devices: 1,
        rounds: 3,
        whole_block_max: None,
        encrypted: false,
    };
}

/// Rounds of operations on files and, one in four, on datasets; after each round the pool is compared with the model
/// as it is, judged by zdb, imported and compared again.
fn history(seed: u64, plan: &Plan) {
    history_with(seed, plan, &|| {});
}

/// The same; `limit` sets limits that it is about, the others are drawn.
fn history_with(seed: u64, plan: &Plan, limit: &dyn Fn()) {
    let Plan {
        devices, rounds, ..
    } = *plan;
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test histories");
    let _limits = tunables::drawn(seed);
    limit();
    let folder = tempfile::tempdir().unwrap();
    let devices = new_devices(folder.path(), devices, seed);
    let mut test_pool = if plan.encrypted {
        TestPool::create_encrypted(devices, seed).unwrap()
    } else {
        TestPool::create_drawn(devices, seed).unwrap()
    };
    let mut pool_model = PoolModel::new(POOL);
    test_pool.draw_storage(seed, false, Some(&mut pool_model));
    let (mut files, mut changes) = (Chooser::new(seed), ChangeChooser::new(seed));
    for round in 0..rounds {
        if let Some(bytes) = plan.whole_block_max {
            test_pool.pool.set_whole_block_max(bytes);
        }
        for _ in 0..OPERATIONS {
            if changes.one_in(4) {
                run_change(&test_pool, &mut pool_model, &mut changes);
                continue;
            }
            let path = changes.head(&pool_model);
            let system = test_pool.system(&path);
            run_operations(&system, pool_model.tree_mut(&path), &mut files, 1);
        }
        let same = |test_pool: &TestPool, when: &str| {
            let found = differences(&pool_model, test_pool).unwrap();
            assert!(
                found.is_empty(),
                "round {round}, {when}:\n{}",
                found.join("\n")
            );
            test_pool.pool.sync().unwrap();
            let (found, compared) = comparison::differences(&pool_model, test_pool);
            assert!(
                found.is_empty(),
                "round {round}, {when}, {compared} compared:\n{}",
                found.join("\n")
            );
        };
        same(&test_pool, "live");
        aftermath::export(test_pool, folder.path());
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), POOL);
        }
        test_pool = TestPool::import(folder.path(), false).unwrap();
        same(&test_pool, "imported");
    }
}

#[test]
fn a_random_history_on_one_device() {
    history(seed(1), &Plan::PLAIN);
}

#[test]
fn a_random_history_on_a_mirror() {
    let plan = Plan {
        devices: 2,
        ..Plan::PLAIN
    };
    history(seed(2), &plan);
}

#[test]
fn a_random_history_with_blocks_in_pieces() {
    let plan = Plan {
        whole_block_max: Some(4096),
        ..Plan::PLAIN
    };
    history(seed(3), &plan);
}

/// Also the blocks above the data, and the smallest that can be cut: zdb reads the headers of all.
#[test]
fn a_random_history_with_encrypted_blocks_in_pieces() {
    let plan = Plan {
        rounds: 1,
        whole_block_max: Some(512),
        encrypted: true,
        ..Plan::PLAIN
    };
    history(seed(4), &plan);
}

/// Two metaslabs loaded at most beside those that are worked on, and none: each allocation that changes its place and
/// each map that is brought up to date loads, each end of a txg unloads.
#[test]
fn random_histories_with_hardly_a_metaslab_loaded() {
    let limits = [
        &space::tunables::LOADED_COUNT,
        &space::tunables::LOADED_AHEAD_COUNT,
        &space::tunables::ALLOCATORS_COUNT,
        &space::tunables::UNFLUSHED_RANGES_COUNT,
    ];
    for (number, values) in [[0, 0, 3, 0], [2, 1, 2, 100]].into_iter().enumerate() {
        history_with(seed(4) + number as u64, &Plan::PLAIN, &|| {
            for (limit, value) in limits.iter().zip(values) {
                limit.set(value);
            }
        });
    }
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        #[test]
        #[ignore = "torture: many histories"]
        fn many_histories() {
            let first = super::super::seed(100);
            for seed in first..first + 60 {
                let plan = super::super::Plan {
                    devices: 1 + usize::from(seed % 5 == 4),
                    whole_block_max: (seed % 3 == 2).then_some(512 << (seed % 7)),
                    rounds: 3,
                    encrypted: false,
                };
                super::super::history(seed, &plan);
            }
        }
    }
}
