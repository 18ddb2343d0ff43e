//! What operations note in the log, and when that is durable.

use base::ObjectId;
use dmu::Tx;
use format::intent_log::Change;

use crate::Result;
use crate::core::Core;
use crate::log::{OperationLog, Scope};

impl Core {
    /// The log, for an operation that has begun: its record is due even if changes are refused
    /// since.
    pub(crate) fn log(&self) -> Option<&dyn OperationLog> {
        self.writing_parts().map(|writing| &*writing.log)
    }

    /// Notes what `tx` did, all or nothing (see [`OperationLog::record`]).
    pub(crate) fn record(&self, tx: &Tx, scope: Scope, changes: &[Change<'_>]) {
        if let Some(log) = self.log() {
            log.record(tx, scope, changes);
        }
    }

    /// Notes that `tx` did something that no record describes.
    pub(crate) fn note_unlogged(&self, tx: &Tx) {
        if let Some(log) = self.log() {
            log.note_unlogged(tx);
        }
    }

    /// Does what follows an operation's first change. All that it reads is held by then, so that it does not fail for
    /// damage; should it fail all the same, no record says what happened, and commits wait for the txg.
    pub(crate) fn whole<T>(&self, tx: &Tx, rest: impl FnOnce() -> Result<T>) -> Result<T> {
        rest().inspect_err(|_| {
            if !self.replaying {
                self.note_unlogged(tx);
            }
        })
    }

    /// Makes an operation durable when the property `sync` wants that of each.
    pub(crate) fn settle(&self, object: ObjectId) -> Result<()> {
        match self.log() {
            Some(log) if self.properties().sync_always => {
                let changed = self.znode(object).map(|znode| znode.changed_txg());
                log.commit(object, changed.ok())
            }
            _ => Ok(()),
        }
    }
}
