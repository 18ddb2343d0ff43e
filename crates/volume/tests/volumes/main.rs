//! Volumes on real pools: what OpenZFS wrote, what is written is there after an export, and what a crash leaves.

mod crashes;
mod golden_pool;
mod rules;

use std::path::Path;
use std::sync::Arc;

use dsl::{Dataset, PropertyValue, SetProperties};
use format::ObjectSetKind;
use intent::{LogBias, SyncPolicy};
use millpond_volume::{Source, Volume};
use pool::{ImportOptions, Pool, Selection};
use torture::test_pool::{POOL, TestPool};

/// Makes a volume and says its name.
fn create(pool: &Pool, short: &str, size: u64, block_size: u64) -> String {
    let path = format!("{POOL}/{short}");
    let task = dsl::tasks::CreateDataset {
        path: path.clone(),
        kind: ObjectSetKind::Volume,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(Box::new(move |set, tx| {
            dsl::volume::populate(set, tx, size, block_size).map_err(|error| error.to_string())
        })),
    };
    pool.dsl().run(task).unwrap();
    path
}

fn source(pool: &Pool, dataset: &Arc<Dataset>) -> Source {
    let log = match dataset.is_snapshot() {
        true => None,
        false => pool.intent_log(dataset).unwrap(),
    };
    Source {
        objects: dataset.object_set().unwrap(),
        engine: pool.engine().filter(|_| log.is_some()).cloned(),
        log,
        admission: Some(dataset.admission()),
        read_only: false,
    }
}

/// Opens a volume after its log was replayed; says how many records that were.
fn open(pool: &Pool, name: &str) -> (Volume, u64) {
    let dataset = pool.dsl().dataset(name).unwrap();
    let mut records = 0;
    if let Some(log) = source(pool, &dataset).log {
        let done = millpond_volume::replay(source(pool, &dataset), &log).unwrap();
        assert_eq!((done.failed, done.lost), (None, Vec::new()), "{name}");
        records = done.records;
    }
    (Volume::open(source(pool, &dataset)).unwrap(), records)
}

fn set_policy(pool: &Pool, name: &str, sync: SyncPolicy, bias: LogBias) {
    let dataset = pool.dsl().dataset(name).unwrap();
    let log = pool.intent_log(&dataset).unwrap().unwrap();
    log.set_policy(sync, bias);
}

fn set_number(pool: &Pool, name: &str, property: &str, value: u64) {
    let change = dsl::PropertyChange::Set(PropertyValue::Number(value));
    let task = SetProperties {
        name: name.to_owned(),
        changes: vec![(property.to_owned(), change)],
    };
    pool.dsl().run(task).unwrap();
}

fn contents(volume: &Volume) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(volume.size()).unwrap()];
    volume.read_at(0, &mut bytes).unwrap();
    bytes
}

fn import(folder: &Path, read_only: bool) -> TestPool {
    let mut options = ImportOptions::new(vec![folder.to_owned()], Selection::Only);
    options.read_only = read_only;
    options.force = true;
    TestPool::import_as(&options).unwrap()
}
