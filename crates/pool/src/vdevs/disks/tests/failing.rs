//! Devices that fail too often: they go out of use, or are called degraded, as their properties say.

use dsl::PropertyValue;
use sim::{Fault, FaultKind, SimulatedDisk, Times};

use super::*;

/// All but the labels: the device is there, and blocks on it fail.
fn faulty(kind: FaultKind) -> Fault {
    Fault {
        kind,
        range: format::label::DATA_START..SIZE - (1 << 20),
        times: Times::Always,
    }
}

/// A mirror of simulated disks, with a spare.
fn mirror(folder: &Path, seed: u64) -> (Arc<Pool>, Churn, [SimulatedDisk; 2]) {
    let disks = [SimulatedDisk::new(SIZE, 1), SimulatedDisk::new(SIZE, 2)];
    let open = |name: &str, disk: &SimulatedDisk| {
        NewDevice::Open(folder.join(name), Arc::new(disk.clone()))
    };
    let vdev = NewVdev::Mirror(vec![open("a", &disks[0]), open("b", &disks[1])]);
    let mut options = CreateOptions::new("tank", vec![vdev]);
    options.spares = files(folder, &["s"]);
    let pool = Pool::create(options).unwrap();
    let mut churn = Churn::new(&pool, seed);
    churn.run(&pool, 2);
    (pool, churn, disks)
}

fn condition(pool: &Pool, name: &str) -> Condition {
    let guid = leaf(pool, name);
    let mut leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    leaves.find(|leaf| leaf.guid() == guid).unwrap().condition()
}

fn errors(pool: &Pool, name: &str) -> vdev::ErrorCounts {
    let guid = leaf(pool, name);
    let mut leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    leaves.find(|leaf| leaf.guid() == guid).unwrap().errors()
}

fn set(pool: &Pool, vdev: Guid, name: &str, value: Option<u64>) {
    let value = value.map(PropertyValue::Number);
    pool.set_vdev_properties(vdev, vec![(name.to_owned(), value)])
        .unwrap();
}

fn scrub(pool: &Arc<Pool>) {
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    // What was found is looked at in the next txg.
    pool.sync().unwrap();
}

fn states_of(pool: &Pool, guid: Guid) -> Vec<String> {
    let events = pool.events(0).into_iter();
    let changes = events.filter(|event| event.class.ends_with(".statechange"));
    let field = |event: &crate::events::Event, name: &str| {
        let found = event.fields.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| value.clone())
    };
    let number = crate::events::EventValue::Number(guid.0);
    changes
        .filter(|event| field(event, "vdev_guid").as_ref() == Some(&number))
        .map(|event| format!("{:?}", field(&event, "vdev_state")))
        .collect()
}

const TOO_MANY: VdevAux = VdevAux::ErrorsExceeded;

#[test]
fn a_device_with_too_many_io_errors_is_faulted_and_a_spare_steps_in() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, disks) = mirror(folder.path(), 61);
    let (a, top) = (leaf(&pool, "a"), pool.config().root.children[0].guid());
    // That of the leaf counts, and not that of the mirror.
    set(&pool, top, "io_n", Some(1));
    set(&pool, a, "io_n", Some(1 << 40));
    disks[0].inject(faulty(FaultKind::ReadError));
    scrub(&pool);
    assert!(errors(&pool, "a").read > 20, "{:?}", errors(&pool, "a"));
    assert_eq!(condition(&pool, "a"), Condition::HEALTHY);
    // Nothing of before counts after it.
    disks[0].heal();
    pool.clear(&|_| true).unwrap();
    set(&pool, a, "io_n", None);
    set(&pool, top, "io_n", Some(15));
    pool.sync().unwrap();
    assert_eq!(condition(&pool, "a"), Condition::HEALTHY);
    disks[0].inject(faulty(FaultKind::ReadError));
    scrub(&pool);
    wait("the spare", || shape(&pool) == "mirror(spare(a s) b)");
    assert_eq!(
        condition(&pool, "a"),
        Condition::new(VdevState::Faulted, TOO_MANY)
    );
    assert!(
        states_of(&pool, a)
            .iter()
            .any(|state| state.contains("FAULTED"))
    );
    churn.run(&pool, 1);
    churn.check(&pool);
    // It is back, gets what it missed, and the spare waits again.
    disks[0].heal();
    pool.clear(&|_| true).unwrap();
    wait("its end", || shape(&pool) == "mirror(a b)");
    wait_whole(&pool);
    assert_eq!(condition(&pool, "a"), Condition::HEALTHY);
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_device_with_wrong_bytes_is_degraded_and_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, disks) = mirror(folder.path(), 62);
    let b = leaf(&pool, "b");
    disks[1].inject(faulty(FaultKind::RottenRead));
    scrub(&pool);
    wait("the spare", || shape(&pool) == "mirror(a spare(b s))");
    assert_eq!(
        condition(&pool, "b"),
        Condition::new(VdevState::Degraded, TOO_MANY)
    );
    assert!(
        states_of(&pool, b)
            .iter()
            .any(|state| state.contains("DEGRADED"))
    );
    churn.run(&pool, 1);
    disks[1].heal();
    wait_whole(&pool);
    pool.clear(&|_| true).unwrap();
    wait("its end", || shape(&pool) == "mirror(a b)");
    assert_eq!(condition(&pool, "b"), Condition::HEALTHY);
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_device_that_is_needed_is_degraded_however_often_it_fails() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, disks) = mirror(folder.path(), 63);
    pool.remove_spare(pool.spares()[0].guid).unwrap();
    // The other one gives wrong bytes: it cannot stand for this one.
    disks[1].inject(faulty(FaultKind::RottenRead));
    scrub(&pool);
    assert_eq!(
        condition(&pool, "b"),
        Condition::new(VdevState::Degraded, TOO_MANY)
    );
    disks[1].heal();
    disks[0].inject(faulty(FaultKind::ReadError));
    scrub(&pool);
    assert!(errors(&pool, "a").read > 20, "{:?}", errors(&pool, "a"));
    assert_eq!(
        condition(&pool, "a"),
        Condition::new(VdevState::Degraded, TOO_MANY)
    );
    disks[0].heal();
    pool.clear(&|_| true).unwrap();
    churn.run(&pool, 1);
    churn.check(&pool);
    pool.export().unwrap();
}

/// The labels, and nothing else.
fn fail_labels(disk: &SimulatedDisk, kind: FaultKind) {
    let reserved = format::label::DATA_START;
    for range in [0..reserved, SIZE - (512 << 10)..SIZE] {
        disk.inject(Fault {
            kind: kind.clone(),
            range,
            times: Times::Always,
        });
    }
}

fn faulty_labels(disk: &SimulatedDisk) {
    fail_labels(disk, FaultKind::WriteError);
}

/// Alone at an import it would know nothing of what it was given: it is no help, and says so.
#[test]
fn a_device_that_takes_data_but_no_label_goes_out_of_use_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, disks) = mirror(folder.path(), 66);
    let (a, top) = (leaf(&pool, "a"), pool.config().root.children[0].guid());
    for guid in [a, top] {
        set(&pool, guid, "io_n", Some(1 << 40));
    }
    faulty_labels(&disks[0]);
    churn.run(&pool, 1);
    pool.sync().unwrap();
    assert_eq!(
        condition(&pool, "a"),
        Condition::new(VdevState::Faulted, TOO_MANY)
    );
    assert!(pool.suspended().is_none());
    // The other one has what this one lacks from now on.
    churn.run(&pool, 2);
    pool.sync().unwrap();
    let missing = |name: &str| {
        let guid = leaf(&pool, name);
        let mut leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
        leaves.find(|leaf| leaf.guid() == guid).unwrap().missing()
    };
    assert!(!missing("a").is_empty() && missing("b").is_empty());
    disks[0].heal();
    pool.clear(&|_| true).unwrap();
    pool.sync().unwrap();
    assert_eq!(condition(&pool, "a"), Condition::HEALTHY);
    pool.export().unwrap();
}

/// It comes back, and is not to blame: nobody is to clear it before it is used again.
#[test]
fn a_device_that_goes_as_its_label_is_written_is_gone_and_not_faulty() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, disks) = mirror(folder.path(), 68);
    fail_labels(&disks[0], FaultKind::Gone);
    churn.run(&pool, 1);
    pool.sync().unwrap();
    assert_eq!(condition(&pool, "a"), Condition::REMOVED);
    assert!(pool.suspended().is_none());
    disks[0].heal();
    pool.clear(&|_| true).unwrap();
    pool.sync().unwrap();
    assert_eq!(condition(&pool, "a"), Condition::HEALTHY);
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn what_failed_while_a_device_went_says_nothing_of_it_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (pool, mut churn, disks) = mirror(folder.path(), 69);
    let a = leaf(&pool, "a");
    disks[0].inject(Fault::everywhere(FaultKind::Gone, Times::Always));
    churn.run(&pool, 1);
    pool.sync().unwrap();
    assert_eq!(condition(&pool, "a").state, VdevState::Removed);
    let failed = errors(&pool, "a").write;
    assert!(failed > 0);
    disks[0].heal();
    // One more would be too many, if those before it counted.
    set(&pool, a, "io_n", Some(failed + 1));
    assert_eq!(pool.bring_online(a).unwrap(), Condition::HEALTHY);
    wait_whole(&pool);
    disks[0].inject(Fault {
        times: Times::Count(3),
        ..faulty(FaultKind::WriteError)
    });
    churn.run(&pool, 2);
    pool.sync().unwrap();
    pool.sync().unwrap();
    assert!(errors(&pool, "a").write > failed);
    assert_eq!(condition(&pool, "a"), Condition::HEALTHY);
    churn.check(&pool);
    pool.export().unwrap();
}

/// Too few would be believed after an import: nothing is acknowledged.
#[test]
fn a_txg_whose_uberblock_too_few_devices_take_is_not_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let disks: Vec<SimulatedDisk> = (1..4).map(|seed| SimulatedDisk::new(SIZE, seed)).collect();
    let devices = disks
        .iter()
        .zip(["a", "b", "c"])
        .map(|(disk, name)| NewDevice::Open(folder.path().join(name), Arc::new(disk.clone())));
    let vdev = NewVdev::RaidZ(1, devices.collect());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 67);
    churn.run(&pool, 2);
    let on_disk = pool.on_disk();
    disks[..2].iter().for_each(faulty_labels);
    let top = pool.config().root.children[0].guid();
    let change = ("io_n".to_owned(), Some(PropertyValue::Number(20)));
    let refused = pool.set_vdev_properties(top, vec![change]).unwrap_err();
    assert!(matches!(refused, PoolError::Suspended { .. }), "{refused}");
    assert_eq!(pool.on_disk(), on_disk);
    disks.iter().for_each(SimulatedDisk::heal);
    pool.clear(&|_| true).unwrap();
    pool.sync().unwrap();
    for name in ["a", "b", "c"] {
        assert_eq!(condition(&pool, name), Condition::HEALTHY, "{name}");
    }
    churn.check(&pool);
    pool.export().unwrap();
}

#[test]
fn a_device_that_failed_and_was_away_at_import_is_found_when_that_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 8);
    churn.run(&pool, 2);
    let failed = OutOfUse {
        faulted: true,
        temporary: false,
    };
    pool.take_out(leaf(&pool, "b"), failed).unwrap();
    churn.run(&pool, 1);
    close(pool, folder);
    let elsewhere = tempfile::tempdir().unwrap();
    let away = elsewhere.path().join("b");
    std::fs::copy(folder.join("b"), &away).unwrap();
    std::fs::remove_file(folder.join("b")).unwrap();
    let pool = import(folder);
    churn.run(&pool, 1);
    let condition = || {
        let leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
        let mut found = leaves.filter(|one| one.guid() == leaf(&pool, "b"));
        found.next().unwrap().condition().state
    };
    assert_eq!(condition(), VdevState::Faulted);
    // It is not there yet: now it is known to be away, and looked for as any other.
    pool.clear(&|_| true).unwrap();
    assert_eq!(condition(), VdevState::CantOpen);
    pool.take_out(leaf(&pool, "b"), failed).unwrap();
    std::fs::copy(&away, folder.join("b")).unwrap();
    pool.clear(&|_| true).unwrap();
    assert_eq!(condition(), VdevState::Healthy);
    wait_whole(&pool);
    churn.check(&pool);
    pool.take_out(leaf(&pool, "a"), failed).unwrap();
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn a_device_that_still_fails_does_not_keep_the_rest_of_a_pool_from_being_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let disks = [SimulatedDisk::new(SIZE, 1), SimulatedDisk::new(SIZE, 2)];
    let open = |name: &str, disk: &SimulatedDisk| {
        NewDevice::Open(folder.join(name), Arc::new(disk.clone()))
    };
    let vdev = NewVdev::Mirror(vec![open("a", &disks[0]), open("b", &disks[1])]);
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 9);
    churn.run(&pool, 2);
    // The flush comes first: what is written before it is in doubt.
    disks[1].inject(Fault::everywhere(FaultKind::FlushError, Times::Always));
    churn.run(&pool, 1);
    disks[1].inject(Fault::everywhere(FaultKind::WriteError, Times::Always));
    churn.run(&pool, 1);
    let b = || {
        let leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
        let mut found = leaves.filter(|one| one.guid() == leaf(&pool, "b"));
        found.next().unwrap()
    };
    assert!(!b().is_writable(), "{:?}", b().condition());
    pool.clear(&|_| true).unwrap();
    assert!(!b().is_writable(), "{:?}", b().condition());
    churn.run(&pool, 1);
    disks[1].heal();
    pool.clear(&|_| true).unwrap();
    assert!(b().is_writable(), "{:?}", b().condition());
    wait_whole(&pool);
    churn.check(&pool);
    pool.export().unwrap();
}

fn condition_of(pool: &Pool, guid: Guid) -> VdevState {
    let leaves = crate::vdevs::dtl::leaves(&pool.vdevs).into_iter();
    let mut found = leaves.filter(|one| one.guid() == guid);
    found.next().unwrap().condition().state
}

/// A fault that another request hid would be there again after the next import, when others may have gone instead.
#[test]
fn a_device_that_is_faulted_stays_so_until_it_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 11);
    let b = leaf(&pool, "b");
    for (faulted, temporary) in [(true, false), (false, false), (false, true)] {
        let how = OutOfUse { faulted, temporary };
        pool.take_out(b, how).unwrap();
        assert_eq!(condition_of(&pool, b), VdevState::Faulted);
    }
    churn.run(&pool, 1);
    pool.bring_online(b).unwrap();
    assert_eq!(condition_of(&pool, b), VdevState::Faulted);
    pool.clear(&|_| true).unwrap();
    wait_whole(&pool);
    assert_eq!(condition_of(&pool, b), VdevState::Healthy);
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(condition_of(&pool, b), VdevState::Healthy);
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn a_device_that_was_faulted_and_taken_offline_is_offline_when_the_fault_is_cleared() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mirror = NewVdev::Mirror(files(folder, &["a", "b"]));
    let pool = Pool::create(CreateOptions::new("tank", vec![mirror])).unwrap();
    let mut churn = Churn::new(&pool, 10);
    for faulted in [true, false] {
        let how = OutOfUse {
            faulted,
            temporary: false,
        };
        pool.take_out(leaf(&pool, "b"), how).unwrap();
        churn.run(&pool, 1);
    }
    close(pool, folder);
    let pool = import(folder);
    let b = leaf(&pool, "b");
    let condition = |pool: &Pool| condition_of(pool, b);
    assert_eq!(condition(&pool), VdevState::Faulted);
    pool.clear(&|_| true).unwrap();
    // Not in use until the next import only.
    assert_eq!(condition(&pool), VdevState::Offline);
    churn.run(&pool, 1);
    pool.bring_online(b).unwrap();
    wait_whole(&pool);
    assert_eq!(condition(&pool), VdevState::Healthy);
    close(pool, folder);
    let pool = import(folder);
    assert_eq!(condition(&pool), VdevState::Healthy);
    churn.check(&pool);
    close(pool, folder);
}
