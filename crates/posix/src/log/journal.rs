//! The intent log as operations see it.

use std::sync::Arc;

use base::{ByteOrder, ObjectId, Txg};
use dmu::Tx;
use format::intent_log::Change;
use intent::{Completion, Data, Entry, Log, WriteEntry};

use super::{LoggedWrite, OperationLog, Scope};
use crate::{PosixError, Result, tunables};

/// Writes records of operations to a dataset's intent log.
pub struct IntentLog {
    log: Arc<Log>,
}

impl IntentLog {
    /// Writes to this log.
    #[must_use]
    pub fn new(log: Arc<Log>) -> Self {
        Self { log }
    }

    fn can_say(&self, change: &Change<'_>) -> bool {
        match change {
            // Without the feature no reader expects the kind; and a value of no bytes would be
            // read as a removal.
            Change::SetXattr { value, .. } => {
                self.log.logs_xattrs() && value.is_none_or(|value| !value.is_empty())
            }
            Change::Create(_)
            | Change::Remove { .. }
            | Change::Link { .. }
            | Change::Rename { .. }
            | Change::Write { .. }
            | Change::Truncate { .. }
            | Change::SetAttributes(_)
            | Change::SetAcl { .. }
            | Change::CloneRange { .. } => true,
        }
    }
}

impl OperationLog for IntentLog {
    fn record(&self, tx: &Tx, scope: Scope, changes: &[Change<'_>]) {
        let can_say = changes.iter().all(|change| self.can_say(change));
        if !self.log.records() || !can_say {
            return self.log.append_nothing(tx);
        }
        let scope = match scope {
            Scope::Names => intent::Scope::Namespace,
            Scope::NamesAfter(object) => intent::Scope::NamespaceAfter(object),
            Scope::File(object) => intent::Scope::Object(object),
        };
        let encode = |change: &Change<'_>| Entry::Record(change.encode(ByteOrder::NATIVE));
        let entries = changes.iter().map(encode).collect();
        self.log.append(tx, scope, entries);
    }

    fn record_write(&self, tx: &Tx, write: &LoggedWrite<'_>) {
        if !self.log.records() {
            return self.log.append_nothing(tx);
        }
        let short = |data: &&[u8]| data.len() <= tunables::COPIED_BYTES_MAX.count();
        let data = match write.data.filter(short) {
            Some(data) if write.at_once => Data::Copied(data.into()),
            Some(_) | None => Data::Later,
        };
        let entry = WriteEntry {
            object: write.object,
            offset: write.offset,
            length: write.length,
            data,
        };
        let scope = intent::Scope::Object(write.object);
        self.log.append(tx, scope, vec![Entry::Write(entry)]);
    }

    fn note_unlogged(&self, tx: &Tx) {
        self.log.append_nothing(tx);
    }

    fn discard(&self, object: ObjectId) {
        self.log.discard(object);
    }

    fn commit(&self, object: ObjectId, _: Option<Txg>) -> Result<()> {
        self.log.commit(object).map_err(PosixError::from)
    }

    fn commit_async(&self, object: ObjectId, completion: &Arc<dyn Completion>) -> bool {
        self.log.commit_async(object, Arc::clone(completion))
    }
}
