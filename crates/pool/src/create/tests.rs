//! New pools, as we and as OpenZFS's zdb see them.

use super::*;
use crate::churn::Churn;
use crate::import::options::{ImportOptions, Selection};
use crate::vdevs::new::NewDevice;
use device::FileDevice;
use std::path::Path;

const SIZE: u64 = 96 << 20;

fn file(folder: &Path, name: &str) -> NewDevice {
    let path = folder.join(name);
    FileDevice::create(&path, SIZE).unwrap();
    NewDevice::Path(path)
}

fn check(folder: &Path, name: &str) {
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder, name);
    }
}

#[test]
fn a_new_pool_is_clean_and_opens_again() {
    let folder = tempfile::tempdir().unwrap();
    let vdev = NewVdev::Single(file(folder.path(), "one.img"));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let guid = pool.guid();
    pool.export().unwrap();
    drop(pool);
    check(folder.path(), "tank");
    let mut options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options.clone().read_only()).unwrap();
    assert_eq!((pool.guid(), pool.name().as_str()), (guid, "tank"));
    drop(pool);
    options.selection = Selection::Name("tank".to_owned());
    let pool = Pool::import(&options).unwrap();
    pool.export().unwrap();
    drop(pool);
    check(folder.path(), "tank");
}

#[test]
fn reserved_words_are_those_of_datasets() {
    use dsl::name::{RESERVED_POOL_NAMES, RESERVED_POOL_PREFIXES};
    for word in RESERVED_POOL_NAMES.iter().chain(&RESERVED_POOL_PREFIXES) {
        let refused = check_name(word);
        assert!(matches!(refused, Err(PoolError::BadName { .. })), "{word}");
    }
    assert!(check_name("tank").is_ok());
}

#[test]
fn mirrors_and_every_sector_size_are_clean() {
    for ashift in [9, 12, 13, 16] {
        let folder = tempfile::tempdir().unwrap();
        let mirror = NewVdev::Mirror(vec![
            file(folder.path(), "a.img"),
            file(folder.path(), "b.img"),
        ]);
        let single = NewVdev::Single(file(folder.path(), "c.img"));
        let mut options = CreateOptions::new("tank", vec![mirror, single]);
        options.ashift = Some(ashift);
        let pool = Pool::create(options).unwrap();
        let mut churn = Churn::new(&pool, u64::from(ashift));
        churn.run(&pool, 4);
        pool.export().unwrap();
        drop(pool);
        check(folder.path(), "tank");
    }
}

#[test]
fn a_full_pool_refuses_writes_and_still_frees() {
    for (ashift, features) in [(9, None), (12, None), (12, Some(Vec::new()))] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("small.img");
        FileDevice::create(&path, 64 << 20).unwrap();
        let vdev = NewVdev::Single(NewDevice::Path(path));
        let mut options = CreateOptions::new("small", vec![vdev]);
        options.ashift = Some(ashift);
        options.features = features;
        let pool = Pool::create(options).unwrap();
        let mut full = crate::churn::Filler::new(&pool, 3);
        for round in 0..3 {
            let written = full.fill(&pool);
            println!(
                "ashift {ashift} round {round}: {written} bytes, {:?}",
                pool.space()
            );
            full.punch(&pool);
            pool.sync().unwrap();
        }
        println!("{:?}", pool.pipeline().statistics());
        full.check(&pool);
        pool.export().unwrap();
        drop(pool);
        check(folder.path(), "small");
        let import = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
        let pool = Pool::import(&import).unwrap();
        full.check(&pool);
        full.destroy(&pool);
        for _ in 0..4 {
            pool.sync().unwrap();
        }
        assert!(pool.space().allocated < 8 << 20, "{:?}", pool.space());
        pool.export().unwrap();
        drop(pool);
        check(folder.path(), "small");
    }
}
