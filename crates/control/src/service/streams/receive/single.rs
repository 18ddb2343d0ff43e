//! One stream: a snapshot of a new dataset, or the next one of a dataset that is there.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use admin::{Failure, FailureKind, ReceiveNaming, Types, human_bytes, name};
use base::clock::monotonic_ns;
use dsl::tasks::Hold;
use dsl::{Dataset, DslError, LongHold};
use format::ObjectSetKind;
use replication::receive::{Head, Incoming, Place, apply};
use stream::{PackageSystem, Part, Record};

use super::failures::Context;
use super::properties::{Wanted, receive_of_snapshot};
use super::{Receiving, turn};
use crate::service::changes::destroy::RECEIVED;
use crate::service::refusal::{refused, unreadable};
use crate::service::resume::token_of;

/// A stream, and where it goes.
pub(super) struct Step<'a> {
    pub(super) head: &'a Head,
    pub(super) place: Place,
    /// The byte of the input that it begins at.
    pub(super) begins_at: u64,
    pub(super) context: Context,
    pub(super) wanted: Wanted,
    /// What the package has for it.
    pub(super) packaged: Option<&'a PackageSystem>,
    /// Others come before it or after it.
    pub(super) is_in_package: bool,
}

impl Receiving<'_, '_> {
    /// Receives one stream up to its END.
    pub(super) fn substream(
        &mut self,
        incoming: &mut Incoming,
        mut step: Step<'_>,
    ) -> Result<(), Failure> {
        self.tell_begin(&step);
        if self.request.dry_run {
            self.check_target(&step)?;
            return skip(incoming, step.context);
        }
        let began = monotonic_ns();
        let receiving = self.begin(&mut step)?;
        let hold = receiving.hold_long();
        let written = self.write(incoming, &step, &receiving);
        match written.and_then(|position| self.end(&mut step, &receiving).map(|()| position)) {
            Ok(position) => {
                drop(hold);
                self.tell_end(position.saturating_sub(step.begins_at), began);
                Ok(())
            }
            Err(failure) => Err(self.broken_off(&step, receiving, hold, failure)),
        }
    }

    fn tell_begin(&mut self, step: &Step<'_>) {
        let kind = if step.head.is_full() {
            "full"
        } else {
            "incremental"
        };
        let place = (step.place.path.as_str(), step.place.snapshot.as_str());
        self.tell_kind(kind, step.head, place);
    }

    /// Says what is received into which snapshot, if that was asked for.
    pub(super) fn tell_kind(&mut self, kind: &str, head: &Head, (path, snapshot): (&str, &str)) {
        if !self.request.verbose {
            return;
        }
        let would = if self.request.dry_run {
            "would receive"
        } else {
            "receiving"
        };
        let sent = head.name();
        let line = format!("{would} {kind} stream of {sent} into {path}@{snapshot}");
        self.reporter.line(line);
    }

    pub(super) fn tell_end(&mut self, bytes: u64, began_ns: u64) {
        if !self.request.verbose {
            return;
        }
        let took_ns = monotonic_ns().saturating_sub(began_ns).max(1);
        let rate = u128::from(bytes) * 1_000_000_000 / u128::from(took_ns);
        let hundredths = took_ns / 10_000_000;
        self.reporter.line(format!(
            "received {} stream in {}.{:02} seconds ({}/sec)",
            human_bytes(bytes),
            hundredths / 100,
            hundredths % 100,
            human_bytes(u64::try_from(rate).unwrap_or(u64::MAX))
        ));
    }

    /// Refuses what needs no look into the pool's records to be refused.
    fn check_target(&self, step: &Step<'_>) -> Result<(), Failure> {
        let (context, path) = (step.context, step.place.path.as_str());
        let refuse = |kind, text: String| Err(context.failure(kind, text));
        let Ok(head) = self.service.dsl.head(path) else {
            return self.check_absent(step);
        };
        if !step.head.is_full() || step.head.resumes_at.is_some() || step.place.origin.is_some() {
            return Ok(());
        }
        if !self.request.force {
            let text = format!("destination '{path}' exists\nmust specify -F to overwrite it");
            return refuse(FailureKind::Exists, text);
        }
        if let Some(first) = head.snapshots().map_err(unreadable)?.first() {
            let first = first.name().map_err(unreadable)?;
            let text = format!(
                "destination has snapshots (eg. {first})\nmust destroy them to overwrite it"
            );
            return refuse(FailureKind::Exists, text);
        }
        let directory = head.directory();
        if directory.origin().map_err(unreadable)?.is_some() {
            let text = format!("destination '{path}' is a clone\nmust destroy it to overwrite it");
            return refuse(FailureKind::Exists, text);
        }
        let has_children = !directory.children().map_err(unreadable)?.is_empty();
        if step.head.kind == ObjectSetKind::Volume && has_children {
            let text = format!("destination '{path}' has children, which a volume cannot have");
            return refuse(FailureKind::Invalid, text);
        }
        Ok(())
    }

    fn check_absent(&self, step: &Step<'_>) -> Result<(), Failure> {
        let (context, path) = (step.context, step.place.path.as_str());
        let missing = |name: &str| {
            let text = format!("destination '{name}' does not exist");
            Err(context.failure(FailureKind::Missing, text))
        };
        if step.head.resumes_at.is_some() {
            return missing(path);
        }
        if self.request.dry_run && step.is_in_package {
            // What comes before it would have made it.
            return Ok(());
        }
        if !step.head.is_full() && step.place.origin.is_none() {
            if !step.head.is_clone() {
                return missing(path);
            }
            let text = format!("local origin for clone {path} does not exist");
            return Err(context.failure(FailureKind::Missing, text));
        }
        let Some(parent) = name::parent_of(path) else {
            return missing(path);
        };
        let Ok(head) = self.service.dsl.head(parent) else {
            let is_made = self.request.naming == ReceiveNaming::WithoutPool;
            return if is_made || self.request.dry_run {
                Ok(())
            } else {
                missing(parent)
            };
        };
        if self.service.dataset_index().kind_of(&head)? != Types::FILESYSTEM {
            let text = format!("parent '{parent}' is not a filesystem");
            return Err(context.failure(FailureKind::Invalid, text));
        }
        Ok(())
    }

    /// What is received into, marked as such.
    fn begin(&mut self, step: &mut Step<'_>) -> Result<Arc<Dataset>, Failure> {
        let service = self.service;
        let _turn = turn(service, &self.stop, &self.actor)?;
        let (dsl, head, context) = (&service.dsl, step.head, step.context);
        head.check_features(dsl)
            .map_err(|error| context.broken(&error))?;
        self.may_receive(&step.place.path)?;
        self.check_target(step)?;
        let path = step.place.path.clone();
        let is_new = dsl.head(&path).is_err();
        step.wanted.check(service, &path, head.kind)?;
        if is_new {
            if let Some(parent) = name::parent_of(&path)
                && self.request.naming == ReceiveNaming::WithoutPool
            {
                self.make_parents(parent)?;
            }
        } else {
            self.clear_way(&path);
            if !self.request.force {
                self.barrier(&path, context)?;
            }
        }
        let begun = match head.resumes_at {
            Some(at) => dsl.run_as(&self.actor, head.resume(&path, at)),
            None => dsl.run_as(&self.actor, head.begin(&step.place)),
        };
        let receiving =
            begun.map_err(|error| context.refused(&path, self.request.force, &error))?;
        if head.resumes_at.is_some() && !is_beside(&receiving) {
            // What it is a clone of was said when it began.
            let origin = receiving.directory().origin().map_err(unreadable)?;
            let origin = origin.map(|origin| origin.name());
            step.place.origin = origin.transpose().map_err(unreadable)?;
        }
        if is_new {
            let set = step.wanted.set_first(service, &receiving);
            if let Err(failure) = set {
                let hold = receiving.hold_long();
                return Err(self.broken_off(step, receiving, hold, failure));
            }
        }
        Ok(receiving)
    }

    /// Makes what is to be above a new dataset. It is mounted with what is received, so that none lies under another.
    fn make_parents(&mut self, parent: &str) -> Result<(), Failure> {
        let dsl = &self.service.dsl;
        let ends = parent.match_indices('/').map(|(at, _)| at);
        let paths = ends
            .chain([parent.len()])
            .filter_map(|end| parent.get(..end));
        let missing: Vec<&str> = paths.filter(|path| dsl.head(path).is_err()).collect();
        self.service.make_parents(parent, true, self.reporter)?;
        for path in missing {
            let head = dsl.head(path);
            self.made
                .push(head.map_err(|error| refused("open", path, &error))?);
        }
        Ok(())
    }

    /// Takes away what a receive that nobody can go on with has left, if that could not be done at once.
    fn clear_way(&self, path: &str) {
        let Ok(head) = self.service.dsl.head(path) else {
            return;
        };
        let Ok(Some(hidden)) = head.directory().child(RECEIVED) else {
            return;
        };
        let Ok(Some(left)) = hidden.head() else {
            return;
        };
        if left.is_inconsistent().is_ok_and(|is| is)
            && left.resume_state().is_ok_and(|s| s.is_none())
        {
            drop(left);
            // One that is under way is held, so that it stays; then it is said that this is busy.
            let path = hidden.name();
            drop(self.service.dsl.destroy_head(&path));
        }
    }

    /// What programs wrote counts as a change, though the kernel still has it.
    fn barrier(&self, path: &str, context: Context) -> Result<(), Failure> {
        let written = self.service.mounts().barrier(path);
        written.map_err(|failure| context.failure(failure.kind, failure.message))
    }

    /// Writes all of a stream; the byte that it ended at.
    fn write(
        &self,
        incoming: &mut Incoming,
        step: &Step<'_>,
        receiving: &Arc<Dataset>,
    ) -> Result<u64, Failure> {
        let Some(engine) = self.service.pool.engine() else {
            return Err(step
                .context
                .failure(FailureKind::ReadOnly, "pool is read-only"));
        };
        let substream = step.head.substream(&step.place);
        match apply(incoming, receiving, engine, substream, &|| {
            self.client.check()
        }) {
            Ok(applied) => Ok(applied.position),
            Err(_) if self.stop.load(Ordering::Acquire) => {
                let text = "the pool is about to be closed";
                Err(step.context.failure(FailureKind::Busy, text))
            }
            Err(error) => Err(step.context.broken(&error)),
        }
    }

    /// Makes the snapshot, and has the head show what it has.
    fn end(&mut self, step: &mut Step<'_>, receiving: &Arc<Dataset>) -> Result<(), Failure> {
        let service = self.service;
        let _turn = turn(service, &self.stop, &self.actor)?;
        let (context, force) = (step.context, self.request.force);
        let is_beside = is_beside(receiving);
        let directory = receiving.directory();
        // It may be called otherwise by now.
        let path = match directory.parent() {
            Some(parent) if is_beside => parent.name(),
            Some(_) | None => directory.name(),
        };
        if is_beside {
            if !force {
                self.barrier(&path, context)?;
            }
            if service
                .dsl
                .head(&path)
                .is_ok_and(|head| service.volumes.is_open(&head))
            {
                return Err(context.failure(FailureKind::Busy, "dataset is busy"));
            }
            let suspended = service.mounts().suspend(&path);
            suspended.map_err(|failure| context.failure(failure.kind, failure.message))?;
        }
        let task = step.head.end(receiving, &step.place);
        let done = service.dsl.run_as(&self.actor, task);
        if is_beside {
            service.mounts().content_changed(&path);
        }
        let snapshot = done.map_err(|error| context.refused(&path, force, &error))?;
        service.kinds.forget_all();
        service.mounts().snapshots_changed(&path);
        // The snapshot is there, whatever becomes of the rest.
        if let Err(failure) = self.dress(step, &path, &snapshot, is_beside) {
            self.reporter.warn(failure);
        }
        Ok(())
    }

    /// Gives a dataset and its new snapshot what the stream and the command have for them beside the data.
    fn dress(
        &mut self,
        step: &mut Step<'_>,
        path: &str,
        snapshot: &Dataset,
        is_beside: bool,
    ) -> Result<(), Failure> {
        let service = self.service;
        if let Some(head) = snapshot.directory().head().map_err(unreadable)? {
            if is_beside {
                step.wanted.prepare(&head)?;
            } else {
                self.made.push(head);
            }
        }
        let keep_mounts = self.request.unmounted;
        step.wanted
            .set_last(service, path, keep_mounts, self.reporter);
        self.dress_snapshot(step, snapshot)
    }

    /// Gives a snapshot the properties and holds that the package has for it.
    fn dress_snapshot(&mut self, step: &Step<'_>, snapshot: &Dataset) -> Result<(), Failure> {
        let packaged = step
            .packaged
            .and_then(|system| system.snapshot(step.head.to_guid));
        let Some(packaged) = packaged else {
            return Ok(());
        };
        let service = self.service;
        let name = snapshot.name().map_err(unreadable)?;
        receive_of_snapshot(
            service,
            snapshot,
            &name,
            &packaged.properties,
            self.reporter,
        )?;
        if self.request.skip_holds {
            return Ok(());
        }
        for tag in &packaged.holds {
            let holds = vec![(name.clone(), tag.clone())];
            match service.dsl.run_as(&self.actor, Hold { holds }) {
                Ok(()) | Err(DslError::HoldExists { .. }) => {}
                Err(error) => self.reporter.warn(refused("hold snapshot", &name, &error)),
            }
        }
        Ok(())
    }

    /// What becomes of a stream that has no end.
    fn broken_off(
        &self,
        step: &Step<'_>,
        receiving: Arc<Dataset>,
        hold: LongHold,
        mut failure: Failure,
    ) -> Failure {
        drop(hold);
        let service = self.service;
        let is_closing = self.stop.load(Ordering::Acquire) || service.pool.suspended().is_some();
        if self.request.resumable || step.head.resumes_at.is_some() {
            if let Some(engine) = service.pool.engine()
                && !is_closing
            {
                // Then the state says how far it really came. If the engine ended, so has the pool.
                let _synced = engine.wait_synced(None);
                receiving.end_sealed();
            }
            let redacted_by = receiving.redacted_by().ok().flatten();
            return match receiving.resume_state() {
                Ok(Some(state)) => {
                    if !failure.message.ends_with('.') {
                        failure.message.push('.');
                    }
                    failure
                        .advise("Partially received snapshot is saved.")
                        .advise(
                            "A resuming stream can be generated on the sending system by running:",
                        )
                        .advise(format!(
                            "    zfs send -t {}",
                            token_of(&state, redacted_by.as_deref())
                        ))
                }
                Ok(None) | Err(_) => failure,
            };
        }
        let path = receiving.directory().name();
        drop(receiving);
        match service.destroy_head(&path) {
            Ok(()) => failure,
            Err(error) => failure.advise(format!(
                "what was received is still there ({error}); the next import destroys it"
            )),
        }
    }
}

/// Whether it is received into a hidden dataset below the head.
fn is_beside(receiving: &Dataset) -> bool {
    receiving.directory().component() == RECEIVED
}

/// Reads up to the END of a stream.
pub(super) fn skip(incoming: &mut Incoming, context: Context) -> Result<(), Failure> {
    loop {
        let piece = incoming.next_piece();
        let piece = piece.map_err(|error| context.broken(&error))?;
        let Some(piece) = piece else {
            let truncated = stream::StreamError::Truncated.into();
            return Err(context.broken(&truncated));
        };
        if piece.item.part == Part::Substream && matches!(piece.item.record, Record::End(_)) {
            return Ok(());
        }
    }
}
