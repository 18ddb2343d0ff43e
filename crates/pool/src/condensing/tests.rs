use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::ObjectId;
use dmu::Zap;
use dsl::tasks::DestroyHead;
use format::config::VdevType;
use tempfile::TempDir;

use super::*;
use crate::churn::Churn;
use crate::tunables::REMOVAL_SEGMENT_BYTES;
use crate::{CreateOptions, ImportOptions, NewDevice, NewVdev, Selection};

/// The limits are the process's.
static ONE: Mutex<()> = Mutex::new(());

/// Limits of a test, until it ends.
pub(crate) struct Limits(#[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Limits {
    /// As by default: small mappings stay.
    pub(crate) fn default() -> Self {
        Self(ONE.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Every mapping is shortened as soon as something of it is obsolete, with so many entries a txg.
    pub(crate) fn all_get_shorter(entries: u64) -> Self {
        let limits = Self::default();
        // Entries that become obsolete as a whole.
        REMOVAL_SEGMENT_BYTES.set(8 << 10);
        limits.shorten_all(entries);
        limits
    }

    fn shorten_all(&self, entries: u64) {
        CONDENSE_OBSOLETE_PERCENT.set(0);
        CONDENSE_MAPPING_BYTES_MIN.set(0);
        CONDENSED_ENTRIES.set(entries);
    }

    fn keep_short_ones(&self) {
        CONDENSE_OBSOLETE_PERCENT.reset();
        CONDENSE_MAPPING_BYTES_MIN.reset();
    }
}

impl Drop for Limits {
    fn drop(&mut self) {
        for limit in [
            &CONDENSE_OBSOLETE_PERCENT,
            &CONDENSE_MAPPING_BYTES_MIN,
            &CONDENSE_MAP_BYTES_MAX,
            &CONDENSED_ENTRIES,
            &REMOVAL_SEGMENT_BYTES,
        ] {
            limit.reset();
        }
    }
}

fn import(images: &[PathBuf]) -> Arc<Pool> {
    let mut options = ImportOptions::new(images.to_vec(), Selection::Only);
    options.force = true;
    options.cache_bytes = 16 << 20;
    Pool::import(&options).unwrap()
}

/// Entries of all mappings, in memory and as stored.
fn entries(pool: &Pool) -> (usize, u64) {
    let removed = pool.vdevs.removed();
    let known = removed.iter().map(|top| top.mapping().unwrap().len());
    let config = pool.config();
    let tops = config.root.children.iter().filter(|top| top.is_indirect());
    let stored = tops.map(|top| {
        let id = top.object(keys::INDIRECT_OBJECT).unwrap();
        let mapping = MappingObject::open(&pool.services.mos, id).unwrap();
        mapping.phys().entries
    });
    (known.sum(), stored.sum())
}

/// Whether a removed vdev has a map of what is obsolete.
fn has_map(pool: &Pool, top: &crate::VdevConfig) -> bool {
    let zap: ObjectId = top.object(keys::VDEV_ZAP_TOP).unwrap();
    let zap = Zap::open(&pool.services.mos.object(zap).unwrap()).unwrap();
    let key = vdev_zap::OBSOLETE_SPACE_MAP.as_bytes();
    zap.lookup(key).unwrap().is_some()
}

fn is_stored(pool: &Pool) -> bool {
    let key = directory::CONDENSING_INDIRECT.as_bytes();
    pool.services.directory.lookup_value(key).unwrap().is_some()
}

/// Some txgs, and more until nothing is shortened any more.
fn until_short(pool: &Pool) {
    for txg in 0..10_000 {
        pool.sync().unwrap();
        if !pool.is_condensing() && txg > 4 {
            return;
        }
    }
    panic!("it does not end");
}

fn scrub(pool: &Arc<Pool>) {
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
}

fn destroy_some(pool: &Arc<Pool>) {
    let path = format!("{}/d", pool.name());
    pool.dsl().run(DestroyHead { path }).unwrap();
    while pool.dsl().has_background_frees().unwrap() {
        pool.sync().unwrap();
    }
}

/// A copy of the pool as exported when its mapping was half-way to a shorter one, and the entries that it had before.
/// Its txgs follow each other without being asked: one that was at its end already is done again.
fn half_way(golden: &golden::GoldenPool, limits: &Limits) -> (TempDir, Vec<PathBuf>, (usize, u64)) {
    for _ in 0..100 {
        let (folder, images) = golden.copy();
        let pool = import(&images);
        let before = entries(&pool);
        assert_eq!(before.0 as u64, before.1);
        limits.keep_short_ones();
        destroy_some(&pool);
        pool.sync().unwrap();
        assert!(!pool.is_condensing() && !is_stored(&pool), "it is small");
        limits.shorten_all(1);
        let writer = pool.writer().unwrap();
        writer.syncer.allocator.obsolete.note_again();
        pool.sync().unwrap();
        writer.condenser.close();
        pool.sync().unwrap();
        if is_stored(&pool) {
            assert!(pool.is_condensing());
            assert_eq!(entries(&pool), before);
            pool.export().unwrap();
            return (folder, images, before);
        }
    }
    panic!("it is always at its end");
}

/// A pool of OpenZFS's: at each moment it is one that OpenZFS could have written, also exported half-way.
#[test]
fn the_mapping_of_a_golden_pool_gets_shorter() {
    let Some(golden) = golden::pool("removed") else {
        return;
    };
    let limits = Limits::default();
    let (folder, images, before) = half_way(&golden, &limits);
    let check = || {
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), &golden.pool_name());
        }
    };
    let mut half_way = 0;
    check();
    let mut pool = import(&images);
    while is_stored(&pool) && half_way < 6 {
        assert!(pool.is_condensing());
        assert_eq!(entries(&pool), before, "everybody goes by the old one");
        pool.sync().unwrap();
        half_way += 1;
        pool.export().unwrap();
        drop(pool);
        check();
        pool = import(&images);
    }
    CONDENSED_ENTRIES.set(10_000);
    until_short(&pool);
    let after = entries(&pool);
    println!("{before:?} {after:?}, {half_way} times exported half-way");
    assert!(after.0 < before.0 && after.0 as u64 == after.1);
    assert!(!is_stored(&pool));
    scrub(&pool);
    pool.export().unwrap();
    drop(pool);
    check();
    let pool = import(&images);
    assert_eq!(entries(&pool), after);
    scrub(&pool);
    pool.export().unwrap();
    drop(pool);
    check();
}

/// Two devices are removed one after the other, what the first one held lies partly on the second: both mappings get
/// shorter beside changes, and everything is read.
#[test]
fn mappings_that_lead_to_each_other_get_shorter_beside_changes() {
    let _limits = Limits::all_get_shorter(50);
    let folder = tempfile::tempdir().unwrap();
    let device = |index: usize| {
        let path = folder.path().join(format!("{index}.img"));
        device::FileDevice::create(&path, 400 << 20).unwrap();
        NewVdev::Single(NewDevice::Path(path))
    };
    let vdevs = (0..3).map(device).collect();
    let pool = Pool::create(CreateOptions::new("tank", vdevs)).unwrap();
    let mut churn = Churn::new(&pool, 9);
    let before = METERS.dropped.get();
    churn.run(&pool, 5);
    for id in [1, 2] {
        let guid = pool.config().root.children[id].guid();
        pool.remove_vdev(guid).unwrap();
        pool.wait_removal().unwrap();
        churn.run(&pool, 4);
        churn.check(&pool);
        let config = pool.config();
        assert_eq!(config.root.children[id].kind(), VdevType::Indirect.name());
    }
    churn.run(&pool, 6);
    until_short(&pool);
    assert!(METERS.dropped.get() > before, "entries went");
    churn.check(&pool);
    scrub(&pool);
    pool.export().unwrap();
    drop(pool);
    let images = vec![folder.path().join("0.img")];
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
    let pool = import(&images);
    churn.check(&pool);
    pool.export().unwrap();
}

/// While there is a checkpoint nothing is shortened, and a pool that is taken back has its old mapping.
#[test]
fn a_checkpoint_holds_it_up() {
    let Some(golden) = golden::pool("removed") else {
        return;
    };
    let (folder, images) = golden.copy();
    let limits = Limits::default();
    let pool = import(&images);
    let before = entries(&pool);
    pool.take_checkpoint().unwrap();
    drop(limits);
    let _limits = Limits::all_get_shorter(10);
    destroy_some(&pool);
    for _ in 0..6 {
        pool.sync().unwrap();
    }
    assert!(!pool.is_condensing() && entries(&pool) == before);
    pool.export().unwrap();
    drop(pool);
    let mut options = ImportOptions::new(images.clone(), Selection::Only);
    options.to_checkpoint = true;
    let pool = Pool::import(&options).unwrap();
    destroy_some(&pool);
    until_short(&pool);
    assert!(entries(&pool).0 < before.0);
    scrub(&pool);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), &golden.pool_name());
    }
}

/// What says that something is under way may be damaged: the pool is imported, and goes by the old mapping.
#[test]
fn a_shorter_mapping_that_is_damaged_is_left_alone() {
    let Some(golden) = golden::pool("removed") else {
        return;
    };
    let limits = Limits::default();
    let (_folder, images, _) = half_way(&golden, &limits);
    let words: [&[u64]; 3] = [&[1], &[0, 0, 0], &[1, 1, 1]];
    for words in words {
        let pool = import(&images);
        // It goes on from where it was, and may be at its end by now.
        pool.writer().unwrap().condenser.close();
        pool.sync().unwrap();
        let before = entries(&pool);
        let key = directory::CONDENSING_INDIRECT.as_bytes();
        let reservation = dmu::Reservation::default();
        let tx = dmu::Tx::assign(pool.engine().unwrap(), &reservation).unwrap();
        let value = Value::words(words);
        pool.services
            .directory
            .update_value(&tx, key, &value)
            .unwrap();
        drop(tx);
        pool.sync().unwrap();
        pool.export().unwrap();
        drop(pool);
        let pool = import(&images);
        pool.sync().unwrap();
        assert!(!pool.is_condensing());
        assert_eq!(entries(&pool), before);
        scrub(&pool);
        pool.export().unwrap();
    }
}

#[test]
fn a_long_map_is_a_reason_too() {
    let Some(golden) = golden::pool("removed") else {
        return;
    };
    let (_folder, images) = golden.copy();
    let _limits = Limits::default();
    CONDENSE_MAP_BYTES_MAX.set(8);
    let pool = import(&images);
    destroy_some(&pool);
    until_short(&pool);
    let config = pool.config();
    let mut removed = config.root.children.iter().filter(|top| top.is_indirect());
    assert!(removed.all(|top| !has_map(&pool, top)), "it was applied");
    pool.export().unwrap();
}
