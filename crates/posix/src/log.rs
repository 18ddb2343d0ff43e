//! The seam of the intent log: where each operation says what it did.
//!
//! An operation calls it inside its transaction and under the lock that excludes operations which
//! depend on it (names, data or state of a file), so that records come in the order in which
//! things happened and can be replayed in it.

mod describe;
mod journal;

use std::sync::Arc;

use base::{ObjectId, Txg};
use dmu::Tx;
use format::intent_log::Change;
use intent::Completion;

pub(crate) use describe::{FLAG_BITS, creation, creation_as, new_object};
pub use journal::IntentLog;

use crate::Result;

/// In which order a record stands to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Every commit writes it, after all such records before it.
    Names,
    /// The same, and what was recorded of this file before goes with it.
    NamesAfter(ObjectId),
    /// Only commits of this file write it.
    File(ObjectId),
}

/// A write, as the log is told of it.
#[derive(Clone, Copy, Debug)]
pub struct LoggedWrite<'a> {
    /// The file.
    pub object: ObjectId,
    /// From where.
    pub offset: u64,
    /// How many bytes.
    pub length: u64,
    /// What, where the bytes are at hand.
    pub data: Option<&'a [u8]>,
    /// It is committed as soon as it is done.
    pub at_once: bool,
}

/// Makes single operations durable before their txg is.
pub trait OperationLog: Send + Sync {
    /// Notes what `tx` did, in this order. Whatever becomes durable has all of `changes` or none.
    fn record(&self, tx: &Tx, scope: Scope, changes: &[Change<'_>]);

    /// Notes that `tx` wrote data.
    fn record_write(&self, tx: &Tx, write: &LoggedWrite<'_>);

    /// Notes that `tx` did something that no record describes.
    fn note_unlogged(&self, tx: &Tx);

    /// Forgets what was noted of a file whose last name went.
    fn discard(&self, object: ObjectId);

    /// Waits until everything noted of `object`, and all changes of names before that, is
    /// durable. `changed` is the newest txg that changed the object; none when that is not known.
    ///
    /// # Errors
    /// The pool cannot write.
    fn commit(&self, object: ObjectId, changed: Option<Txg>) -> Result<()>;

    /// The same for callers without a thread, who are told when it has ended. False, and `completion` is
    /// forgotten: this takes a thread.
    fn commit_async(&self, _object: ObjectId, _completion: &Arc<dyn Completion>) -> bool {
        false
    }
}

/// No log: durable is what has synced.
pub struct NoLog {
    engine: std::sync::Arc<txg::Engine>,
}

impl NoLog {
    /// Waits on `engine`.
    #[must_use]
    pub fn new(engine: std::sync::Arc<txg::Engine>) -> Self {
        Self { engine }
    }
}

impl OperationLog for NoLog {
    fn record(&self, _: &Tx, _: Scope, _: &[Change<'_>]) {}

    fn record_write(&self, _: &Tx, _: &LoggedWrite<'_>) {}

    fn note_unlogged(&self, _: &Tx) {}

    fn discard(&self, _: ObjectId) {}

    fn commit(&self, _: ObjectId, changed: Option<Txg>) -> Result<()> {
        self.engine.wait_synced(changed).map_err(Into::into)
    }
}
