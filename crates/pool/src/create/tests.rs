//! New pools, as we and as OpenZFS's zdb see them.

use super::*;
use crate::import::{ImportOptions, Selection};

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
