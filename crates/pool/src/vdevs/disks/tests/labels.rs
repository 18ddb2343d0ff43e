//! Crashes among the labels of a txg: which devices the pool has then is for the state that its uberblock leads to.

use super::*;

/// Of pools on files.
const ASHIFT: u32 = 9;

/// An uberblock of that txg comes to all labels of an image.
fn give_uberblock(path: &Path, txg: Txg) {
    let device = FileDevice::open(path, Access::ReadWrite).unwrap();
    let best = vdev::read_labels(&device).best_uberblock(None).copied();
    let new = Uberblock {
        txg,
        ..best.unwrap().uberblock
    };
    for label in 0..format::label::COUNT {
        let start = format::label::offset(SIZE, label).unwrap();
        let slot = format::label::slot_of(txg, ASHIFT, false);
        let at = start + format::label::slot_offset(slot, ASHIFT);
        let piece = format::label::encode_uberblock(&new, ASHIFT, at);
        device.write(at, &piece).unwrap();
    }
}

/// A pool as a crash leaves it between the labels of a txg and its uberblock: `before` with the configurations that
/// `after` has in labels 0 and 2.
fn cut_before_the_uberblock(before: &Path, after: &Path, names: &[&str]) -> tempfile::TempDir {
    let cut = tempfile::tempdir().unwrap();
    for name in names {
        let image = cut.path().join(name);
        std::fs::copy(before.join(name), &image).unwrap();
        for label in [0, 2] {
            copy_label(&after.join(name), &image, label);
        }
    }
    cut
}

#[test]
fn a_device_that_only_the_newest_labels_lack_is_part_of_the_pool() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vdev = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 37);
    churn.run(&pool, 2);
    pool.sync().unwrap();
    let before = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        std::fs::copy(folder.join(name), before.path().join(name)).unwrap();
    }
    pool.detach_device(leaf(&pool, "b")).unwrap();
    crash(pool);
    // Labels of `a` say that it is alone, and the state of before has both.
    let cut = cut_before_the_uberblock(before.path(), folder, &["a"]);
    let cut = cut.path();
    std::fs::copy(before.path().join("b"), cut.join("b")).unwrap();
    let mut to_read = options(cut).read_only();
    to_read.force = true;
    let pool = Pool::import(&to_read).unwrap();
    let conditions = |pool: &Pool| {
        let leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
        leaves
            .map(|leaf| leaf.condition())
            .collect::<Vec<Condition>>()
    };
    assert_eq!(conditions(&pool), [Condition::HEALTHY; 2]);
    drop(pool);
    let pool = import_crashed(cut);
    assert_eq!(shape(&pool), "mirror(a b)");
    assert_eq!(conditions(&pool), [Condition::HEALTHY; 2]);
    let mut leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    assert!(leaves.all(|leaf| leaf.missing().is_empty()));
    drop(leaves);
    churn.check(&pool);
    churn.run(&pool, 1);
    close(pool, cut);
    // It has everything.
    std::fs::remove_file(cut.join("a")).unwrap();
    let pool = import(cut);
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_device_that_went_on_alone_is_not_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vdev = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 41);
    churn.run(&pool, 2);
    pool.sync().unwrap();
    let (before, alone) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for name in ["a", "b"] {
        std::fs::copy(folder.join(name), before.path().join(name)).unwrap();
    }
    std::fs::copy(folder.join("b"), alone.path().join("b")).unwrap();
    pool.detach_device(leaf(&pool, "b")).unwrap();
    let txg = pool.writer().unwrap().syncer.last.get().txg;
    crash(pool);
    // Its uberblocks are newer, and its labels are as they were.
    let newer = alone.path().join("b");
    give_uberblock(&newer, Txg(txg.0 + 100));
    let cut = cut_before_the_uberblock(before.path(), folder, &["a"]);
    let cut = cut.path();
    std::fs::copy(&newer, cut.join("b")).unwrap();
    let pool = import_crashed(cut);
    let b = leaf(&pool, "b");
    let leaves = crate::vdevs::dtl::leaves(&pool.vdevs);
    let other = leaves.iter().find(|leaf| leaf.guid() == b).unwrap();
    assert_eq!(other.condition().state, VdevState::CantOpen);
    drop(leaves);
    churn.check(&pool);
    pool.export().unwrap();
}

/// A copy of an image lies beside it: what the list shows is what is opened, the one that was written last.
#[test]
fn of_copies_of_a_device_the_newest_one_is_the_pools() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vdev = NewVdev::Single(file(folder, "b"));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 61);
    churn.run(&pool, 1);
    pool.export().unwrap();
    drop(pool);
    let opened = || {
        let listed = discover::discover(&[folder.to_owned()]).unwrap();
        let [listed] = &listed[..] else {
            panic!("{} pools", listed.len());
        };
        let shown = listed.config.root.leaves()[0].path().unwrap().to_owned();
        let devices: Vec<_> = listed
            .devices
            .iter()
            .map(|device| device.path.clone())
            .collect();
        let pool = import(folder);
        let leaf = crate::vdevs::dtl::leaves(&pool.vdevs).remove(0);
        assert_eq!(devices, [PathBuf::from(&*leaf.path())], "shown {shown}");
        (pool, leaf.path().rsplit('/').next().unwrap().to_owned())
    };
    for copy in ["a", "c"] {
        std::fs::copy(folder.join("b"), folder.join(copy)).unwrap();
    }
    // Where all are the same the first one is: from now on it is the newest.
    for _ in 0..2 {
        let (pool, name) = opened();
        assert_eq!(name, "a");
        churn.run(&pool, 1);
        pool.export().unwrap();
    }
    std::fs::rename(folder.join("a"), folder.join("d")).unwrap();
    let (pool, name) = opened();
    assert_eq!(name, "d");
    churn.check(&pool);
    pool.export().unwrap();
}
