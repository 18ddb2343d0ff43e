//! No uberblock follows a broken invariant, whoever finds it and when.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::invariant::Findings;
use device::FileDevice;
use dmu::{ObjectSet, Tx};
use dsl::tasks::CreateDataset;
use format::{ObjectSetKind, features};

use crate::Pool;
use crate::create::CreateOptions;
use crate::import::options::{ImportOptions, Selection};
use crate::vdevs::new::{NewDevice, NewVdev};

const SIZE: u64 = 96 << 20;
const LABEL: usize = 256 << 10;

fn device(folder: &Path) -> PathBuf {
    folder.join("data")
}

fn create(folder: &Path) -> Arc<Pool> {
    FileDevice::create(&device(folder), SIZE).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(device(folder)));
    Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap()
}

/// The rings of uberblocks in the first two labels and in the last two.
fn uberblocks(folder: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(device(folder)).unwrap();
    let end = bytes.len() / LABEL * LABEL;
    let starts = [0, LABEL, end - 2 * LABEL, end - LABEL];
    let ring = |start: usize| bytes[start + LABEL / 2..start + LABEL].to_vec();
    starts.map(ring).to_vec()
}

/// A file system whose creation does `also`, in the middle of a sync.
fn task(name: &str, also: impl FnMut(&Tx) + Send + 'static) -> CreateDataset {
    let mut also = also;
    let populate = move |_: &Arc<ObjectSet>, tx: &Tx| -> Result<(), String> {
        also(tx);
        Ok(())
    };
    CreateDataset {
        path: format!("tank/{name}"),
        kind: ObjectSetKind::Volume,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(Box::new(populate)),
    }
}

fn findings(pool: &Pool) -> Arc<Findings> {
    Arc::clone(pool.engine().unwrap().findings())
}

/// Has `fault` happen in a pool: it stops without an uberblock, says why, and can be imported as it was.
#[track_caller]
pub(crate) fn assert_stops(name: &str, fault: impl FnOnce(&Arc<Pool>)) {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let pool = create(folder);
    pool.dsl().run(task("before", |_| ())).unwrap();
    pool.sync().unwrap();
    let (before, on_disk) = (uberblocks(folder), pool.on_disk());
    fault(&pool);
    pool.dsl().run(task("after", |_| ())).unwrap_err();
    pool.sync().unwrap_err();
    let said = pool.stopped().unwrap();
    assert!(
        said.contains(&format!("an invariant is broken: {name}: ")),
        "{said}"
    );
    assert_eq!(pool.suspended(), Some(said));
    assert!(uberblocks(folder) == before, "an uberblock was written");
    assert_eq!(pool.on_disk(), on_disk);
    // What it has accepted can be read.
    assert!(pool.dsl().dataset("tank/before").is_ok());
    pool.clear(&|_| true).unwrap_err();
    pool.abandon();
    drop(pool);
    let options = ImportOptions::new(vec![folder.to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    assert!(pool.dsl().dataset("tank/before").is_ok());
    assert!(pool.dsl().dataset("tank/after").is_err());
    pool.export().unwrap();
}

#[test]
fn what_the_syncing_thread_finds_stops_the_txg() {
    assert_stops("test.task", |pool| {
        let findings = findings(pool);
        let note = move |_: &Tx| findings.note("test.task", format_args!("found in a task"));
        pool.dsl().run(task("lost", note)).unwrap_err();
    });
}

#[test]
fn what_a_caller_finds_stops_the_next_txg() {
    assert_stops("test.caller", |pool| {
        findings(pool).note("test.caller", format_args!("found beside a sync"));
    });
}

#[test]
fn another_pool_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let other = create(folder.path());
    assert_stops("test.one", |pool| {
        findings(pool).note("test.one", format_args!("of this pool"));
    });
    other.dsl().run(task("more", |_| ())).unwrap();
    other.sync().unwrap();
    assert_eq!(other.stopped(), None);
    other.export().unwrap();
}

/// A task that takes a user off a feature that has none.
fn miscount(pool: &Arc<Pool>) -> dsl::Result<()> {
    let services = Arc::clone(&pool.services);
    assert_eq!(services.features.references(&features::BOOKMARKS), Some(0));
    let change = move |tx: &Tx| {
        let changed = services.change_feature(tx, &features::BOOKMARKS, -1);
        changed.unwrap();
    };
    pool.dsl().run(task("lost", change)).map(|_| ())
}

#[test]
fn features_lose_no_user_that_they_do_not_have() {
    assert_stops("pool.features", |pool| {
        miscount(pool).unwrap_err();
    });
}

/// Who counted before may have missed one.
#[test]
fn a_count_of_features_that_was_wrong_on_disk_is_no_broken_invariant() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    create(folder).export().unwrap();
    let options = ImportOptions::new(vec![folder.to_owned()], Selection::Only);
    let pool = Pool::import(&options).unwrap();
    miscount(&pool).unwrap();
    assert_eq!(pool.stopped(), None);
    let users = pool.features().references(&features::BOOKMARKS);
    assert_eq!(users, Some(0));
    pool.export().unwrap();
}
