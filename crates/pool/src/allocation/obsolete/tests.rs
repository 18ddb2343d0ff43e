use super::*;
use crate::pool::Pool;
use crate::{ImportOptions, Selection};
use base::ObjectId;
use dsl::tasks::{DestroyHead, DestroySnapshots, Snapshot};
use std::path::PathBuf;

fn import(images: &[PathBuf]) -> Arc<Pool> {
    let mut options = ImportOptions::new(images.to_vec(), Selection::Only);
    options.force = true;
    options.cache_bytes = 16 << 20;
    Pool::import(&options).unwrap()
}

/// Bytes of removed vdevs that nothing refers to, as noted.
fn noted(pool: &Pool) -> i64 {
    let services = &pool.services;
    let config = services.config.get();
    let removed = config.root.children.iter().filter(|top| top.is_indirect());
    let zaps = removed.filter_map(|top| top.object(keys::VDEV_ZAP_TOP));
    let of = |zap: ObjectId| {
        let zap = Zap::open(&services.mos.object(zap).unwrap()).unwrap();
        let key = format::config::vdev_zap::OBSOLETE_SPACE_MAP.as_bytes();
        let map = zap.lookup(key).unwrap().map(ObjectId);
        let maps = &pool.writer().unwrap().syncer.maps;
        map.map_or(0, |map| maps.read(map).unwrap().allocated)
    };
    zaps.map(of).sum()
}

#[test]
fn ranges_that_touch_are_one() {
    assert_eq!(
        merged(vec![8..12, 0..4, 4..8, 16..20, 18..24]),
        [0..12, 16..24]
    );
    assert!(merged(Vec::new()).is_empty());
}

#[test]
fn what_lay_on_a_removed_device_is_freed_where_it_lies_now() {
    let Some(golden) = golden::pool("removed") else {
        return;
    };
    let _limits = crate::condensing::tests::Limits::default();
    let (folder, images) = golden.copy();
    let check = || {
        if let Some(zdb) = golden::Zdb::from_environment() {
            zdb.assert_clean(folder.path(), &golden.pool_name());
        }
    };
    let name = golden.pool_name();
    let pool = import(&images);
    let before = (noted(&pool), pool.status().unwrap().space.allocated);
    let snapshot = format!("{name}/d@s");
    let names = vec![snapshot.clone()];
    let properties = Vec::new();
    pool.dsl().run(Snapshot { names, properties }).unwrap();
    pool.export().unwrap();
    drop(pool);
    check();
    let pool = import(&images);
    let names = vec![snapshot];
    let defer = false;
    pool.dsl().run(DestroySnapshots { names, defer }).unwrap();
    let path = format!("{name}/d");
    pool.dsl().run(DestroyHead { path }).unwrap();
    while pool.dsl().has_background_frees().unwrap() {
        pool.sync().unwrap();
    }
    for _ in 0..3 {
        pool.sync().unwrap();
    }
    let after = (noted(&pool), pool.status().unwrap().space.allocated);
    println!("{before:?} {after:?}");
    // Half of 1.5 MB lay there.
    assert!(after.0 > before.0 + 400_000, "{before:?} {after:?}");
    assert!(after.1 + 1_000_000 < before.1, "{before:?} {after:?}");
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    pool.export().unwrap();
    drop(pool);
    check();
}
