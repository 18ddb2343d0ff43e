use millpond_posix::{DatasetProperties, MountOptions, NewFileSystem, XattrStore};
use torture::model::Tree;
use torture::operation::Chooser;
use torture::real;

use crate::store::MemoryPool;

fn run(seed: u64, steps: usize, version: u64, xattr: XattrStore) {
    let new = NewFileSystem {
        version,
        ..NewFileSystem::default()
    };
    let properties = DatasetProperties {
        xattr,
        ..DatasetProperties::default()
    };
    let mut pool = MemoryPool::new(new, properties, MountOptions::default());
    let mut chooser = Chooser::new(seed);
    let mut tree = Tree::new();
    for step in 0..steps {
        let operation = chooser.next(&tree);
        let wanted = tree.apply(&operation);
        let found = real::apply(&pool.fs, &operation);
        let same = match (&wanted, &found) {
            (Ok(()), Ok(())) => true,
            (Err(refusal), Err(error)) => real::errno(*refusal) == error.errno(),
            _ => false,
        };
        assert!(
            same,
            "seed {seed}, step {step}: {operation:?}: model {wanted:?}, real {found:?}"
        );
        if step % 400 == 399 {
            pool.remount(true);
            let differences = real::differences(&tree, &pool.fs);
            assert_eq!(
                differences,
                Vec::<String>::new(),
                "seed {seed}, step {step}"
            );
        } else if step % 100 == 99 {
            pool.sync();
        }
    }
    assert_eq!(
        real::differences(&tree, &pool.fs),
        Vec::<String>::new(),
        "seed {seed}"
    );
    pool.remount(true);
    assert_eq!(
        real::differences(&tree, &pool.fs),
        Vec::<String>::new(),
        "seed {seed}"
    );
}

#[test]
fn random_histories_agree_with_the_model() {
    for seed in 0..4 {
        run(seed, 1200, 5, XattrStore::SystemAttribute);
    }
}

#[test]
fn so_they_do_with_attributes_in_directories() {
    run(100, 1200, 5, XattrStore::Directory);
}

#[test]
fn so_they_do_in_old_file_systems() {
    for version in 1..=4 {
        run(200 + version, 800, version, XattrStore::SystemAttribute);
    }
}
