//! Doing again what an intent log says was done.
//!
//! Purpose: after a crash the claimed log of a dataset is applied before anything else uses it.
//! Each record becomes the operation that made it, by the superuser, with nothing refused that was
//! allowed once; new objects get the numbers and generations that the log gives. In the last
//! transaction of a record the log is told, so that the record counts as applied exactly if its
//! txg reaches the disk. What was known of a file that is gone is passed over.

mod attributes;
mod data;
mod doubts;
mod lost;
mod names;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{ByteOrder, ObjectId, Txg};
use dmu::Tx;
use format::intent_log::{Change, NewObject, Record};
use intent::{Cause, Log, Unapplied};

use crate::core::Core;
use crate::log::{LoggedWrite, OperationLog, Scope};
use crate::store::Claim;
use crate::znode::Znode;
use crate::{Credentials, MountOptions, PosixError, Result, Source, Timestamp};
use doubts::Doubts;
use lost::LostRecords;

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records applied.
    pub records: u64,
    /// Records that were applied before, or whose txgs had synced.
    pub skipped: u64,
    /// The sequence numbers of records that were passed over because what they would change is damaged, or with one
    /// that was; and why.
    pub lost: Vec<(u64, String)>,
    /// The sequence number of the record that could not be applied, and why.
    pub failed: Option<(u64, String)>,
}

/// Applies what the log of a head owes; nothing else may use the head meanwhile. The source's own
/// log is not used.
///
/// # Errors
/// The file system cannot be opened, or the pool has stopped.
pub fn replay(mut source: Source, log: &Arc<Log>) -> Result<Replayed> {
    if !log.is_owed() {
        return Ok(Replayed::default());
    }
    let progress = Arc::new(Progress {
        log: Arc::clone(log),
        is_last: AtomicBool::new(true),
    });
    source.log = Some(Arc::clone(&progress) as Arc<dyn OperationLog>);
    source.properties = source.properties.for_replay();
    let core = Arc::new(Core::new_for_replay(source)?);
    // Numbers of files that were on their way out when the last txg synced may have been used
    // again since.
    match core.drain_unlinked() {
        // The list itself is damaged: what is on it stays.
        Err(error) if error.is_damage() => {}
        done => drop(done?),
    }
    let lost = LostRecords::load(&core);
    let mut applier = Applier {
        core,
        progress,
        lost,
        who: Credentials::root(),
        doubts: Doubts::default(),
    };
    let done = log.replay(&mut applier)?;
    if done.failed.is_none() {
        // The log is given up: should this fail, nobody asks for it again.
        let _ = applier.lost.forget(&applier.core);
    }
    Ok(Replayed {
        records: done.records,
        skipped: done.skipped,
        lost: done.lost,
        failed: done.failed,
    })
}

/// Stands in for the log while it is replayed: nothing is recorded, but it is told in which txg a
/// record was applied.
struct Progress {
    log: Arc<Log>,
    /// The transaction under way is the record's last.
    is_last: AtomicBool,
}

impl Progress {
    fn note(&self, tx: &Tx) {
        if self.is_last.load(Ordering::Relaxed) {
            self.log.append_nothing(tx);
        }
    }
}

impl OperationLog for Progress {
    fn record(&self, tx: &Tx, _: Scope, _: &[Change<'_>]) {
        self.note(tx);
    }

    fn record_write(&self, tx: &Tx, _: &LoggedWrite<'_>) {
        self.note(tx);
    }

    fn note_unlogged(&self, tx: &Tx) {
        self.note(tx);
    }

    fn discard(&self, _: ObjectId) {}

    fn commit(&self, _: ObjectId, _: Option<Txg>) -> Result<()> {
        Ok(())
    }
}

/// Applies records one by one.
pub(crate) struct Applier {
    core: Arc<Core>,
    progress: Arc<Progress>,
    who: Credentials,
    /// What records that were passed over leave in doubt.
    doubts: Doubts,
    /// Which ones these are, for a replay that goes on with this one.
    lost: LostRecords,
}

impl intent::Replay for Applier {
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), Unapplied> {
        let change = Change::parse(record).map_err(|error| error.to_string())?;
        if self.doubts.are_about(&change, &self.core) {
            return Err(Unapplied {
                reason: "it builds on a record that is lost".to_owned(),
                cause: Cause::Earlier,
            });
        }
        self.change(&change, record.order, block)
            .map_err(|error| Unapplied {
                cause: self.cause(&error),
                reason: error.to_string(),
            })
    }

    fn pass_over(&mut self, record: &Record<'_>) {
        // One that does not parse ends the replay.
        if let Ok(change) = Change::parse(record) {
            self.doubts.pass_over(&change, &self.core);
        }
        let sequence = record.header.sequence;
        if !self.lost.had(sequence) {
            // Where that cannot be kept, a crash makes it forgotten.
            let _ = self.lost.note(&self.core, sequence);
        }
    }

    fn was_passed_over(&self, sequence: u64) -> bool {
        self.lost.had(sequence)
    }
}

impl Applier {
    fn change(&self, change: &Change<'_>, order: ByteOrder, block: Option<&[u8]>) -> Result<()> {
        let znode = match change.object() {
            None => return self.names(change, order),
            Some(object) => match self.existing(object)? {
                Some(znode) => znode,
                None => return Ok(()),
            },
        };
        match change {
            &Change::Write {
                offset,
                length,
                data,
                ..
            } => self.write(&znode, offset, length, (data, block)),
            &Change::Truncate { offset, length, .. } => self.truncate(&znode, offset, length),
            Change::SetAttributes(set) => self.set_attributes(&znode, set, order),
            Change::SetXattr { name, value, .. } => self.set_xattr(&znode, name, *value),
            Change::SetAcl { acl, .. } => self.set_acl(&znode, acl, order),
            // The log hands these on as writes.
            Change::CloneRange { .. } => Err(PosixError::Invalid("record of another kind")),
            // Of names, and without an object of their own: done above.
            Change::Create(_)
            | Change::Remove { .. }
            | Change::Link { .. }
            | Change::Rename { .. } => self.names(change, order),
        }
    }

    fn cause(&self, error: &PosixError) -> Cause {
        if error.is_damage() {
            Cause::Damage
        } else if !self.doubts.is_empty() && doubts::is_contradiction(error) {
            Cause::Earlier
        } else {
            Cause::Other
        }
    }

    /// A file that still is there.
    fn existing(&self, object: ObjectId) -> Result<Option<Arc<Znode>>> {
        match self.core.znode(object) {
            Ok(znode) => {
                let state = znode.state.read();
                let is_there = !state.freed && state.links != 0;
                drop(state);
                Ok(is_there.then_some(znode))
            }
            Err(PosixError::Stale) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Does what is not the last transaction of a record.
    fn before<T>(&self, operation: impl FnOnce() -> Result<T>) -> Result<T> {
        self.progress.is_last.store(false, Ordering::Relaxed);
        let result = operation();
        self.progress.is_last.store(true, Ordering::Relaxed);
        result
    }
}

/// What a new object must be.
pub(crate) fn claim(new: &NewObject) -> Claim {
    Claim {
        object: new.object,
        generation: new.generation,
    }
}

/// A time of a record.
pub(crate) fn time([seconds, nanoseconds]: [u64; 2]) -> Timestamp {
    Timestamp {
        seconds: seconds.cast_signed(),
        nanoseconds: (nanoseconds % 1_000_000_000) as u32,
    }
}

/// An owner that this file system can store: those of domains would need the table of domains.
fn owner(id: u64) -> Result<u32> {
    u32::try_from(id).map_err(|_| PosixError::NotSupported("owner of another domain in the log"))
}

impl Core {
    /// The file system for replay alone.
    fn new_for_replay(source: Source) -> Result<Self> {
        let mut core = Self::new(source, MountOptions::default())?;
        core.replaying = true;
        Ok(core)
    }
}
