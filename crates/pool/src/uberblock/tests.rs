//! No uberblock follows a broken invariant, whoever finds it and when.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::invariant::Findings;
use device::FileDevice;
use dmu::{ObjectSet, Tx};
use dsl::tasks::CreateDataset;
use format::ObjectSetKind;

use crate::Pool;
use crate::create::CreateOptions;
use crate::import::{ImportOptions, Selection};
use crate::new_vdev::{NewDevice, NewVdev};

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
fn task(name: &str, also: impl FnMut() + Send + 'static) -> CreateDataset {
    let mut also = also;
    let populate = move |_: &Arc<ObjectSet>, _: &Tx| -> Result<(), String> {
        also();
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
    pool.dsl().run(task("before", || ())).unwrap();
    pool.sync().unwrap();
    let (before, on_disk) = (uberblocks(folder), pool.on_disk());
    fault(&pool);
    pool.dsl().run(task("after", || ())).unwrap_err();
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
        let note = move || findings.note("test.task", format_args!("found in a task"));
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
    other.dsl().run(task("more", || ())).unwrap();
    other.sync().unwrap();
    assert_eq!(other.stopped(), None);
    other.export().unwrap();
}
