//! `zfs receive -c`: what a stream has of a snapshot that is here is written over what cannot be read of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use admin::{Failure, FailureKind, human_bytes};
use base::clock::monotonic_ns;
use dsl::Dataset;
use pool::PoolError;
use replication::receive::{Head, Healed, Incoming, heal};

use super::Receiving;
use super::failures::Context;
use super::single::skip;
use crate::service::refusal::{kind_of, unreadable};

/// What is said if some block cannot be made whole.
const NOT_RECONSTRUCTED: &str =
    "corrective receive was not able to reconstruct the data needed for healing.";

impl Receiving<'_, '_> {
    /// Heals the snapshot that a stream is of, and whose BEGIN was read.
    pub(super) fn correct(
        &mut self,
        incoming: &mut Incoming,
        head: &Head,
        (path, short): (&str, &str),
        begins_at: u64,
    ) -> Result<(), Failure> {
        self.tell_kind("corrective", head, (path, short));
        self.may_receive(path)?;
        let name = format!("{path}@{short}");
        // No task destroys it between the look and the hold.
        let quiet = self.service.dsl.quiet();
        let snapshot = self.snapshot_to_heal(&name, head)?;
        let hold = snapshot.hold_long();
        drop(quiet);
        if self.request.dry_run {
            return skip(incoming, Context::Any);
        }
        // What was copied already is not looked for where it is written.
        let barred = match self.service.pool.bar_removals() {
            Ok(barred) => barred,
            Err(PoolError::Busy) => {
                let text = "a device is being removed";
                return Err(Context::Any.failure(FailureKind::Busy, text));
            }
            Err(error) => {
                return Err(Context::Any.failure(kind_of(&error), error.to_string()));
            }
        };
        let began = monotonic_ns();
        let is_sealed = head.sealed.is_some();
        let done = heal(incoming, &snapshot, &self.service.pool, is_sealed);
        drop((hold, barred));
        let healed = done.map_err(|error| {
            if self.stop.load(Ordering::Acquire) {
                return Context::Any.failure(FailureKind::Busy, "the pool is about to be closed");
            }
            Context::Any.broken(&error)
        })?;
        self.tell_healed(&healed);
        self.tell_end(healed.position.saturating_sub(begins_at), began);
        match &healed.first_lost {
            None => Ok(()),
            Some((object, offset, why)) => {
                let first = format!(
                    "{} blocks of {name} still cannot be read; the first is of object {object}, \
                     offset {offset}: {why}",
                    healed.lost_blocks
                );
                let failure = Context::Any.failure(FailureKind::Medium, NOT_RECONSTRUCTED);
                Err(failure.advise(first))
            }
        }
    }

    fn tell_healed(&mut self, healed: &Healed) {
        if self.request.verbose {
            let bytes = human_bytes(healed.bytes);
            let line = format!("healed {} blocks ({bytes})", healed.blocks);
            self.reporter.line(line);
        }
    }

    /// The snapshot of a stream, which is here, and whose blocks can be compared with the stream's.
    fn snapshot_to_heal(&self, name: &str, head: &Head) -> Result<Arc<Dataset>, Failure> {
        let refuse = |kind, text: &str| Err(Context::Any.failure(kind, text));
        let Ok(snapshot) = self.service.dsl.dataset(name) else {
            let text = format!("destination '{name}' does not exist");
            return refuse(FailureKind::Missing, &text);
        };
        if !snapshot.is_snapshot() || snapshot.guid().map_err(unreadable)? != head.to_guid {
            let text = format!("'{name}' is another snapshot than the stream's");
            return refuse(FailureKind::Invalid, &text);
        }
        let keys = snapshot.directory().key_record().map_err(unreadable)?;
        match (&head.sealed, keys) {
            (None, Some(keys)) if !keys.is_loaded() => {
                let text =
                    format!("the key of '{name}' must be loaded, or the stream be a raw one");
                refuse(FailureKind::Permission, &text)
            }
            (Some(_), None) => {
                let text = format!("'{name}' is not encrypted, and the stream is a raw one");
                refuse(FailureKind::Invalid, &text)
            }
            (Some(sealed), Some(keys))
                if keys.stored().map_err(unreadable)?.guid != sealed.keys.guid =>
            {
                let text = format!("'{name}' was encrypted with other keys than the raw stream");
                refuse(FailureKind::Invalid, &text)
            }
            (Some(_) | None, Some(_) | None) => Ok(snapshot),
        }
    }
}
