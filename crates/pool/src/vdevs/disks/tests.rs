//! Devices that come and go one by one; after each the pool is as it was, and zdb finds nothing wrong with what is
//! left.

mod failing;
mod labels;
mod spare_rooms;
mod spares;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use device::{Access, FileDevice};
use vdev::VdevAux;

use super::*;
use crate::churn::Churn;
use crate::create::CreateOptions;
use crate::import::discover;
use crate::import::options::{ImportOptions, Selection};
use crate::vdevs::devices::Devices;
use crate::vdevs::new::NewVdev;
use crate::vdevs::regroup::NO_REPLICAS;

const SIZE: u64 = 96 << 20;

pub(crate) fn file(folder: &Path, name: &str) -> NewDevice {
    sized(folder, name, SIZE)
}

fn sized(folder: &Path, name: &str, size: u64) -> NewDevice {
    let path: PathBuf = folder.join(name);
    FileDevice::create(&path, size).unwrap();
    NewDevice::Path(path)
}

pub(crate) fn files(folder: &Path, names: &[&str]) -> Vec<NewDevice> {
    names.iter().map(|name| file(folder, name)).collect()
}

pub(crate) fn options(folder: &Path) -> ImportOptions {
    ImportOptions::new(vec![folder.to_owned()], Selection::Only)
}

pub(crate) fn import(folder: &Path) -> Arc<Pool> {
    Pool::import(&options(folder)).unwrap()
}

/// As after a crash: nothing more is written.
pub(crate) fn crash(pool: Arc<Pool>) {
    pool.abandon();
}

pub(crate) fn import_crashed(folder: &Path) -> Arc<Pool> {
    let mut options = options(folder);
    options.force = true;
    Pool::import(&options).unwrap()
}

/// Exports the pool, and has zdb look at it.
pub(crate) fn close(pool: Arc<Pool>, folder: &Path) {
    let name = pool.name();
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, &name);
    }
}

pub(crate) fn leaf(pool: &Pool, name: &str) -> Guid {
    let config = pool.config();
    let leaves = config.root.leaves();
    let called = |leaf: &&&VdevConfig| leaf.path().unwrap().ends_with(&format!("/{name}"));
    leaves.iter().find(called).unwrap().guid()
}

/// The tree of vdevs: kinds, and names of files.
pub(crate) fn shape(pool: &Pool) -> String {
    fn shape(node: &VdevConfig) -> String {
        if let Some(path) = node.path() {
            return path.rsplit('/').next().unwrap().to_owned();
        }
        let children: Vec<_> = node.children.iter().map(shape).collect();
        format!("{}({})", node.kind(), children.join(" "))
    }
    let config = pool.config();
    let tops: Vec<_> = config.root.children.iter().map(shape).collect();
    tops.join(" ")
}

pub(crate) fn wait(what: &str, is_done: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn wait_whole(pool: &Pool) {
    let leaves = || crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    wait("resilver", || {
        leaves().all(|leaf| leaf.missing().is_empty())
    });
    pool.wait_scrub().unwrap();
}

pub(crate) fn reason(result: Result<()>) -> String {
    result.unwrap_err().to_string()
}

pub(crate) const ATTACH: AttachOptions = AttachOptions {
    replace: false,
    ashift: None,
    force: false,
    fill: Fill::Healing,
};

pub(crate) const REPLACE: AttachOptions = AttachOptions {
    replace: true,
    ..ATTACH
};

pub(crate) const OFFLINE: OutOfUse = OutOfUse {
    faulted: false,
    temporary: false,
};

#[test]
fn a_single_device_becomes_a_mirror_and_the_new_one_stays() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vdev = NewVdev::Single(file(folder, "a"));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 1);
    churn.run(&pool, 3);
    let a = leaf(&pool, "a");
    let only = "only applicable to mirror and replacing vdevs";
    assert_eq!(reason(pool.detach_device(a)), only);
    pool.attach_device(a, &file(folder, "b"), &ATTACH).unwrap();
    assert_eq!(shape(&pool), "mirror(a b)");
    churn.run(&pool, 2);
    wait_whole(&pool);
    let scan = pool.scan().unwrap().unwrap();
    assert_eq!((scan.function, scan.state, scan.errors), (2, 2, 0));
    // The txg that took it in has it at the next import.
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(shape(&pool), "mirror(a b)");
    churn.check(&pool);
    pool.detach_device(leaf(&pool, "a")).unwrap();
    assert_eq!(shape(&pool), "b");
    assert!(discover::discover(&[folder.join("a")]).unwrap().is_empty());
    churn.run(&pool, 2);
    std::fs::remove_file(folder.join("a")).unwrap();
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(shape(&pool), "b");
    churn.check(&pool);
    churn.run(&pool, 1);
    close(pool, folder);
}

#[test]
fn a_device_is_replaced_wherever_it_is() {
    for (vdev, names) in [
        (0, vec!["a"]),
        (1, vec!["a", "b"]),
        (2, vec!["a", "b", "c"]),
        (3, vec!["a", "b", "c", "d"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let mut devices = files(folder, &names);
        let new = match vdev {
            0 => NewVdev::Single(devices.remove(0)),
            1 => NewVdev::Mirror(devices),
            parity => NewVdev::RaidZ(parity - 1, devices),
        };
        let pool = Pool::create(CreateOptions::new("tank", vec![new])).unwrap();
        let mut churn = Churn::new(&pool, vdev);
        churn.run(&pool, 3);
        for (old, new) in names.iter().zip(["x", "y"]) {
            let old = leaf(&pool, old);
            pool.attach_device(old, &file(folder, new), &REPLACE)
                .unwrap();
            churn.run(&pool, 1);
            wait("replacement", || !shape(&pool).contains("replacing"));
        }
        wait_whole(&pool);
        let after = ["x", "mirror(x y)", "raidz(x y c)", "raidz(x y c d)"];
        assert_eq!(shape(&pool), after[vdev as usize]);
        assert!(discover::discover(&[folder.join("a")]).unwrap().is_empty());
        std::fs::remove_file(folder.join("a")).unwrap();
        close(pool, folder);
        let pool = import(folder);
        churn.check(&pool);
        churn.run(&pool, 1);
        close(pool, folder);
    }
}

#[test]
fn a_replacement_goes_on_over_crashes_and_exports() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let raidz = NewVdev::RaidZ(1, files(folder, &["a", "b", "c"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![raidz])).unwrap();
    let mut churn = Churn::new(&pool, 7);
    churn.run(&pool, 3);
    pool.sync().unwrap();
    let b = leaf(&pool, "b");
    // Nothing but the resilver of the import ends it.
    attach_only(&pool, b, &file(folder, "x"), &REPLACE);
    assert_eq!(shape(&pool), "raidz(a replacing(b x) c)");
    churn.run(&pool, 1);
    pool.sync().unwrap();
    assert_eq!(shape(&pool), "raidz(a replacing(b x) c)");
    assert_eq!(reason(pool.detach_device(b)), NO_REPLICAS);
    let already = pool.attach_device(b, &file(folder, "y"), &REPLACE);
    assert_eq!(reason(already), crate::vdevs::regroup::REPLACED_ALREADY);
    crash(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, "tank");
    }
    let pool = import_crashed(folder);
    wait("replacement", || shape(&pool) == "raidz(a x c)");
    wait_whole(&pool);
    churn.check(&pool);
    close(pool, folder);
    // With the new one for another one that is away.
    std::fs::remove_file(folder.join("a")).unwrap();
    let pool = import(folder);
    churn.check(&pool);
    let a = leaf(&pool, "a");
    pool.attach_device(a, &file(folder, "a"), &REPLACE).unwrap();
    wait("replacement", || shape(&pool) == "raidz(a x c)");
    churn.run(&pool, 1);
    close(pool, folder);
    std::fs::remove_file(folder.join("c")).unwrap();
    let pool = import(folder);
    churn.check(&pool);
    pool.export().unwrap();
}

/// Attaches a device as `attach_device` does, and leaves it to later that it gets what it lacks.
pub(crate) fn attach_only(pool: &Pool, target: Guid, new: &NewDevice, options: &AttachOptions) {
    let writer = pool.writer().unwrap();
    let _one = writer.vdev_changes.alone();
    let attachment = pool.prepare_attachment(target, new, options).unwrap();
    let change = DeviceChange::Attach(Box::new(attachment));
    pool.change_devices(writer, change).unwrap();
}

/// As if the power had failed before an uberblock came to the device.
fn lose_uberblock(path: &Path, txg: Txg) {
    use std::os::unix::fs::FileExt;
    const SLOT: u64 = 1 << 10;
    let file = std::fs::File::options().write(true).open(path).unwrap();
    for label in 0..format::label::COUNT {
        let ring = format::label::offset(SIZE, label).unwrap() + (128 << 10);
        let at = ring + txg.0 % 128 * SLOT;
        file.write_all_at(&[0; SLOT as usize], at).unwrap();
    }
}

#[test]
fn a_device_without_the_last_uberblock_alone_is_not_outdated() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vdev = NewVdev::Single(file(folder, "a"));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 8);
    churn.run(&pool, 2);
    let a = leaf(&pool, "a");
    // The new one has next to nothing, and what leads to it came to no other one.
    attach_only(&pool, a, &file(folder, "b"), &ATTACH);
    let last = pool.writer().unwrap().syncer.last.get().txg;
    let config = pool.config();
    crash(pool);
    // Nor is it a source before anybody has read what it lacks.
    let paths = ["a", "b"].map(|name| folder.join(name));
    let devices = Devices::open(&paths, Access::ReadOnly).unwrap();
    let opened = crate::vdevs::devices::open_tree(&config.root, &devices);
    let leaves = crate::vdevs::dtl::leaves(&opened.vdevs);
    let lacks: Vec<_> = leaves.iter().map(|leaf| leaf.misses(last)).collect();
    assert_eq!(lacks, [false, true]);
    drop((leaves, opened, devices));
    lose_uberblock(&folder.join("a"), last);
    let pool = import_crashed(folder);
    assert_eq!(shape(&pool), "mirror(a b)");
    wait_whole(&pool);
    churn.check(&pool);
    pool.detach_device(leaf(&pool, "a")).unwrap();
    std::fs::remove_file(folder.join("a")).unwrap();
    close(pool, folder);
    let pool = import(folder);
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_replacement_is_called_off_by_taking_the_new_device_away() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 3);
    churn.run(&pool, 2);
    let b = leaf(&pool, "b");
    attach_only(&pool, b, &file(folder, "x"), &REPLACE);
    churn.run(&pool, 1);
    pool.detach_device(leaf(&pool, "x")).unwrap();
    assert_eq!(shape(&pool), "mirror(a b)");
    assert!(discover::discover(&[folder.join("x")]).unwrap().is_empty());
    churn.run(&pool, 1);
    close(pool, folder);
}

#[test]
fn a_device_is_offline_until_it_is_brought_back() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 4);
    churn.run(&pool, 2);
    let (a, b) = (leaf(&pool, "a"), leaf(&pool, "b"));
    pool.take_out(a, OFFLINE).unwrap();
    churn.run(&pool, 2);
    assert_eq!(reason(pool.take_out(b, OFFLINE)), NO_REPLICAS);
    assert_eq!(reason(pool.detach_device(b)), NO_REPLICAS);
    close(pool, folder);
    let pool = import(folder);
    let status = |pool: &Pool| pool.status().unwrap();
    let states = |pool: &Pool| {
        let top = status(pool).root.children.remove(0);
        top.children
            .iter()
            .map(|leaf| leaf.condition.state)
            .collect::<Vec<_>>()
    };
    assert_eq!(states(&pool), [VdevState::Offline, VdevState::Healthy]);
    churn.check(&pool);
    churn.run(&pool, 1);
    let back = pool.bring_online(a).unwrap();
    assert_eq!(back, Condition::HEALTHY);
    wait_whole(&pool);
    // What it missed it has: the other one can go, for this time.
    let temporary = OutOfUse {
        temporary: true,
        ..OFFLINE
    };
    pool.take_out(b, temporary).unwrap();
    churn.check(&pool);
    churn.run(&pool, 1);
    crash(pool);
    let pool = import_crashed(folder);
    assert_eq!(states(&pool), [VdevState::Healthy, VdevState::Healthy]);
    wait_whole(&pool);
    churn.check(&pool);
    // By the operator's word it failed: that is remembered, until it is cleared.
    let faulted = OutOfUse {
        faulted: true,
        temporary: false,
    };
    pool.take_out(b, faulted).unwrap();
    churn.run(&pool, 1);
    // A device that is needed is not put out of use.
    pool.take_out(a, faulted).unwrap();
    assert_eq!(states(&pool), [VdevState::Degraded, VdevState::Faulted]);
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(states(&pool), [VdevState::Healthy, VdevState::Faulted]);
    assert_eq!(pool.bring_online(b).unwrap().state, VdevState::Faulted);
    pool.clear(&|_| true).unwrap();
    wait_whole(&pool);
    assert_eq!(states(&pool), [VdevState::Healthy, VdevState::Healthy]);
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(states(&pool), [VdevState::Healthy, VdevState::Healthy]);
    pool.export().unwrap();
}

#[test]
fn a_device_that_was_away_at_import_comes_back_and_another_one_does_not() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 5);
    churn.run(&pool, 2);
    close(pool, folder);
    std::fs::rename(folder.join("b"), folder.join("parked")).unwrap();
    let away = tempfile::tempdir().unwrap();
    std::fs::copy(folder.join("parked"), away.path().join("b")).unwrap();
    std::fs::remove_file(folder.join("parked")).unwrap();
    let pool = import(folder);
    churn.run(&pool, 2);
    let b = leaf(&pool, "b");
    assert_eq!(pool.bring_online(b).unwrap().aux, VdevAux::OpenFailed);
    // Something else under its path.
    FileDevice::create(&folder.join("b"), SIZE).unwrap();
    assert_eq!(pool.bring_online(b).unwrap().aux, VdevAux::BadLabel);
    std::fs::copy(folder.join("a"), folder.join("b")).unwrap();
    assert_eq!(pool.bring_online(b).unwrap().aux, VdevAux::CorruptData);
    std::fs::copy(away.path().join("b"), folder.join("b")).unwrap();
    assert_eq!(pool.bring_online(b).unwrap(), Condition::HEALTHY);
    wait_whole(&pool);
    churn.run(&pool, 1);
    close(pool, folder);
    std::fs::remove_file(folder.join("a")).unwrap();
    let pool = import(folder);
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn devices_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vdevs = vec![
        NewVdev::Single(file(folder, "a")),
        NewVdev::RaidZ(1, files(folder, &["b", "c"])),
    ];
    let pool = Pool::create(CreateOptions::new("tank", vdevs)).unwrap();
    let (a, b) = (leaf(&pool, "a"), leaf(&pool, "b"));
    let small = sized(folder, "small", 70 << 20);
    let fine = file(folder, "fine");
    for options in [ATTACH, REPLACE] {
        let result = pool.attach_device(a, &small, &options);
        assert_eq!(reason(result), "device is too small");
        let wide = AttachOptions {
            ashift: Some(12),
            ..options
        };
        let result = reason(pool.attach_device(a, &fine, &wide));
        assert!(result.contains("higher alignment requirement"), "{result}");
        let own = NewDevice::Path(folder.join("b"));
        let error = pool.attach_device(a, &own, &options).unwrap_err();
        assert!(is_in_use(&error), "{error}");
        let result = pool.attach_device(Guid(1), &fine, &options);
        assert!(matches!(result, Err(PoolError::NoSuchVdev { .. })));
    }
    let result = pool.attach_device(b, &fine, &ATTACH);
    assert_eq!(reason(result), crate::vdevs::regroup::NOT_A_SIDE);
    let top = pool.config().root.children[1].guid();
    let result = pool.attach_device(top, &fine, &ATTACH);
    assert_eq!(reason(result), crate::vdevs::regroup::NOT_A_SIDE);
    // A little smaller than the other one, and large enough for all that there is.
    let little = sized(folder, "little", SIZE - (1 << 20));
    pool.attach_device(a, &little, &ATTACH).unwrap();
    wait_whole(&pool);
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(shape(&pool), "mirror(a little) raidz(b c)");
    pool.export().unwrap();
}

#[test]
fn a_device_that_is_away_lacks_what_the_resilver_of_another_one_does_not_look_for() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b", "c"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 6);
    churn.run(&pool, 1);
    let (b, c) = (leaf(&pool, "b"), leaf(&pool, "c"));
    pool.take_out(c, OFFLINE).unwrap();
    churn.run(&pool, 2);
    pool.sync().unwrap();
    let leaves = crate::vdevs::dtl::leaves(&pool.vdevs);
    let away = leaves.iter().find(|leaf| leaf.guid() == c).unwrap();
    // A resilver began while it was there.
    away.begin_resilver();
    let lacks: Vec<_> = away.missing().iter().collect();
    pool.take_out(b, OFFLINE).unwrap();
    churn.run(&pool, 1);
    pool.bring_online(b).unwrap();
    let others = || leaves.iter().filter(|leaf| leaf.guid() != c);
    wait("resilver", || {
        others().all(|leaf| leaf.missing().is_empty())
    });
    pool.wait_scrub().unwrap();
    for (first, count) in lacks {
        assert!((0..count).all(|after| away.misses(Txg(first.0 + after))));
    }
    drop(leaves);
    pool.bring_online(c).unwrap();
    wait_whole(&pool);
    close(pool, folder);
    for gone in ["a", "b"] {
        std::fs::remove_file(folder.join(gone)).unwrap();
    }
    let pool = import(folder);
    churn.check(&pool);
    pool.export().unwrap();
}

/// The configuration in a label of an image becomes that of another image.
fn copy_label(from: &Path, to: &Path, label: usize) {
    use std::os::unix::fs::FileExt;
    const CONFIG: std::ops::Range<u64> = 16 << 10..128 << 10;
    let start = format::label::offset(SIZE, label).unwrap() + CONFIG.start;
    let mut bytes = vec![0; (CONFIG.end - CONFIG.start) as usize];
    std::fs::File::open(from)
        .unwrap()
        .read_exact_at(&mut bytes, start)
        .unwrap();
    let to = std::fs::File::options().write(true).open(to).unwrap();
    to.write_all_at(&bytes, start).unwrap();
}

#[test]
fn a_pool_gets_another_guid_and_a_crash_among_the_labels_leaves_one_pool() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let names = ["a", "b", "c"];
    let vdev = NewVdev::RaidZ(1, files(folder, &names));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 31);
    churn.run(&pool, 2);
    let (old, new) = (pool.guid(), Guid(0x1234_5678));
    pool.sync().unwrap();
    let copy = |to: &Path| {
        for name in names {
            std::fs::copy(folder.join(name), to.join(name)).unwrap();
        }
    };
    let before = tempfile::tempdir().unwrap();
    copy(before.path());
    assert_eq!(pool.reguid(Some(new)).unwrap(), new);
    assert_eq!(pool.guid(), new);
    let txg = pool.writer().unwrap().syncer.last.get().txg;
    crash(pool);
    let import_as = |folder: &Path, wanted: Guid| {
        let pool = import_crashed(folder);
        assert_eq!(pool.guid(), wanted);
        churn.check(&pool);
        close(pool, folder);
    };
    // The first label of the first device came to it.
    let cut = tempfile::tempdir().unwrap();
    for name in names {
        std::fs::copy(before.path().join(name), cut.path().join(name)).unwrap();
    }
    copy_label(&folder.join("a"), &cut.path().join("a"), 0);
    import_as(cut.path(), old);
    // The first uberblock did.
    copy(cut.path());
    for name in names {
        let image = cut.path().join(name);
        for label in [1, 3] {
            copy_label(&before.path().join(name), &image, label);
        }
        if name != "a" {
            lose_uberblock(&image, txg);
        }
    }
    import_as(cut.path(), new);
    import_as(folder, new);
    // All devices are to hear of it.
    let pool = import(folder);
    assert!(pool.reguid(Some(Guid(0))).is_err());
    pool.take_out(leaf(&pool, "b"), OFFLINE).unwrap();
    let away = pool.reguid(None).unwrap_err().to_string();
    assert_eq!(away, "one or more devices is currently unavailable");
    pool.bring_online(leaf(&pool, "b")).unwrap();
    wait_whole(&pool);
    assert_ne!(pool.reguid(None).unwrap(), new);
    close(pool, folder);
}

#[test]
fn devices_that_are_back_are_found_when_they_are_looked_at_again() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 32);
    churn.run(&pool, 2);
    pool.export().unwrap();
    drop(pool);
    let away = folder.join("away");
    std::fs::create_dir(&away).unwrap();
    std::fs::rename(folder.join("b"), away.join("b")).unwrap();
    let pool = import(folder);
    churn.run(&pool, 2);
    pool.reopen_devices(false).unwrap();
    let b = || {
        let leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
        let mut found = leaves.filter(|leaf| leaf.path().ends_with("/b"));
        found.next().unwrap()
    };
    assert!(!b().is_writable());
    std::fs::rename(away.join("b"), folder.join("b")).unwrap();
    pool.reopen_devices(false).unwrap();
    assert!(b().is_writable());
    wait_whole(&pool);
    pool.take_out(leaf(&pool, "b"), OFFLINE).unwrap();
    pool.reopen_devices(false).unwrap();
    assert!(!b().is_writable());
    pool.bring_online(leaf(&pool, "b")).unwrap();
    wait_whole(&pool);
    pool.detach_device(leaf(&pool, "a")).unwrap();
    std::fs::remove_file(folder.join("a")).unwrap();
    churn.check(&pool);
    close(pool, folder);
}
