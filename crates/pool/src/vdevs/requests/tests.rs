//! Vdevs of every class that come, are used, and go: zdb finds nothing wrong.

use dsl::PropertyValue;
use std::path::{Path, PathBuf};

use device::FileDevice;
use space::ClassKind;

use super::*;
use crate::churn::Churn;
use crate::create::CreateOptions;
use crate::import::options::{ImportOptions, Selection};
use crate::vdevs::new::NewDevice;

const SIZE: u64 = 96 << 20;

fn file(folder: &Path, name: &str) -> NewDevice {
    let path: PathBuf = folder.join(name);
    FileDevice::create(&path, SIZE).unwrap();
    NewDevice::Path(path)
}

fn single(folder: &Path, name: &str) -> NewVdev {
    NewVdev::Single(file(folder, name))
}

fn mirror(folder: &Path, names: [&str; 2]) -> NewVdev {
    NewVdev::Mirror(names.map(|name| file(folder, name)).to_vec())
}

/// Exports the pool, has zdb look at it, and answers what zdb shows of its configuration.
fn close(pool: Arc<Pool>, folder: &Path) -> Option<String> {
    let name = pool.name();
    pool.export().unwrap();
    drop(pool);
    let zdb = golden::Zdb::from_environment()?;
    zdb.assert_clean(folder, &name);
    let shown = zdb.run(folder, &["-C"], &[&name]);
    Some(String::from_utf8_lossy(&shown.stdout).into_owned())
}

fn options(folder: &Path) -> ImportOptions {
    ImportOptions::new(vec![folder.to_owned()], Selection::Only)
}

fn roles(pool: &Pool) -> Vec<VdevRole> {
    let status = pool.status().unwrap();
    status.root.children.iter().map(|top| top.role).collect()
}

fn used(pool: &Pool, class: ClassKind) -> u64 {
    pool.space.as_ref().unwrap().allocated_bytes(class)
}

#[test]
fn a_new_pool_has_vdevs_of_every_class() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut create = CreateOptions::new("tank", vec![single(folder, "data")]);
    create.others = vec![
        (VdevRole::Log, mirror(folder, ["log0", "log1"])),
        (VdevRole::Special, single(folder, "special")),
        (VdevRole::Dedup, single(folder, "dedup")),
    ];
    let wanted = [
        VdevRole::Data,
        VdevRole::Log,
        VdevRole::Special,
        VdevRole::Dedup,
    ];
    let pool = Pool::create(create).unwrap();
    assert_eq!(roles(&pool), wanted);
    let mut churn = Churn::new(&pool, 1);
    churn.run(&pool, 4);
    assert!(used(&pool, ClassKind::Special) > 0, "metadata go there");
    assert_eq!(used(&pool, ClassKind::Dedup), 0);
    close(pool, folder);
    let pool = Pool::import(&options(folder)).unwrap();
    assert_eq!(roles(&pool), wanted);
    churn.check(&pool);
    churn.run(&pool, 2);
    close(pool, folder);
}

#[test]
fn added_vdevs_are_used_and_a_log_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let create = CreateOptions::new("tank", vec![single(folder, "data")]);
    let pool = Pool::create(create).unwrap();
    let mut churn = Churn::new(&pool, 2);
    churn.run(&pool, 2);
    let new = [
        (VdevRole::Log, single(folder, "log")),
        (VdevRole::Data, mirror(folder, ["more0", "more1"])),
        (VdevRole::Special, single(folder, "special")),
    ];
    pool.add_vdevs(&new, None, false).unwrap();
    let size = pool.space().size;
    assert!(size > 2 * SIZE, "{size}");
    churn.run(&pool, 3);
    close(pool, folder);
    let pool = Pool::import(&options(folder)).unwrap();
    churn.check(&pool);
    churn.run(&pool, 2);
    let log = pool.config().root.children[1].guid();
    let data = pool.config().root.children[2].guid();
    pool.remove_log(data).unwrap_err();
    pool.remove_log(log).unwrap();
    assert!(matches!(
        pool.remove_log(log),
        Err(PoolError::NoSuchVdev { .. })
    ));
    assert!(
        crate::import::discover::discover(&[folder.join("log")])
            .unwrap()
            .is_empty()
    );
    churn.run(&pool, 2);
    if let Some(shown) = close(pool, folder) {
        assert!(shown.contains("type: 'hole'"), "{shown}");
        assert!(shown.contains("hole_array[0]: 1"), "{shown}");
    }
    std::fs::remove_file(folder.join("log")).unwrap();
    let pool = Pool::import(&options(folder)).unwrap();
    churn.check(&pool);
    // The number of the hole is not used again.
    let again = [(VdevRole::Log, single(folder, "again"))];
    pool.add_vdevs(&again, None, false).unwrap();
    assert_eq!(pool.config().root.children.len(), 5);
    churn.run(&pool, 2);
    close(pool, folder);
}

/// A crash after the new vdev got its labels and before its txg: the pool is as before.
#[test]
fn labels_of_an_addition_that_never_was_do_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pool = Pool::create(CreateOptions::new("tank", vec![single(folder, "data")])).unwrap();
    pool.sync().unwrap();
    std::fs::copy(folder.join("data"), folder.join("before")).unwrap();
    let new = [(VdevRole::Log, single(folder, "log"))];
    pool.add_vdevs(&new, None, false).unwrap();
    pool.export().unwrap();
    drop(pool);
    std::fs::rename(folder.join("before"), folder.join("data")).unwrap();
    let mut options = options(folder);
    options.selection = Selection::Name("tank".to_owned());
    options.force = true;
    // The log's label is of a pool that the data know nothing of.
    let refused = Pool::import(&options);
    if let Ok(pool) = refused {
        assert_eq!(roles(&pool), [VdevRole::Data]);
    }
}

#[test]
fn a_pool_without_its_log_device_is_imported_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut create = CreateOptions::new("tank", vec![single(folder, "data")]);
    create.others = vec![(VdevRole::Log, single(folder, "log"))];
    let pool = Pool::create(create).unwrap();
    let mut churn = Churn::new(&pool, 3);
    churn.run(&pool, 2);
    close(pool, folder);
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::rename(folder.join("log"), elsewhere.path().join("log")).unwrap();
    let refused = Pool::import(&options(folder)).map(drop).unwrap_err();
    assert!(
        matches!(&refused, PoolError::MissingLogs { paths } if paths[0].ends_with("log")),
        "{refused}"
    );
    let mut asked = options(folder);
    asked.without_logs = true;
    let pool = Pool::import(&asked).unwrap();
    churn.check(&pool);
    churn.run(&pool, 2);
    let status = pool.status().unwrap();
    assert!(!status.root.children[1].condition.state.is_usable());
    assert!(status.root.condition.state.is_usable());
    let log = pool.config().root.children[1].guid();
    pool.remove_log(log).unwrap();
    close(pool, folder);
    let pool = Pool::import(&options(folder)).unwrap();
    churn.check(&pool);
    close(pool, folder);
}

#[test]
fn vdevs_that_are_added_follow_the_property_ashift() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let mut create = CreateOptions::new("tank", vec![single(folder, "one")]);
    create.ashift = Some(12);
    create.properties = vec![("ashift".to_owned(), PropertyValue::Number(12))];
    let pool = Pool::create(create).unwrap();
    let add = |name: &str, ashift| {
        let vdev = [(VdevRole::Data, single(folder, name))];
        pool.add_vdevs(&vdev, ashift, false).unwrap();
    };
    add("two", None);
    add("three", Some(9));
    let change = vec![("ashift".to_owned(), PropertyValue::Number(13))];
    pool.set_properties(change).unwrap();
    add("four", None);
    let config = pool.config();
    let shifts: Vec<u32> = config
        .root
        .children
        .iter()
        .map(|top| top.ashift())
        .collect();
    assert_eq!(shifts, [12, 12, 9, 13]);
    close(pool, folder);
}
