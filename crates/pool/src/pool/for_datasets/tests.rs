//! Tasks that fail in a pool, as the pool and zdb see it.

use std::sync::Arc;

use device::FileDevice;
use dmu::{AllocateObject, Reservation, Tx};
use dsl::tasks::{CreateDataset, Hold, Populate, Snapshot};
use dsl::{DslError, Task, TaskContext};
use format::{ObjectSetKind, ObjectType};
use tempfile::TempDir;

use crate::create::CreateOptions;
use crate::error::PoolError;
use crate::events::EventValue;
use crate::pool::Pool;
use crate::vdevs::new::{NewDevice, NewVdev};

fn pool() -> (TempDir, Arc<Pool>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.img");
    FileDevice::create(&path, 96 << 20).unwrap();
    let vdev = NewVdev::Single(NewDevice::Path(path));
    let pool = Pool::create(CreateOptions::new("tank", vec![vdev])).unwrap();
    (folder, pool)
}

fn create(path: &str, end: fn() -> Result<(), String>) -> CreateDataset {
    let populate: Populate = Box::new(move |objects, tx| {
        let shape = AllocateObject {
            object_type: ObjectType::PLAIN_OTHER,
            block_size: 4096,
            ..AllocateObject::default()
        };
        for _ in 0..50 {
            let object = objects.allocate(tx, &shape).unwrap();
            object.write(tx, 0, &[7; 40_000]).unwrap();
        }
        end()
    });
    CreateDataset {
        path: path.to_owned(),
        kind: ObjectSetKind::Other,
        properties: Vec::new(),
        case_insensitive: false,
        populate: Some(populate),
    }
}

/// A task that has done all when it fails.
struct FailsLate<T>(T);

impl<T: Task> Task for FailsLate<T> {
    type Output = T::Output;

    fn check(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        self.0.check(context)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> dsl::Result<T::Output> {
        self.0.apply(context)?;
        Err(DslError::NoSpace)
    }
}

/// How many events there are of a dataset.
fn told_of(pool: &Pool, dataset: &str) -> usize {
    let wanted = ("history_dsname", EventValue::Text(dataset.to_owned()));
    let events = pool.events(0);
    let of = events.iter().filter(|event| event.fields.contains(&wanted));
    of.count()
}

#[test]
fn a_task_that_fails_leaves_the_pool_as_it_was() {
    let (folder, pool) = pool();
    let dsl = pool.dsl();
    dsl.run(create("tank/a", || Ok(()))).unwrap();
    let taken = Snapshot {
        names: vec!["tank/a@s".to_owned()],
        properties: Vec::new(),
    };
    dsl.run(taken).unwrap();
    let twice = || {
        let hold = ("tank/a@s".to_owned(), "tag".to_owned());
        Hold {
            holds: vec![hold.clone(), hold],
        }
    };
    dsl.run(twice()).unwrap();
    dsl.run(twice()).unwrap_err();
    let late = FailsLate(create("tank/b", || Ok(())));
    assert!(matches!(dsl.run(late), Err(DslError::NoSpace)));
    let refuse = || Err("no".to_owned());
    for _ in 0..3 {
        let error = dsl.run(create("tank/b", refuse)).unwrap_err();
        assert!(error.to_string().contains("no"), "{error}");
        assert!(dsl.head("tank/b").is_err());
    }
    assert_eq!(pool.suspended(), None);
    assert_eq!(told_of(&pool, "tank/b"), 0, "nothing of it happened");
    dsl.run(create("tank/b", || Ok(()))).unwrap();
    assert!(told_of(&pool, "tank/b") > 0);
    pool.export().unwrap();
    drop(pool);
    if let Some(zdb) = golden::Zdb::from_environment() {
        zdb.assert_clean(folder.path(), "tank");
    }
}

#[test]
fn a_pool_that_stopped_for_good_says_so_and_takes_no_changes() {
    let (_folder, pool) = pool();
    let dsl = pool.dsl();
    let fault = || panic!("this cannot be");
    dsl.run(create("tank/a", fault)).unwrap_err();
    let reason = pool.stopped().unwrap();
    assert!(reason.contains("this cannot be"), "{reason}");
    assert_eq!(pool.suspended().as_ref(), Some(&reason));
    let engine = pool.engine().unwrap();
    assert!(Tx::assign(engine, &Reservation::default()).is_err());
    let cleared = pool.clear(&|_| true);
    assert!(matches!(cleared, Err(PoolError::Stopped { .. })));
    pool.abandon();
}
