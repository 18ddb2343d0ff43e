//! Replay: the records of a claimed chain are applied in order, then the chain is given up.
//!
//! With the change that a record makes, in the same txg, its sequence number goes into the
//! header: after a crash in the middle the replay goes on behind it.

mod clones;

use std::sync::atomic::{AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use format::BlockPointer;
use format::intent_log::{Body, LogHeader, Record};
use pipeline::ReadRequest;
use sys::Buffer;

use crate::chain::Stage;
use crate::error::IntentError;
use crate::log::Log;
use crate::walk::{data_block, owned_blocks, walk};

static PROGRESS: LockClass = LockClass::new("intent.progress", rank::INTENT + 43);

/// Applies records; supplied by the layer that knows what they mean.
pub trait Replay {
    /// Applies one record. `block` has the bytes of the block that a write points to. Every
    /// transaction on the way calls [`Log::append`] once, as it does outside of replay. What was
    /// done already, or has become needless, is no error.
    ///
    /// # Errors
    /// Why it could not be applied.
    fn apply(&mut self, record: &Record<'_>, block: Option<&[u8]>) -> Result<(), Unapplied>;

    /// The record will not be applied, and those after it will be: what builds on it must be found out there.
    /// The next replay of this log must be able to tell, should this one not come to its end.
    fn pass_over(&mut self, record: &Record<'_>);

    /// Whether an earlier replay of this log passed over the record of that number.
    fn was_passed_over(&self, _sequence: u64) -> bool {
        false
    }
}

/// Why a record could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unapplied {
    /// One line.
    pub reason: String,
    /// What is to be done about it.
    pub cause: Cause,
}

/// What keeps a record from being applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// What it would change is damaged for good, or what it would write: no later replay can do better, and the
    /// records after it are not to wait for that.
    Damage,
    /// It builds on a record that was passed over, and is passed over with it.
    Earlier,
    /// Something else, which may be better at a later replay.
    Other,
}

impl From<String> for Unapplied {
    fn from(reason: String) -> Self {
        Self {
            reason,
            cause: Cause::Other,
        }
    }
}

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Records applied.
    pub records: u64,
    /// Records passed over: their txgs are on disk, or an earlier replay did them.
    pub skipped: u64,
    /// Records that were passed over because what they would change is damaged, or with one that was; and why.
    pub lost: Vec<(u64, String)>,
    /// The first record that could not be applied, and why: the log stays owed.
    pub failed: Option<(u64, String)>,
}

/// Which record was applied in which txg.
pub(crate) struct Progress {
    current: AtomicU64,
    slots: Mutex<[(Txg, u64); Txg::SLOTS]>,
}

impl Progress {
    pub(crate) fn new() -> Self {
        Self {
            current: AtomicU64::new(0),
            slots: Mutex::new(&PROGRESS, [(Txg(0), 0); Txg::SLOTS]),
        }
    }

    /// The record under way changed something in `txg`.
    pub(crate) fn note(&self, txg: Txg) {
        let sequence = self.current.load(Ordering::Acquire);
        self.slots.lock()[txg.slot()] = (txg, sequence);
    }

    pub(crate) fn of(&self, txg: Txg) -> Option<u64> {
        let (noted, sequence) = self.slots.lock()[txg.slot()];
        (noted == txg).then_some(sequence)
    }
}

impl Log {
    /// Replays what is owed, and gives the claimed chain up. Does nothing to a log that owes
    /// nothing. Nothing else may use the object set meanwhile.
    ///
    /// A record that fails is tried once more after a sync; if it fails again the replay ends
    /// there, and the log stays owed: the next import may try again behind the last good record.
    /// One that fails because its file is damaged is passed over, with those that build on it: it costs what the
    /// damage costs.
    ///
    /// # Errors
    /// The pool has stopped.
    pub fn replay(&self, replay: &mut dyn Replay) -> Result<Replayed, IntentError> {
        let mut outcome = Replayed::default();
        if self.chain.lock().stage != Stage::Owed {
            return Ok(outcome);
        }
        let header = self.objects.intent_log_header();
        self.engine.wait_synced(None)?;
        if header.flags & LogHeader::FLAG_REPLAY_NEEDED == 0 {
            // Its blocks went with that txg: see where it was opened.
            return Ok(outcome);
        }
        self.replaying.store(true, Ordering::Release);
        self.apply_all(&header, replay, &mut outcome);
        self.replaying.store(false, Ordering::Release);
        self.replay_failure.lock().clone_from(&outcome.failed);
        if outcome.failed.is_some() {
            return Ok(outcome);
        }
        let blocks = owned_blocks(&self.pipeline, self.objects.id(), &header);
        self.chain.lock().discard(blocks);
        self.engine.wait_synced(None)?;
        Ok(outcome)
    }

    fn apply_all(&self, header: &LogHeader, replay: &mut dyn Replay, outcome: &mut Replayed) {
        let set = self.objects.id();
        // The last record that no later replay has to look at.
        let mut done = header.replay_sequence;
        walk(&self.pipeline, set, header, &mut |record| {
            let sequence = record.header.sequence;
            let before = done;
            done = done.max(sequence);
            if sequence <= header.replay_sequence || record.header.txg < header.claim_txg {
                if replay.was_passed_over(sequence) {
                    replay.pass_over(record);
                    let reason = "it was passed over before a crash".to_owned();
                    outcome.lost.push((sequence, reason));
                } else {
                    outcome.skipped += 1;
                }
                return true;
            }
            let applied = self.apply_record(set, (record, before), replay);
            self.progress.current.store(sequence, Ordering::Release);
            match applied {
                Ok(()) => {
                    outcome.records += 1;
                    true
                }
                Err(Unapplied {
                    reason,
                    cause: Cause::Damage | Cause::Earlier,
                }) => {
                    replay.pass_over(record);
                    outcome.lost.push((sequence, reason));
                    true
                }
                Err(Unapplied {
                    reason,
                    cause: Cause::Other,
                }) => {
                    outcome.failed = Some((sequence, reason));
                    false
                }
            }
        });
    }

    /// Applies a record; `before` has the number of the one that was applied last.
    fn apply_record(
        &self,
        set: ObjectSetId,
        (record, before): (&Record<'_>, u64),
        replay: &mut dyn Replay,
    ) -> Result<(), Unapplied> {
        if let Body::CloneRange(fields) = &record.body {
            return self.apply_clone(set, (record, fields, before), replay);
        }
        self.progress
            .current
            .store(record.header.sequence, Ordering::Release);
        let block = match data_block(record) {
            Some(pointer) => Some(self.block(set, &pointer)?),
            None => None,
        };
        self.apply_twice(record, block.as_ref(), replay)
    }

    fn apply_twice(
        &self,
        record: &Record<'_>,
        block: Option<&Buffer>,
        replay: &mut dyn Replay,
    ) -> Result<(), Unapplied> {
        let block = block.map(|block| &block[..]);
        let first = replay.apply(record, block);
        match &first {
            Ok(()) => return first,
            Err(unapplied) if unapplied.cause == Cause::Earlier => return first,
            Err(_) => {}
        }
        self.engine
            .wait_synced(None)
            .map_err(|error| error.to_string())?;
        replay.apply(record, block)
    }

    /// The bytes of a block that a record points to.
    fn block(&self, set: ObjectSetId, pointer: &BlockPointer) -> Result<Buffer, Unapplied> {
        let request = ReadRequest::new(Bookmark {
            object_set: set,
            object: ObjectId(0),
            level: -2,
            block: 0,
        });
        // A crash may have cut off some of its copies, if its commit was the last one: no device is to blame for that.
        // One was there when the log was claimed.
        let request = request.uncached();
        let any = self.pipeline.read(pointer, &request.unpromised());
        let read = any.or_else(|_| self.pipeline.read(pointer, &request));
        read.map_err(|error| Unapplied {
            cause: if error.is_of_devices() {
                Cause::Other
            } else {
                Cause::Damage
            },
            reason: error.to_string(),
        })
    }
}
