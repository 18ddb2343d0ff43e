//! What operations tell the log, and that it comes in one piece where half of it would be wrong.

use std::sync::{Arc, Mutex};

use base::{ObjectId, Txg};
use dmu::Tx;
use format::intent_log::Change;
use millpond_posix::{
    DatasetProperties, LoggedWrite, MountOptions, NewFileSystem, NoLog, OperationLog, Result,
    Scope, XattrMode, XattrStore,
};

use crate::root;
use crate::store::{Meanwhile, MemoryPool};
use crate::xattrs::{DEFAULT, acl};

/// A log that keeps the kinds of what it is told, each call apart.
pub(crate) struct Diary {
    engine: Arc<txg::Engine>,
    log: NoLog,
    told: Mutex<Vec<Vec<String>>>,
    meanwhile: Mutex<Option<Meanwhile>>,
}

impl Diary {
    pub(crate) fn new(engine: Arc<txg::Engine>) -> Arc<Self> {
        Arc::new(Self {
            log: NoLog::new(Arc::clone(&engine)),
            engine,
            told: Mutex::default(),
            meanwhile: Mutex::default(),
        })
    }

    pub(crate) const fn engine(&self) -> &Arc<txg::Engine> {
        &self.engine
    }

    /// Does something when the next operation tells what it did, under its locks.
    pub(crate) fn while_telling(&self, what: impl FnOnce() + Send + 'static) {
        *self.meanwhile.lock().unwrap() = Some(Box::new(what));
    }

    /// What was told since the last call.
    pub(crate) fn take(&self) -> Vec<Vec<String>> {
        std::mem::take(&mut self.told.lock().unwrap())
    }
}

impl OperationLog for Diary {
    fn record(&self, _: &Tx, _: Scope, changes: &[Change<'_>]) {
        let meanwhile = self.meanwhile.lock().unwrap().take();
        if let Some(meanwhile) = meanwhile {
            meanwhile();
        }
        let kind = |change: &Change<'_>| {
            let text = format!("{change:?}");
            let end = text.find(|c: char| !c.is_alphanumeric());
            text[..end.unwrap_or(text.len())].to_owned()
        };
        self.told
            .lock()
            .unwrap()
            .push(changes.iter().map(kind).collect());
    }

    fn record_write(&self, _: &Tx, _: &LoggedWrite<'_>) {}

    fn note_unlogged(&self, _: &Tx) {}

    fn discard(&self, _: ObjectId) {}

    fn commit(&self, object: ObjectId, changed: Option<Txg>) -> Result<()> {
        self.log.commit(object, changed)
    }
}

/// A power loss between the records of a value would leave an attribute that is cut or empty.
#[test]
fn the_value_of_an_attribute_in_a_file_is_told_at_once() {
    let properties = DatasetProperties {
        xattr: XattrStore::Directory,
        ..DatasetProperties::default()
    };
    let pool = MemoryPool::new(
        NewFileSystem::default(),
        properties,
        MountOptions::default(),
    );
    let object = pool.file("f").object();
    let set = |length: usize| {
        let value = vec![7; length];
        let mode = XattrMode::Either;
        pool.fs
            .setxattr(&root(), object, b"user.name", &value, mode)
            .unwrap();
        pool.diary.take()
    };
    pool.diary.take();
    assert_eq!(set(50), [vec!["Create"], vec!["Create", "Write"]]);
    assert_eq!(set(40), [["Truncate", "Write"]]);
    assert_eq!(set(60_000), [["Write"]]);
    assert_eq!(set(0), [["Truncate"]]);
}

/// A file whose creation survives a power loss has the access lists of its directory.
#[test]
fn a_new_file_is_told_with_its_access_lists() {
    let pool = MemoryPool::plain();
    let directory = pool.directory("d");
    let list = acl(&[(1, 7, !0), (2, 5, 4), (4, 5, !0), (16, 5, !0), (32, 0, !0)]);
    pool.fs
        .setxattr(&root(), directory, DEFAULT, &list, XattrMode::Either)
        .unwrap();
    pool.diary.take();
    let node = crate::node(millpond_posix::FileType::Directory, 0o777);
    pool.fs.mkdir(&root(), directory, b"inner", &node).unwrap();
    assert_eq!(pool.diary.take(), [["Create", "SetXattr", "SetXattr"]]);
}
