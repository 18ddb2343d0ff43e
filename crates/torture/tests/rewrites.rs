//! Blocks that are written anew and keep their logical births: under snapshots, clones, rollbacks and removals,
//! contents are compared with a model, and each block on the devices has one owner at every export. OpenZFS 2.3, which
//! does not know them, is no judge.

use base::ObjectId;
use format::features::PHYSICAL_REWRITE;
use millpond_torture::operation::Chooser;
use millpond_torture::pool_model::PoolModel;
use millpond_torture::pool_model::choose::ChangeChooser;
use millpond_torture::pool_model::real::differences;
use millpond_torture::random::{Random, asked, seed, seeds};
use millpond_torture::test_pool::{POOL, TestPool, image, run_change, run_operations};
use millpond_torture::{aftermath, tunables};
use pool::NewDevice;
use posix::{Credentials, FileSystem, FileType, Rewrite};
use std::path::Path;

const SIZE: u64 = 768 << 20;
/// Files beyond this object are left alone.
const OBJECTS: u64 = 300;

/// A pool that has the feature enabled, as no new one has by itself.
fn create(folder: &Path, seed: u64) -> TestPool {
    let path = image(folder, "0");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(SIZE).unwrap();
    let devices = vec![NewDevice::Path(path)];
    let made = match Random::new(seed ^ 0xA11).one_in(3) {
        true => TestPool::create_encrypted(devices, seed),
        false => TestPool::create(devices),
    };
    let test_pool = made.unwrap();
    let features = test_pool.pool.features();
    assert_eq!(features.references(&PHYSICAL_REWRITE), None);
    test_pool
        .pool
        .enable_features(&[&PHYSICAL_REWRITE])
        .unwrap();
    test_pool
}

/// Writes some files anew.
fn rewrite(system: &FileSystem, random: &mut Random) {
    let who = Credentials::root();
    let (first, step) = (random.below(4) as u64, 1 + random.below(4) as u64);
    let kind = match random.one_in(5) {
        true => Rewrite::Logical,
        false => Rewrite::Physical,
    };
    let mut object = first;
    while object < OBJECTS {
        let found = system.getattr(ObjectId(object));
        if found.is_ok_and(|found| found.file_type == FileType::Regular) {
            let start = random.below(200_000) as u64 * random.below(2) as u64;
            let end = match random.one_in(2) {
                true => u64::MAX,
                false => start + random.below(300_000) as u64,
            };
            let done = system.rewrite(&who, ObjectId(object), start..end, kind);
            // Immutable files stay.
            let _refused = done;
        }
        object += step;
    }
}

fn as_modelled(pool_model: &PoolModel, test_pool: &TestPool, when: &str) {
    let found = differences(pool_model, test_pool).unwrap();
    assert!(found.is_empty(), "{when}:\n{}", found.join("\n"));
}

/// The most datasets that were counted for the feature.
fn history(seed: u64, rounds: usize, repeat: &str) -> u64 {
    println!(
        "repeat with: MILLPOND_SEED={seed} MILLPOND_SECONDS=1 cargo test --profile fast -p millpond-torture --test \
         rewrites -- --nocapture {repeat}"
    );
    let _limits = tunables::drawn(seed);
    let mut random = Random::new(seed);
    let folder = tempfile::tempdir().unwrap();
    let mut test_pool = create(folder.path(), seed);
    let mut pool_model = PoolModel::new(POOL);
    let (mut changes, mut chooser) = (ChangeChooser::new(seed), Chooser::new(seed));
    let mut counted = 0;
    for round in 0..rounds {
        for _ in 0..40 {
            if random.one_in(3) {
                run_change(&test_pool, &mut pool_model, &mut changes);
            }
            let path = changes.head(&pool_model);
            let system = test_pool.system(&path);
            let count = random.below(12);
            run_operations(&system, pool_model.tree_mut(&path), &mut chooser, count);
            if random.one_in(2) {
                rewrite(&system, &mut random);
            }
            if random.one_in(3) {
                test_pool.pool.sync().unwrap();
            }
        }
        as_modelled(&pool_model, &test_pool, "live");
        let references = test_pool.pool.features().references(&PHYSICAL_REWRITE);
        counted = counted.max(references.unwrap());
        aftermath::export(test_pool, folder.path());
        println!("round {round} of seed {seed}: {references:?} datasets have such blocks");
        test_pool = TestPool::import(folder.path(), false).unwrap();
        as_modelled(&pool_model, &test_pool, "imported");
    }
    counted
}

#[test]
fn a_random_history_of_blocks_written_anew() {
    let counted = seeds(1..3).map(|seed| history(seed, 2, "a_random_history"));
    assert!(counted.max() > Some(1), "nothing was written anew");
}

/// For as long as `MILLPOND_SECONDS` says.
#[test]
#[ignore = "takes as long as it is told to"]
fn random_histories_of_blocks_written_anew() {
    let start = std::time::Instant::now();
    let seconds = asked("MILLPOND_SECONDS").unwrap_or(60);
    let mut seed = seed(1000);
    while start.elapsed().as_secs() < seconds {
        history(seed, 4, "--ignored random_histories");
        seed += 1;
    }
}
