//! Distributed spares: they wait, stand in, and wait again.

use super::*;
use crate::pool::status::VdevRole;
use crate::vdevs::new::DraidWidth;

const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
const WIDTH: DraidWidth = DraidWidth {
    parity: 1,
    data: 2,
    spares: 2,
};

fn draid(folder: &Path, seed: u64) -> (Arc<Pool>, Churn) {
    let vdev = NewVdev::Draid(WIDTH, files(folder, &NAMES));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, seed);
    churn.run(&pool, 2);
    (pool, churn)
}

fn room(name: &str) -> NewDevice {
    NewDevice::Path(PathBuf::from(name))
}

fn guid_of(pool: &Pool, room: &str) -> Guid {
    let spares = pool.spares().into_iter();
    spares
        .clone()
        .find(|spare| spare.path == room)
        .unwrap()
        .guid
}

fn used(pool: &Pool) -> Vec<(String, bool)> {
    let spares = pool.spares().into_iter();
    spares.map(|spare| (spare.path, spare.is_used)).collect()
}

fn are(first: bool, second: bool) -> Vec<(String, bool)> {
    let named = |name: &str, is_used| (name.to_owned(), is_used);
    vec![named("draid1-0-0", first), named("draid1-0-1", second)]
}

/// Waits until all have what they missed but those that are away.
fn wait_whole_but(pool: &Pool, away: &[&str]) {
    let leaves = || crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    wait("resilver", || {
        let is_away = |leaf: &Arc<Leaf>| away.iter().any(|name| leaf.path().ends_with(name));
        let mut others = leaves().filter(|leaf| !is_away(leaf));
        others.all(|leaf| leaf.missing().is_empty())
    });
    pool.wait_scrub().unwrap();
}

fn set_away(folder: &Path, name: &str, is_away: bool) {
    let (there, away) = (folder.join(name), folder.join(format!("away/{name}")));
    std::fs::create_dir_all(folder.join("away")).unwrap();
    match is_away {
        true => std::fs::rename(there, away).unwrap(),
        false => std::fs::rename(away, there).unwrap(),
    }
}

#[test]
fn a_distributed_spare_stands_in_and_waits_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = draid(folder, 51);
    assert_eq!(used(&pool), are(false, false));
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(used(&pool), are(false, false));
    let b = leaf(&pool, "b");
    pool.take_out(b, OFFLINE).unwrap();
    churn.run(&pool, 1);
    pool.attach_device(b, &room("draid1-0-0"), &REPLACE)
        .unwrap();
    assert_eq!(shape(&pool), "draid(a spare(b draid1-0-0) c d e f g)");
    assert_eq!(used(&pool), are(true, false));
    churn.run(&pool, 1);
    wait_whole_but(&pool, &["/b"]);
    // What is there already, and what a device would be needed for.
    let guid = guid_of(&pool, "draid1-0-0");
    let c = leaf(&pool, "c");
    let refused = pool.attach_device(c, &room("draid1-0-0"), &REPLACE);
    assert!(reason(refused).contains("draid1-0-0 is part of active pool"));
    assert!(reason(pool.take_out(guid, OFFLINE)).contains("not supported"));
    assert!(reason(pool.remove_spare(guid)).contains("cannot be removed"));
    close(pool, folder);
    // It stands for b whole: another one can be away as well.
    set_away(folder, "b", true);
    set_away(folder, "e", true);
    let mut without = options(folder);
    without.read_only = true;
    let pool = Pool::import(&without).unwrap();
    churn.check(&pool);
    drop(pool);
    set_away(folder, "b", false);
    set_away(folder, "e", false);
    let pool = import(folder);
    pool.detach_device(guid).unwrap();
    assert_eq!(shape(&pool), "draid(a b c d e f g)");
    assert_eq!(used(&pool), are(false, false));
    pool.bring_online(b).unwrap();
    wait_whole(&pool);
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn distributed_spares_step_in_and_go_when_the_devices_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = draid(folder, 52);
    close(pool, folder);
    for (name, there) in [
        ("c", "draid(a b spare(c draid1-0-0) d e f g)"),
        (
            "f",
            "draid(a b spare(c draid1-0-0) d e spare(f draid1-0-1) g)",
        ),
    ] {
        set_away(folder, name, true);
        let pool = import(folder);
        wait("a spare steps in", || shape(&pool) == there);
        wait_whole_but(&pool, &["/c", "/f"]);
        churn.run(&pool, 1);
        churn.check(&pool);
        close(pool, folder);
    }
    // A third one is away, and nothing is lost yet.
    set_away(folder, "a", true);
    let pool = import(folder);
    churn.run(&pool, 1);
    churn.check(&pool);
    let missing = |pool: &Pool, name: &str| {
        let leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
        let mut named = leaves.filter(|leaf| leaf.path().ends_with(name));
        named.next().unwrap().missing()
    };
    assert!(!missing(&pool, "/a").is_empty());
    pool.export().unwrap();
    drop(pool);
    set_away(folder, "a", false);
    let pool = import(folder);
    wait_whole_but(&pool, &["/c", "/f"]);
    let new = files(folder, &["n", "m"]);
    for (old, new) in ["c", "f"].into_iter().zip(&new) {
        pool.attach_device(leaf(&pool, old), new, &REPLACE).unwrap();
        churn.run(&pool, 1);
        wait_whole_but(&pool, &["/c", "/f"]);
    }
    wait("both go", || shape(&pool) == "draid(a b n d e m g)");
    assert_eq!(used(&pool), are(false, false));
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn a_distributed_spare_helps_its_own_vdev_only() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, _) = draid(folder, 53);
    let width = DraidWidth { spares: 1, ..WIDTH };
    let second = NewVdev::Draid(width, files(folder, &["h", "i", "j", "k"]));
    pool.add_vdevs(&[(VdevRole::Data, second)], None, false)
        .unwrap();
    let names: Vec<String> = used(&pool).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["draid1-0-0", "draid1-0-1", "draid1-1-0"]);
    let i = leaf(&pool, "i");
    let refused = pool.attach_device(i, &room("draid1-0-0"), &REPLACE);
    assert!(reason(refused).contains("its own dRAID"));
    pool.attach_device(i, &room("draid1-1-0"), &REPLACE)
        .unwrap();
    wait_whole(&pool);
    close(pool, folder);
}

#[test]
fn a_distributed_spare_stays_where_its_device_was_detached_until_it_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (pool, mut churn) = draid(folder, 54);
    let b = leaf(&pool, "b");
    pool.attach_device(b, &room("draid1-0-1"), &REPLACE)
        .unwrap();
    wait_whole(&pool);
    pool.detach_device(b).unwrap();
    assert_eq!(shape(&pool), "draid(a draid1-0-1 c d e f g)");
    assert_eq!(used(&pool), are(false, true));
    churn.run(&pool, 1);
    close(pool, folder);
    let pool = import(folder);
    churn.run(&pool, 1);
    churn.check(&pool);
    let guid = guid_of(&pool, "draid1-0-1");
    let [new] = &files(folder, &["n"])[..] else {
        panic!("no device");
    };
    pool.attach_device(guid, new, &REPLACE).unwrap();
    churn.run(&pool, 1);
    wait_whole(&pool);
    wait("the spare goes", || shape(&pool) == "draid(a n c d e f g)");
    assert_eq!(used(&pool), are(false, false));
    churn.check(&pool);
    close(pool, folder);
}
