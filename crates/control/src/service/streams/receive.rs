//! `zfs receive`: where streams go, who may receive them, and what becomes of one that breaks off.
//!
//! A receive goes beside all other changes of the pool. It takes its turn with them twice: when it begins, and when its
//! snapshot takes the place of what a head had. It waits for its turn only as long as the pool is not about to be
//! closed, for who closes it has the turn and waits for all streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use admin::{Caller, Failure, FailureKind, Permission, ReceiveRequest, name};
use base::Guid;
use base::lock::MutexGuard;
use dsl::{Actor, Dataset};
use replication::receive::{Head, Incoming, Piece, Place, ReceiveError};
use stream::{Part, Record, StreamError};
use sys::{Client, PassedDescriptor};

use crate::service::Service;
use crate::service::delegation::{actor_of, denied};
use crate::service::refusal::unreadable;
use crate::service::reporter::Reporter;

mod corrective;
mod failures;
mod follow;
mod naming;
mod package;
mod properties;
mod single;

use failures::Context;
use naming::{Named, named};
use package::Package;
use properties::{Wanted, types_of};
use single::{Step, skip};

/// A receive under way.
struct Receiving<'a, 'r> {
    service: &'a Service,
    request: &'a ReceiveRequest,
    actor: Actor,
    stop: Arc<AtomicBool>,
    client: Client,
    reporter: &'a mut Reporter<'r>,
    /// File systems that are new, parents first.
    made: Vec<Arc<Dataset>>,
}

impl Service {
    /// Makes snapshots of what the command's descriptor has.
    pub(super) fn receive(
        &self,
        request: &ReceiveRequest,
        caller: &Caller,
        data: PassedDescriptor,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        if self.readonly {
            let text = "pool is read-only";
            return Err(Failure::cannot(
                FailureKind::ReadOnly,
                "receive",
                &request.target,
                text,
            ));
        }
        self.refuse_suspended("receive", &request.target)?;
        let stop = data.stop();
        let client = data.client().try_clone();
        let client = client.map_err(|error| Context::Any.broken(&StreamError::Io(error).into()))?;
        let incoming = Incoming::start(data).map_err(|error| Context::Any.broken(&error))?;
        let mut receiving = Receiving {
            service: self,
            request,
            actor: actor_of(caller),
            stop,
            client,
            reporter,
            made: Vec::new(),
        };
        receiving.may_receive(name::dataset_of(&request.target))?;
        let outcome = receiving.all(incoming);
        receiving.mount_made();
        outcome?;
        if !request.dry_run {
            self.record(caller, &request.command);
        }
        Ok(())
    }
}

impl Receiving<'_, '_> {
    fn all(&mut self, mut incoming: Incoming) -> Result<(), Failure> {
        self.check_base()?;
        let first = incoming.next_piece();
        let first = first.map_err(|error| Context::Any.no_stream(&error))?;
        let Some(first) = first else {
            let truncated = StreamError::Truncated.into();
            return Err(Context::Any.no_stream(&truncated));
        };
        if first.item.part == Part::Substream {
            let head = head_of(&first)?;
            return self.one(&mut incoming, &first, &head, None);
        }
        let package = Package::of(&first).map_err(|error| Context::Any.broken(&error.into()))?;
        self.package(&mut incoming, &package)
    }

    /// The streams of a package, whose BEGIN was read.
    fn streams(&mut self, incoming: &mut Incoming, package: &Package) -> Result<(), Failure> {
        let mut is_head = true;
        loop {
            let piece = incoming.next_piece();
            let piece = piece.map_err(|error| Context::Any.broken(&error))?;
            let Some(piece) = piece else {
                let truncated = StreamError::Truncated.into();
                return Err(Context::Any.broken(&truncated));
            };
            match (piece.item.part, &piece.item.record) {
                // The first ends the package's head, the next one all.
                (Part::Package, Record::End(_)) if is_head => {
                    is_head = false;
                    if !self.request.corrective {
                        self.follow(package)?;
                    }
                }
                (Part::Package, _) => return Ok(()),
                (Part::Substream, _) => {
                    let head = head_of(&piece)?;
                    self.one(incoming, &piece, &head, Some(package))?;
                }
            }
        }
    }

    /// One stream, whose BEGIN was read.
    fn one(
        &mut self,
        incoming: &mut Incoming,
        begin: &Piece,
        head: &Head,
        package: Option<&Package>,
    ) -> Result<(), Failure> {
        let request = self.request;
        let sent = (head.dataset.as_str(), head.snapshot.as_str());
        let list = package.and_then(|package| package.list.as_ref().map(|list| (package, list)));
        let top = list.map_or(head.dataset.as_str(), |(package, _)| package.top.as_str());
        let Named { path, snapshot } = named((&request.target, request.naming), top, sent)?;
        if request.corrective {
            let place = (path.as_str(), snapshot.as_str());
            return self.correct(incoming, head, place, begins_at(begin));
        }
        let packaged = list.and_then(|(_, list)| list.system_with(head.to_guid));
        let path = match packaged {
            Some(system) => self.place_in_package(head, system, path)?,
            None => path,
        };
        if package.is_some() && self.has(&path, head.to_guid)? {
            if request.verbose {
                let line = format!("snap {path}@{snapshot} already exists; ignoring");
                self.reporter.line(line);
            }
            return skip(incoming, Context::of(head));
        }
        let origin = match &request.origin {
            Some(origin) => Some(origin.clone()),
            None if head.is_clone() => self.snapshot_with(head.from_guid, &path)?,
            None => None,
        };
        let mut wanted = Wanted::of(request, sent.0 == top);
        if let Some(system) = packaged {
            let of = (path.as_str(), types_of(head.kind));
            wanted.receive(self.service, of, &system.properties, self.reporter);
        }
        if head.sealed.is_some() {
            let sent = packaged.map_or(&[][..], |system| system.properties.as_slice());
            wanted.take_key_location(sent);
        }
        let step = Step {
            head,
            place: Place {
                path,
                snapshot,
                origin,
                force: request.force,
                unencrypted: wanted.is_unencrypted(),
                resumable: request.resumable,
            },
            begins_at: begins_at(begin),
            context: Context::of(head),
            wanted,
            packaged,
            is_in_package: package.is_some(),
        };
        self.substream(incoming, step)
    }

    /// Whether a dataset has the snapshot with a guid.
    fn has(&self, path: &str, guid: Guid) -> Result<bool, Failure> {
        let Ok(head) = self.service.dsl.head(path) else {
            return Ok(false);
        };
        for snapshot in head.snapshots().map_err(unreadable)? {
            if snapshot.guid().map_err(unreadable)? == guid {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The snapshot of this pool with a guid that is nearest to a path: of those with the longest way in common.
    fn snapshot_with(&self, guid: Guid, path: &str) -> Result<Option<String>, Failure> {
        let dsl = &self.service.dsl;
        let root = dsl.root_directory().map_err(unreadable)?;
        let mut best: Option<(usize, String)> = None;
        for head in dsl.heads_under(&root).map_err(unreadable)? {
            for snapshot in head.snapshots().map_err(unreadable)? {
                if snapshot.guid().map_err(unreadable)? != guid {
                    continue;
                }
                let name = snapshot.name().map_err(unreadable)?;
                let common = common_parts(name::dataset_of(&name), path);
                if best.as_ref().is_none_or(|(most, _)| common > *most) {
                    best = Some((common, name));
                }
            }
        }
        Ok(best.map(|(_, name)| name))
    }

    /// With `-d` and `-e` the target must be there.
    fn check_base(&self) -> Result<(), Failure> {
        let (target, naming) = (&self.request.target, self.request.naming);
        if naming == admin::ReceiveNaming::Target || self.service.dsl.head(target).is_ok() {
            return Ok(());
        }
        let text = format!("specified fs ({target}) does not exist");
        Err(Context::Any.failure(FailureKind::Missing, text))
    }

    /// Refuses who may not receive at a dataset, or at what will be above it.
    fn may_receive(&self, path: &str) -> Result<(), Failure> {
        let mut at = path;
        while self.service.dsl.head(at).is_err() {
            match name::parent_of(at) {
                Some(parent) => at = parent,
                None => break,
            }
        }
        let refuse = || denied("receive", path);
        let receive: &[Permission<'_>] = match self.request.force {
            // What is there may go.
            true => &[Permission::RECEIVE],
            false => &[Permission::RECEIVE, Permission::RECEIVE_APPEND],
        };
        let (service, actor) = (self.service, &self.actor);
        service.require_one(actor, at, receive, refuse)?;
        let others = [Permission::MOUNT, Permission::CREATE];
        service.require(actor, at, &others, refuse)
    }

    /// Mounts what is new.
    fn mount_made(&mut self) {
        if self.request.unmounted || self.made.is_empty() || !self.actor.privileged {
            return;
        }
        let service = self.service;
        let Ok(_turn) = turn(service, &self.stop, &self.actor) else {
            return;
        };
        for head in std::mem::take(&mut self.made) {
            // What came as it is encrypted is mounted when its key is loaded.
            let record = head.directory().key_record();
            if record.is_ok_and(|record| record.is_some_and(|record| !record.is_loaded())) {
                continue;
            }
            // One that was not mounted is warned of.
            let _mounted = service.mount_new(&head, self.reporter);
        }
    }
}

/// Waits for the turn to change the pool.
///
/// # Errors
/// The pool is about to be closed.
fn turn<'a>(
    service: &'a Service,
    stop: &AtomicBool,
    actor: &Actor,
) -> Result<MutexGuard<'a, ()>, Failure> {
    service.turn_while(actor, &mut || {
        if stop.load(Ordering::Acquire) {
            let text = "the pool is about to be closed";
            return Err(Context::Any.failure(FailureKind::Busy, text));
        }
        Ok(())
    })
}

/// What a BEGIN says.
fn head_of(piece: &Piece) -> Result<Head, Failure> {
    let begin = piece.item.record.begin();
    let found = begin.ok_or(ReceiveError::Invalid("no BEGIN"));
    let found = found.and_then(|begin| Head::of(begin, &piece.payload));
    found.map_err(|error| Context::Any.broken(&error))
}

/// The byte of the input that a BEGIN stands at.
fn begins_at(begin: &Piece) -> u64 {
    let length = format::stream::RECORD_SIZE + begin.payload.len();
    begin.position.saturating_sub(length as u64)
}

/// How many parts two paths have in common.
fn common_parts(one: &str, other: &str) -> usize {
    let pairs = one.split('/').zip(other.split('/'));
    pairs.take_while(|(one, other)| one == other).count()
}
