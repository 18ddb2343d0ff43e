//! Random histories against the model: live, after export and import, and judged by zdb.

use millpond_torture::laboratory::{Laboratory, POOL, image, run_operations};
use millpond_torture::model::Tree;
use millpond_torture::operation::Chooser;
use millpond_torture::real::differences;
use pool::NewDevice;
use std::path::Path;

const SIZE: u64 = 192 << 20;

fn seed(default: u64) -> u64 {
    std::env::var("MILLPOND_SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn new_devices(folder: &Path, count: usize) -> Vec<NewDevice> {
    (0..count)
        .map(|index| {
            let path = image(folder, &format!("{index}"));
            std::fs::File::create(&path).unwrap().set_len(SIZE).unwrap();
            NewDevice::Path(path)
        })
        .collect()
}

fn history(seed: u64, devices: usize, rounds: usize, operations: usize) {
    println!("repeat with: MILLPOND_SEED={seed} cargo test -p millpond-torture --test histories");
    let folder = tempfile::tempdir().unwrap();
    let mut laboratory = Laboratory::create(new_devices(folder.path(), devices)).unwrap();
    let (mut tree, mut chooser) = (Tree::new(), Chooser::new(seed));
    for round in 0..rounds {
        run_operations(&laboratory.system, &mut tree, &mut chooser, operations);
        let found = differences(&tree, &laboratory.system);
        assert!(
            found.is_empty(),
            "round {round}, live:\n{}",
            found.join("\n")
        );
        laboratory.export().unwrap();
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), POOL);
        }
        laboratory = Laboratory::import(folder.path(), false).unwrap();
        let found = differences(&tree, &laboratory.system);
        assert!(
            found.is_empty(),
            "round {round}, imported:\n{}",
            found.join("\n")
        );
    }
}

#[test]
fn a_random_history_on_one_device() {
    history(seed(1), 1, 3, 100);
}

#[test]
fn a_random_history_on_a_mirror() {
    history(seed(2), 2, 3, 100);
}

mod torture_runs {
    /// Modules of long tests are named after their level.
    mod torture {
        #[test]
        #[ignore = "torture: many histories"]
        fn many_histories() {
            for seed in 100..120 {
                super::super::history(seed, 1, 5, 400);
            }
        }
    }
}
