//! Hot spares: they wait, stand in, and go or stay.

use super::*;
use crate::pool::status::VdevRole;

/// A RAID-Z with a spare.
fn with_spare(folder: &Path, seed: u64) -> (Arc<Pool>, Churn) {
    let vdev = NewVdev::RaidZ(1, files(folder, &["a", "b", "c"]));
    let mut options = CreateOptions::new("tank", vec![vdev]);
    options.spares = files(folder, &["s"]);
    let pool = Pool::create(options).unwrap();
    let mut churn = Churn::new(&pool, seed);
    churn.run(&pool, 2);
    (pool, churn)
}

fn path(folder: &Path, name: &str) -> NewDevice {
    NewDevice::Path(folder.join(name))
}

/// The spares: whether each stands in, and whether it is there.
fn spares(pool: &Pool) -> Vec<(bool, bool)> {
    let spares = pool.spares().into_iter();
    spares
        .map(|spare| (spare.is_used, spare.is_there))
        .collect()
}

const WAITS: (bool, bool) = (false, true);
const USED: (bool, bool) = (true, true);

/// The state in the labels of an image: 3 is that of a spare.
fn label_state(folder: &Path, name: &str) -> Option<u64> {
    let path = folder.join(name);
    let device = FileDevice::open(&path, Access::ReadOnly).unwrap();
    let found = discover::labelled(&path, &device)?;
    discover::newest(&found.labels)?.u64(keys::STATE)
}

/// Has the spare stand in for `b`, which is away.
fn stand_in(pool: &Arc<Pool>, churn: &mut Churn, folder: &Path) {
    let b = leaf(pool, "b");
    pool.take_out(b, OFFLINE).unwrap();
    churn.run(pool, 1);
    pool.attach_device(b, &path(folder, "s"), &REPLACE).unwrap();
    assert_eq!(shape(pool), "raidz(a spare(b s) c)");
    assert_eq!(spares(pool), [USED]);
    churn.run(pool, 1);
    wait_whole_but(pool, &["/b"]);
}

fn wait_whole_but(pool: &Pool, away: &[&str]) {
    let leaves = || crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    wait("resilver", || {
        let mut others =
            leaves().filter(|leaf| !away.iter().any(|name| leaf.path().ends_with(name)));
        others.all(|leaf| leaf.missing().is_empty())
    });
    pool.wait_scrub().unwrap();
}

#[test]
fn a_spare_stands_in_and_waits_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = with_spare(folder, 41);
    assert_eq!(
        (spares(&pool), label_state(folder, "s")),
        (vec![WAITS], Some(3))
    );
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(spares(&pool), [WAITS]);
    stand_in(&pool, &mut churn, folder);
    let s = leaf(&pool, "s");
    assert_eq!(reason(pool.remove_spare(s)), "device is in use");
    pool.add_spares(&files(folder, &["t"]), false).unwrap();
    for target in ["b", "s"] {
        let second = pool.attach_device(leaf(&pool, target), &path(folder, "t"), &REPLACE);
        assert_eq!(reason(second), crate::vdevs::regroup::REPLACED_ALREADY);
    }
    close(pool, folder);
    // With the spare for b, another one can be away.
    std::fs::rename(folder.join("c"), folder.join("c.away")).unwrap();
    let pool = import_without(folder, "c.away");
    assert_eq!(shape(&pool), "raidz(a spare(b s) spare(c t))");
    assert_eq!(spares(&pool), [USED, USED]);
    wait_whole_but(&pool, &["/b", "/c"]);
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    std::fs::rename(folder.join("c.away"), folder.join("c")).unwrap();
    let pool = import(folder);
    // It is back, and not offline as the other one is.
    wait("its end", || shape(&pool) == "raidz(a spare(b s) c)");
    wait_whole_but(&pool, &["/b"]);
    pool.detach_device(leaf(&pool, "s")).unwrap();
    assert_eq!(shape(&pool), "raidz(a b c)");
    assert_eq!(spares(&pool), [WAITS, WAITS]);
    assert_eq!(label_state(folder, "s"), Some(3));
    pool.remove_spare(s).unwrap();
    assert_eq!(
        (spares(&pool), label_state(folder, "s")),
        (vec![WAITS], None)
    );
    pool.bring_online(leaf(&pool, "b")).unwrap();
    wait_whole(&pool);
    churn.check(&pool);
    close(pool, folder);
}

/// Imports a pool from all images but one.
fn import_without(folder: &Path, name: &str) -> Arc<Pool> {
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let images = entries.filter(|path| !path.ends_with(name)).collect();
    Pool::import(&ImportOptions::new(images, Selection::Only)).unwrap()
}

#[test]
fn a_spare_goes_when_the_device_is_back_or_was_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = with_spare(folder, 42);
    stand_in(&pool, &mut churn, folder);
    pool.bring_online(leaf(&pool, "b")).unwrap();
    wait("the spare", || shape(&pool) == "raidz(a b c)");
    assert_eq!(spares(&pool), [WAITS]);
    wait_whole(&pool);
    stand_in(&pool, &mut churn, folder);
    let b = leaf(&pool, "b");
    pool.attach_device(b, &file(folder, "x"), &REPLACE).unwrap();
    wait("the new one", || shape(&pool) == "raidz(a x c)");
    wait("its label", || label_state(folder, "s") == Some(3));
    assert_eq!(spares(&pool), [WAITS]);
    wait_whole(&pool);
    std::fs::remove_file(folder.join("b")).unwrap();
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn a_spare_goes_when_the_device_is_found_again_at_an_import() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn) = with_spare(folder.path(), 48);
    pool.export().unwrap();
    drop(pool);
    let pool = import_without(folder.path(), "b");
    wait("the spare", || shape(&pool) == "raidz(a spare(b s) c)");
    churn.run(&pool, 1);
    wait_whole_but(&pool, &["/b"]);
    pool.export().unwrap();
    drop(pool);
    let pool = import(folder.path());
    wait("its end", || shape(&pool) == "raidz(a b c)");
    wait_whole(&pool);
    assert_eq!(spares(&pool), [WAITS]);
    churn.check(&pool);
    // One that stands in for a device that lacks nothing was put there by hand, and stays.
    let c = leaf(&pool, "c");
    pool.attach_device(c, &path(folder.path(), "s"), &REPLACE)
        .unwrap();
    wait_whole(&pool);
    pool.export().unwrap();
    drop(pool);
    let pool = import(folder.path());
    pool.sync().unwrap();
    wait_whole(&pool);
    assert_eq!(shape(&pool), "raidz(a b spare(c s))");
    close(pool, folder.path());
}

#[test]
fn a_spare_stays_when_the_device_goes_for_good() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = with_spare(folder, 43);
    stand_in(&pool, &mut churn, folder);
    // A crash leaves it in its place.
    crash(pool);
    let pool = import_crashed(folder);
    assert_eq!(shape(&pool), "raidz(a spare(b s) c)");
    assert_eq!(spares(&pool), [USED]);
    wait_whole_but(&pool, &["/b"]);
    pool.detach_device(leaf(&pool, "b")).unwrap();
    assert_eq!(shape(&pool), "raidz(a s c)");
    assert!(spares(&pool).is_empty());
    close(pool, folder);
    std::fs::remove_file(folder.join("a")).unwrap();
    let pool = import(folder);
    assert!(spares(&pool).is_empty());
    churn.check(&pool);
    pool.export().unwrap();
}

/// A crash between the txg in which a spare went and its own label: the next import writes that.
#[test]
fn a_spare_whose_label_was_not_written_gets_it_with_the_next_import() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = with_spare(folder, 44);
    stand_in(&pool, &mut churn, folder);
    let s = folder.join("s");
    pool.detach_device(leaf(&pool, "s")).unwrap();
    pool.export().unwrap();
    let (guid, config) = (pool.spares()[0].guid, pool.config());
    drop(pool);
    let device: Arc<dyn BlockDevice> = Arc::new(FileDevice::open(&s, Access::ReadWrite).unwrap());
    let leaf_of = LeafConfig {
        guid,
        path: s.display().to_string(),
        ashift: 9,
        spare_room: None,
    };
    let spare = Leaf::new(leaf_of, Some(device));
    let blank = Uberblock::new(5000, Txg(0), 0, 0, BlockPointer::HOLE);
    let label = config.to_label(&config.root.children[0], guid);
    spare.initialise_labels(&label, &blank).unwrap();
    drop(spare);
    assert_ne!(label_state(folder, "s"), Some(3));
    let pool = import(folder);
    assert_eq!(
        (spares(&pool), label_state(folder, "s")),
        (vec![WAITS], Some(3))
    );
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn spares_are_shared_by_pools_and_for_data_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, _churn) = with_spare(folder, 45);
    let single = NewVdev::Single(file(folder, "o"));
    let log = NewVdev::Single(file(folder, "l"));
    let mut options = CreateOptions::new("other", vec![single]);
    let special = NewVdev::Single(file(folder, "special"));
    options.others = vec![(VdevRole::Log, log), (VdevRole::Special, special)];
    let other = Pool::create(options).unwrap();
    other.add_spares(&[path(folder, "s")], false).unwrap();
    assert_eq!(other.spares()[0].guid, pool.spares()[0].guid);
    let again = other.add_spares(&[path(folder, "s")], true);
    assert!(crate::vdevs::disks::is_in_use(&again.unwrap_err()));
    let part = other.add_spares(&[path(folder, "a")], true);
    assert!(crate::vdevs::disks::is_in_use(&part.unwrap_err()));
    for name in ["l", "special"] {
        let refused = other.attach_device(leaf(&other, name), &path(folder, "s"), &REPLACE);
        assert_eq!(
            reason(refused),
            "spares stand in for devices with data only"
        );
    }
    other.export().unwrap();
    pool.export().unwrap();
}

#[test]
fn a_spare_steps_in_by_itself_and_goes_when_the_fault_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = with_spare(folder, 46);
    // One that is too small is passed over.
    pool.remove_spare(pool.spares()[0].guid).unwrap();
    let small = sized(folder, "small", SIZE - (8 << 20));
    pool.add_spares(&[small, path(folder, "s")], false).unwrap();
    pool.take_out(leaf(&pool, "c"), OFFLINE).unwrap();
    pool.bring_online(leaf(&pool, "c")).unwrap();
    wait_whole(&pool);
    assert_eq!(shape(&pool), "raidz(a b c)");
    let faulted = OutOfUse {
        faulted: true,
        temporary: true,
    };
    let b = leaf(&pool, "b");
    pool.take_out(b, faulted).unwrap();
    wait("the spare", || shape(&pool) == "raidz(a spare(b s) c)");
    churn.run(&pool, 1);
    wait_whole_but(&pool, &["/b"]);
    assert_eq!(spares(&pool), [WAITS, USED]);
    pool.clear(&|leaf| leaf.guid() == b).unwrap();
    wait("its end", || shape(&pool) == "raidz(a b c)");
    wait_whole(&pool);
    churn.check(&pool);
    close(pool, folder);
    // Spares are found where the pool is now.
    let moved = tempfile::tempdir().unwrap();
    for name in ["a", "b", "c", "s", "small"] {
        std::fs::copy(folder.join(name), moved.path().join(name)).unwrap();
        std::fs::remove_file(folder.join(name)).unwrap();
    }
    let pool = import(moved.path());
    assert_eq!(spares(&pool), [WAITS, WAITS]);
    pool.export().unwrap();
    drop(pool);
    std::fs::remove_file(moved.path().join("a")).unwrap();
    let pool = import(moved.path());
    assert_eq!(shape(&pool), "raidz(spare(a s) b c)");
    churn.check(&pool);
    wait_whole_but(&pool, &["/a"]);
    close(pool, moved.path());
    // Also those that stand in.
    for name in ["b", "c", "s", "small"] {
        std::fs::rename(moved.path().join(name), folder.join(name)).unwrap();
    }
    let pool = import(folder);
    let paths: Vec<_> = pool.spares().into_iter().map(|spare| spare.path).collect();
    let here = |name: &str| folder.join(name).display().to_string();
    assert_eq!(paths, [here("small"), here("s")]);
    close(pool, folder);
}

/// A spare that was put beside a device in order stays there: an expansion goes on all the same.
#[test]
fn a_raidz_is_expanded_while_a_spare_stands_beside_a_device() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = with_spare(folder, 49);
    let b = leaf(&pool, "b");
    pool.attach_device(b, &path(folder, "s"), &REPLACE).unwrap();
    wait_whole(&pool);
    let top = pool.config().root.children[0].guid();
    let new = file(folder, "d");
    pool.expand_raidz(top, &new, &AttachOptions::default())
        .unwrap();
    churn.run(&pool, 1);
    wait("the expansion", || !pool.is_expanding());
    assert_eq!(shape(&pool), "raidz(a spare(b s) c d)");
    assert_eq!(spares(&pool), [USED]);
    churn.check(&pool);
    close(pool, folder);
    // Either of both is enough.
    std::fs::rename(folder.join("b"), folder.join("b.away")).unwrap();
    let pool = import_without(folder, "b.away");
    churn.check(&pool);
    pool.export().unwrap();
    drop(pool);
    std::fs::rename(folder.join("b.away"), folder.join("b")).unwrap();
    std::fs::rename(folder.join("s"), folder.join("s.away")).unwrap();
    let pool = import_without(folder, "s.away");
    churn.check(&pool);
    pool.export().unwrap();
}
