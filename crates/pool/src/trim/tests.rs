//! Trims of pools on files.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use super::control::TrimState;
use crate::churn::Churn;
use crate::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};
use base::Guid;

fn single(path: &Path) -> Arc<Pool> {
    device::FileDevice::create(path, 96 << 20).unwrap();
    let device = NewDevice::Path(path.to_owned());
    Pool::create(CreateOptions::new("tank", vec![NewVdev::Single(device)])).unwrap()
}

fn leaf(pool: &Pool) -> Guid {
    pool.vdevs().tops()[0].leaves()[0].guid()
}

fn stored_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().blocks() * 512
}

#[test]
fn free_space_of_a_file_becomes_holes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    let pool = single(&path);
    let mut churn = Churn::new(&pool, 5);
    churn.run(&pool, 3);
    // Every free byte of the image has been written to.
    let garbage = vec![0xA5; 1 << 20];
    let device = pool.vdevs().tops()[0].leaves()[0].device().unwrap();
    let tail = (64 << 20)..(88 << 20);
    let used = pool.space().allocated;
    for at in tail.step_by(garbage.len()) {
        device.write(at, &garbage).unwrap();
    }
    let before = stored_bytes(&path);
    let guid = leaf(&pool);
    assert!(pool.start_trims(&[guid], 0, false).unwrap().is_empty());
    pool.wait_trims(&[guid]).unwrap();
    let trim = pool.leaf_trim(guid).unwrap();
    assert_eq!(trim.state, TrimState::Complete);
    drop(device);
    let after = stored_bytes(&path);
    println!("{before} bytes before, {after} after, {used} in use");
    assert!(after + (20 << 20) < before);
    churn.run(&pool, 2);
    churn.check(&pool);
    let names: Vec<String> = pool
        .events(0)
        .into_iter()
        .map(|event| event.class)
        .collect();
    assert!(names.contains(&"sysevent.fs.zfs.trim_start".to_owned()));
    assert!(names.contains(&"sysevent.fs.zfs.trim_finish".to_owned()));
    pool.export().unwrap();
    drop(pool);
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    churn.check(&pool);
    assert_eq!(pool.leaf_trim(guid).unwrap().time_s, trim.time_s);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
}

#[test]
fn a_trim_goes_on_after_an_import() {
    let folder = tempfile::tempdir().unwrap();
    let pool = single(&folder.path().join("a.img"));
    let guid = leaf(&pool);
    // One range, and then nothing for a long time.
    assert!(pool.start_trims(&[guid], 1, false).unwrap().is_empty());
    assert_eq!(pool.start_trims(&[guid], 0, false).unwrap().len(), 1);
    while pool.leaf_trim(guid).unwrap().offset == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(pool.suspend_trims(&[guid]).unwrap().is_empty());
    assert_eq!(pool.suspend_trims(&[guid]).unwrap().len(), 1);
    let offset = pool.leaf_trim(guid).unwrap().offset;
    pool.export().unwrap();
    drop(pool);
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    let trim = pool.leaf_trim(guid).unwrap();
    assert_eq!(
        (trim.state, trim.offset, trim.rate),
        (TrimState::Suspended, offset, 1)
    );
    assert!(pool.start_trims(&[guid], 1, false).unwrap().is_empty());
    assert!(pool.leaf_trim(guid).unwrap().offset >= offset);
    pool.export().unwrap();
    drop(pool);
    let pool = Pool::import(&options).unwrap();
    assert_eq!(pool.leaf_trim(guid).unwrap().state, TrimState::Active);
    assert!(pool.cancel_trims(&[guid]).unwrap().is_empty());
    assert_eq!(pool.cancel_trims(&[guid]).unwrap().len(), 1);
    assert!(pool.start_trims(&[guid], 0, false).unwrap().is_empty());
    pool.wait_trims(&[guid]).unwrap();
    assert_eq!(pool.leaf_trim(guid).unwrap().state, TrimState::Complete);
    assert_eq!(pool.start_trims(&[guid], 0, true).unwrap().len(), 1);
    let history = pool.history().unwrap();
    let words: Vec<&str> = history
        .iter()
        .filter_map(|record| record.str("history internal str"))
        .collect();
    let ends = words.iter().filter_map(|text| text.strip_prefix("vdev="));
    let ends: Vec<&str> = ends.filter_map(|text| text.split(' ').nth(1)).collect();
    let wanted = [
        "activated",
        "suspended",
        "activated",
        "canceled",
        "activated",
        "complete",
    ];
    assert_eq!(ends, wanted, "{words:?}");
}

/// How many words of a file are those that free space is overwritten with.
fn filled_words(path: &Path) -> usize {
    let image = std::fs::read(path).unwrap();
    let filler = 0xdead_beef_dead_beee_u64.to_ne_bytes();
    image
        .chunks_exact(8)
        .filter(|word| **word == filler)
        .count()
}

#[test]
fn free_space_is_overwritten_once_and_what_is_in_use_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    let pool = single(&path);
    let mut churn = Churn::new(&pool, 8);
    churn.run(&pool, 4);
    let guid = leaf(&pool);
    let refused = pool.cancel_initializing(&[guid]).unwrap();
    assert_eq!(refused, [(guid, "there is no active initialization")]);
    assert!(pool.start_initializing(&[guid]).unwrap().is_empty());
    // Beside changes.
    churn.run(&pool, 4);
    pool.wait_initializing(&[guid]).unwrap();
    let stood = pool.facts().leaf_work(guid).unwrap().initialize;
    assert_eq!(stood.state, TrimState::Complete);
    churn.check(&pool);
    let filled = filled_words(&path) * 8;
    let figures = pool.space();
    println!("{filled} bytes filled of {figures:?}");
    assert!(filled as u64 > figures.free() / 10 * 8);
    churn.run(&pool, 3);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    churn.check(&pool);
    let stood = pool.facts().leaf_work(guid).unwrap().initialize;
    assert_eq!(stood.state, TrimState::Complete);
    assert!(pool.uninitialize(&[guid]).unwrap().is_empty());
    let stood = pool.facts().leaf_work(guid).unwrap().initialize;
    assert_eq!((stood.state, stood.offset), (TrimState::None, 0));
    pool.export().unwrap();
}

#[test]
fn initializing_goes_on_after_an_import_and_stands_still_when_suspended() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.img", "b.img"].map(|name| folder.path().join(name));
    let devices = paths.clone().map(|path| {
        device::FileDevice::create(&path, 96 << 20).unwrap();
        NewDevice::Path(path)
    });
    let vdev = NewVdev::Mirror(devices.to_vec());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 9);
    churn.run(&pool, 2);
    let top = Arc::clone(&pool.vdevs().tops()[0]);
    let leaves: Vec<Guid> = top.leaves().iter().map(|leaf| leaf.guid()).collect();
    drop(top);
    assert!(pool.start_initializing(&leaves).unwrap().is_empty());
    // One of them may be done by now, if this machine is fast.
    pool.suspend_initializing(&leaves[..1]).unwrap();
    pool.export().unwrap();
    drop(pool);
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    pool.wait_initializing(&leaves).unwrap();
    let state = |leaf: Guid| pool.facts().leaf_work(leaf).unwrap().initialize.state;
    assert_eq!(state(leaves[1]), TrimState::Complete);
    assert!(matches!(
        state(leaves[0]),
        TrimState::Suspended | TrimState::Complete
    ));
    if state(leaves[0]) == TrimState::Suspended {
        assert!(pool.start_initializing(&leaves[..1]).unwrap().is_empty());
        pool.wait_initializing(&leaves).unwrap();
        assert_eq!(state(leaves[0]), TrimState::Complete);
    }
    assert!(paths.iter().all(|path| filled_words(path) > 1 << 20));
    churn.run(&pool, 2);
    churn.check(&pool);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    pool.export().unwrap();
}

#[test]
fn a_raid_z_is_initialized_beside_its_data() {
    let folder = tempfile::tempdir().unwrap();
    let devices = ["a.img", "b.img", "c.img"].map(|name| {
        let path = folder.path().join(name);
        device::FileDevice::create(&path, 96 << 20).unwrap();
        NewDevice::Path(path)
    });
    let vdev = NewVdev::RaidZ(1, devices.to_vec());
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 10);
    churn.run(&pool, 4);
    let top = Arc::clone(&pool.vdevs().tops()[0]);
    let leaves: Vec<Guid> = top.leaves().iter().map(|leaf| leaf.guid()).collect();
    drop(top);
    assert!(pool.start_initializing(&leaves).unwrap().is_empty());
    churn.run(&pool, 3);
    pool.wait_initializing(&leaves).unwrap();
    churn.check(&pool);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
}
