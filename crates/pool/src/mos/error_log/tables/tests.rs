//! The error log: what is noted, kept over imports, and forgotten.

use std::os::unix::fs::FileExt;

use super::*;
use crate::churn::Churn;
use crate::{CreateOptions, ImportOptions, NewDevice, NewVdev, Pool, Selection};

#[test]
fn names_tell_the_places() {
    let error = DataError {
        dataset: ObjectId(0x36),
        object: ObjectId(0xa),
        level: -1,
        block: 255,
        birth: Some(Txg(17)),
    };
    assert_eq!(
        parse_of_head(0x36, b"a:ffffffffffffffff:ff:11"),
        Some(error)
    );
    let flat = DataError {
        birth: None,
        ..error
    };
    assert_eq!(parse_flat(b"36:a:ffffffffffffffff:ff"), Some(flat));
    for bad in [&b""[..], b"1:2:3", b"1:2:3:4:5", b"1:2:x:4", b"\xff:1:1:1"] {
        assert_eq!(parse_flat(bad), None);
    }
}

/// Damage is found by a scrub, stored, still known after an import, and gone with the next scrub
/// once what was damaged is no more.
#[test]
fn damage_is_remembered_until_a_scrub_finds_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tank.img");
    device::FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(path.clone()));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    let mut churn = Churn::new(&pool, 13);
    churn.run(&pool, 3);
    let (place, object) = churn.some_block(&pool);
    let (dva, birth) = (place.dvas().next().unwrap(), place.birth());
    pool.export().unwrap();
    drop(pool);
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xEE; 512], dva.offset + (4 << 20))
        .unwrap();
    let options = ImportOptions::new(vec![folder.path().to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 1);
    let errors = pool.status().unwrap().errors;
    let [error] = errors.as_slice() else {
        panic!("{errors:?}");
    };
    assert_eq!(
        (error.object, error.birth, error.level),
        (object, Some(birth), 0)
    );
    let head = error.dataset;
    assert!(
        pool.dsl()
            .dataset_by_id(head)
            .is_ok_and(|head| !head.is_snapshot())
    );
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        // Of the data only the block is wrong, and the log is where zdb looks for it.
        let out = zdb.run(folder.path(), &["-dddd"], &["tank", "1"]);
        let text = String::from_utf8_lossy(&out.stdout);
        let stored = text
            .lines()
            .find(|line| line.contains("errlog_last"))
            .unwrap();
        assert!(!stored.trim().ends_with("= 0"), "{text}");
        let leaks = zdb.run(folder.path(), &["-bb"], &["tank"]);
        assert!(String::from_utf8_lossy(&leaks.stdout).contains("No leaks"));
    }
    let pool = Pool::import(&options).unwrap();
    assert_eq!(pool.status().unwrap().errors, errors);
    churn.destroy_all(&pool);
    assert_eq!(pool.status().unwrap().errors, []);
    pool.start_scrub().unwrap();
    pool.wait_scrub().unwrap();
    pool.sync().unwrap();
    assert_eq!(pool.scan().unwrap().unwrap().errors, 0);
    assert_eq!(pool.status().unwrap().errors, []);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
}
