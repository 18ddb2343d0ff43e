//! `zfs send`: which snapshots go into the stream, and who may send them.

use std::io::BufWriter;
use std::sync::Arc;

use admin::{Caller, Failure, FailureKind, Permission, SendRequest, StreamSize, name};
use base::{Guid, ObjectId};
use dsl::{Dataset, RedactionList};
use format::NvList;
use format::dsl::key::IVSET_GUID;
use replication::send::{
    SavedPart, SendError, SendFrom, SendJob, SendOptions, SendRedaction, estimate, send,
};
use stream::{Features, ResumeToken, StreamError, Writer};
use sys::PassedDescriptor;

use super::package::package;
use super::progress::Counted;
use crate::service::Service;
use crate::service::changes::destroy::RECEIVED;
use crate::service::delegation::{actor_of, denied};
use crate::service::refusal::{reason, refused, unreadable};

/// So many bytes are written at once.
const BUFFER_BYTES: usize = 256 << 10;

/// What goes into one stream or package.
pub(super) struct Plan {
    /// None: a single stream.
    pub(super) package: Option<Package>,
    pub(super) jobs: Vec<Sent>,
}

/// The head of a package of streams.
pub(super) struct Package {
    pub(super) name: String,
    /// What is in it; without one, the snapshots of one file system.
    pub(super) list: Option<NvList>,
}

/// A stream, and what it starts from as people name it.
pub(super) struct Sent {
    pub(super) job: SendJob,
    pub(super) from: Option<String>,
}

/// What is sent along with a dataset.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Itself,
    AllBelow,
}

/// In what form encrypted blocks are sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// As programs read them.
    Readable,
    /// As they are stored.
    Raw,
}

impl Form {
    const fn of(raw: bool) -> Self {
        match raw {
            true => Self::Raw,
            false => Self::Readable,
        }
    }
}

impl Service {
    /// Writes what is asked for to the command's descriptor.
    pub(super) fn send(
        &self,
        request: &SendRequest,
        caller: &Caller,
        data: PassedDescriptor,
    ) -> Result<(), Failure> {
        let plan = self.plan(request, caller)?;
        let holds: Vec<_> = plan
            .jobs
            .iter()
            .map(|sent| sent.job.dataset.hold_long())
            .collect();
        let followed = self.streams.sending.follow(request.number);
        let data = Counted::new(data, &followed.written);
        let mut writer = Writer::new(BufWriter::with_capacity(BUFFER_BYTES, data));
        let whole = &request.snapshot;
        let framed = |error| send_failed(whole, &SendError::from(error));
        if let Some(Package { name, list }) = &plan.package {
            let features = if request.holds {
                Features::HOLDS
            } else {
                Features::empty()
            };
            let begun = writer.begin_package(name.as_bytes(), features, list.as_ref());
            begun.map_err(framed)?;
        }
        for sent in &plan.jobs {
            followed.written.begin(&sent.job.name);
            let done = send(&self.pool, &sent.job, &mut writer);
            done.map_err(|error| send_failed(&sent.job.name, &error))?;
        }
        if plan.package.is_some() {
            writer.end_package().map_err(framed)?;
        }
        drop(holds);
        Ok(())
    }

    /// How long the streams will be.
    pub(super) fn sizes(
        &self,
        request: &SendRequest,
        caller: &Caller,
    ) -> Result<Vec<StreamSize>, Failure> {
        let plan = self.plan(request, caller)?;
        let size = |sent: Sent| {
            let bytes = estimate(&sent.job).map_err(|error| send_failed(&sent.job.name, &error))?;
            Ok(StreamSize {
                name: sent.job.name,
                from: sent.from,
                bytes,
            })
        };
        plan.jobs.into_iter().map(size).collect()
    }

    /// Refuses who may not send a dataset, with `-R` and all below it, in a form. `name`: what was asked for.
    fn may_send(
        &self,
        caller: &Caller,
        name: &str,
        reach: Reach,
        form: Form,
    ) -> Result<(), Failure> {
        let actor = actor_of(caller);
        let top = [name::dataset_of(name).to_owned()];
        for dataset in self.these(&top, reach == Reach::AllBelow)? {
            let permissions = self.permissions_to_send(&dataset, form)?;
            self.require_one(&actor, &dataset, &permissions, || denied("send", name))?;
        }
        Ok(())
    }

    /// Permissions each of which is enough to send a dataset.
    fn permissions_to_send(
        &self,
        dataset: &str,
        form: Form,
    ) -> Result<Vec<Permission<'static>>, Failure> {
        let mut enough = vec![Permission::SEND];
        if form == Form::Readable {
            return Ok(enough);
        }
        enough.push(Permission::SEND_RAW);
        // Who may send this only is to learn nothing of what is sent.
        if let Ok(head) = self.dsl.head(dataset)
            && head.is_encrypted().map_err(unreadable)?
        {
            enough.push(Permission::SEND_ENCRYPTED);
        }
        Ok(enough)
    }

    fn plan(&self, request: &SendRequest, caller: &Caller) -> Result<Plan, Failure> {
        // What is to be left out must not be sent because something else was asked for, too.
        let is_package = request.replicate || request.properties || request.holds || request.backup;
        let is_other = request.intermediate || request.saved || request.token.is_some();
        if request.redact.is_some() && (is_package || is_other || request.raw) {
            let text = "only a plain stream of one snapshot can be redacted";
            let name = &request.snapshot;
            return Err(Failure::cannot(FailureKind::Invalid, "send", name, text));
        }
        if let Some(text) = &request.token {
            return self.resumed(text, request, caller);
        }
        let name = &request.snapshot;
        if request.saved {
            self.may_send(caller, name, Reach::Itself, Form::Readable)?;
            return self.saved(name, request);
        }
        let reach = match request.replicate {
            true => Reach::AllBelow,
            false => Reach::Itself,
        };
        self.may_send(caller, name, reach, Form::of(request.raw))?;
        let found = self.dsl.dataset(name);
        let snapshot = found.map_err(|error| refused("open", name, &error))?;
        let options = options(request);
        if !snapshot.is_snapshot() && !self.readonly {
            let text = "only a snapshot can be sent, or a file system of a pool that is imported read-only";
            return Err(Failure::cannot(FailureKind::Invalid, "send", name, text));
        }
        let has_list = request.replicate || request.properties || request.holds || request.backup;
        let alone = match (request.replicate, &request.from) {
            (true, Some(from)) => {
                self.send_source(&snapshot, name, from)?;
                None
            }
            (true, None) => None,
            (false, Some(from)) if request.intermediate => {
                Some(self.steps(&snapshot, name, from, options)?)
            }
            (false, _) => Some(vec![self.one_stream(&snapshot, name, request, options)?]),
        };
        if has_list {
            return package(&self.dsl, &snapshot, request, alone);
        }
        Ok(Plan {
            package: request.intermediate.then(|| Package {
                name: name.clone(),
                list: None,
            }),
            jobs: alone.unwrap_or_default(),
        })
    }

    /// One stream, which may begin with a snapshot or bookmark that the receiver has.
    fn one_stream(
        &self,
        dataset: &Arc<Dataset>,
        name: &str,
        request: &SendRequest,
        options: SendOptions,
    ) -> Result<Sent, Failure> {
        let from = request.from.as_deref();
        let base = from
            .map(|from| self.send_source(dataset, name, from))
            .transpose()?;
        let (source, mut redaction) = Base::split(base);
        if let Some(bookmark) = &request.redact {
            redaction.left_out = Some(self.redaction_of(dataset, name, bookmark)?);
        }
        let job = SendJob {
            from: source,
            redaction,
            name: if dataset.is_snapshot() {
                name.to_owned()
            } else {
                format!("{name}@--head--")
            },
            dataset: Arc::clone(dataset),
            options,
            resume: None,
            saved: None,
        };
        let from = from.map(str::to_owned);
        Ok(Sent { job, from })
    }

    /// All snapshots behind `from` up to this one, each from the one before.
    fn steps(
        &self,
        last: &Arc<Dataset>,
        name: &str,
        from: &str,
        options: SendOptions,
    ) -> Result<Vec<Sent>, Failure> {
        self.send_source(last, name, from)?;
        let first = self.dsl.dataset(from);
        let first = first.map_err(|error| refused("open", from, &error))?;
        let mut chain = vec![Arc::clone(last)];
        let mut current = Arc::clone(last);
        while let Some(previous) = current.previous().map_err(unreadable)? {
            current = Arc::clone(&previous);
            if current.id() == first.id() {
                break;
            }
            chain.push(previous);
        }
        let mut before = (from.to_owned(), first);
        let mut jobs = Vec::new();
        for dataset in chain.into_iter().rev() {
            let name = dataset.name().map_err(unreadable)?;
            let base = Base::of(&before.1, &dataset)?;
            let job = SendJob {
                from: Some(base.from),
                redaction: base.redaction,
                name: name.clone(),
                dataset: Arc::clone(&dataset),
                options,
                resume: None,
                saved: None,
            };
            let from = std::mem::replace(&mut before, (name, dataset)).0;
            jobs.push(Sent {
                job,
                from: Some(from),
            });
        }
        Ok(jobs)
    }

    /// What the receiver has, by the name of a snapshot or bookmark.
    fn send_source(&self, to: &Arc<Dataset>, name: &str, from: &str) -> Result<Base, Failure> {
        let missing = || {
            let text = format!("incremental source ({from}) does not exist");
            Failure::cannot(FailureKind::Missing, "send", name, text)
        };
        let unrelated = || {
            let text = "not an earlier snapshot from the same fs";
            Failure::cannot(FailureKind::Invalid, "send", name, text)
        };
        if let Some((head, short)) = from.split_once('#') {
            let head = self.dsl.head(head).map_err(|_| missing())?;
            let found = head.bookmark(short).map_err(unreadable)?;
            let found = found.ok_or_else(missing)?;
            let list = head.redaction_list(&found).map_err(unreadable)?;
            let mark = found.phys;
            let is_own = head.directory().id() == to.directory().id();
            // What was left out of the snapshot itself can be sent later.
            let is_itself = list.is_some() && mark.guid == to.guid().map_err(unreadable)?;
            let is_before = mark.creation_txg < to.phys().map_err(unreadable)?.creation_txg;
            if !is_own || !(is_before || is_itself) {
                return Err(unrelated());
            }
            let sizes = (mark.compressed_bytes, mark.uncompressed_bytes);
            return Ok(Base {
                from: SendFrom {
                    guid: mark.guid,
                    txg: mark.creation_txg,
                    is_origin: false,
                    sizes: mark.counts_freed().then_some(sizes),
                    ivset: mark.ivset_guid,
                },
                redaction: SendRedaction {
                    sent_again: list.map(|list| complete(list, name)).transpose()?,
                    ..SendRedaction::default()
                },
            });
        }
        let source = self.dsl.dataset(from).map_err(|_| missing())?;
        if !source.is_snapshot() || !source.is_before(to).map_err(unreadable)? {
            return Err(unrelated());
        }
        Base::of(&source, to)
    }

    /// The redaction list by which a snapshot is sent, of a bookmark of it.
    fn redaction_of(
        &self,
        snapshot: &Arc<Dataset>,
        name: &str,
        bookmark: &str,
    ) -> Result<Arc<RedactionList>, Failure> {
        let refuse = |kind, text: String| Failure::cannot(kind, "send", name, text);
        let (path, short) = match bookmark.split_once('#') {
            Some(("", short)) => (name::dataset_of(name), short),
            Some((path, short)) => (path, short),
            None => (name::dataset_of(name), bookmark),
        };
        let head = self.dsl.head(path);
        let head = head.map_err(|error| refused("open", path, &error))?;
        let found = head.bookmark(short).map_err(unreadable)?.ok_or_else(|| {
            let text = format!("redaction bookmark '{path}#{short}' does not exist");
            refuse(FailureKind::Missing, text)
        })?;
        if found.phys.guid != snapshot.guid().map_err(unreadable)? {
            let text = "redaction bookmark provided not created against given snapshot";
            return Err(refuse(FailureKind::Invalid, text.to_owned()));
        }
        let list = head.redaction_list(&found).map_err(unreadable)?;
        let list = list.ok_or_else(|| {
            let text = format!("bookmark '{path}#{short}' is not a redaction bookmark");
            refuse(FailureKind::Invalid, text)
        })?;
        complete(list, name)
    }

    /// What a receive that broke off has left.
    fn saved(&self, name: &str, request: &SendRequest) -> Result<Plan, Failure> {
        let refuse = |kind, text: &str| Err(Failure::cannot(kind, "send", name, text));
        let head = self.dsl.head(name);
        head.map_err(|error| refused("open", name, &error))?;
        let found = self.dsl.interrupted_receive(name).map_err(unreadable)?;
        let Some((dataset, state)) = found else {
            let text = "it has no partially received state";
            return refuse(FailureKind::Invalid, text);
        };
        if state.raw {
            // Its blocks of dnodes are proven only when all of their dnodes have come.
            let text = "what was received in part of a raw stream cannot be sent";
            return refuse(FailureKind::Unsupported, text);
        }
        if dataset.is_held_long() {
            return refuse(FailureKind::Busy, "it is being received now");
        }
        let origin = dataset.previous().map_err(unreadable)?;
        let base = match origin.filter(|_| state.from_guid != Guid(0)) {
            Some(origin) => Some(Base::of(&origin, &dataset)?),
            None => None,
        };
        let is_clone = dataset.directory().component() != RECEIVED;
        let (from, redaction) = Base::split(base);
        // What is beside its head continues it.
        let from = from.map(|from| SendFrom {
            guid: state.from_guid,
            is_origin: is_clone,
            ..from
        });
        let asked = options(request);
        let job = SendJob {
            name: state.to_name.clone(),
            dataset,
            from,
            options: SendOptions {
                large_blocks: asked.large_blocks || state.large_blocks,
                embedded: asked.embedded || state.embedded,
                compressed: asked.compressed || state.compressed,
                raw: false,
            },
            resume: None,
            redaction,
            saved: Some(SavedPart {
                to_guid: state.to_guid,
                until: (ObjectId(state.point.object), state.point.offset),
            }),
        };
        Ok(Plan {
            package: None,
            jobs: vec![Sent { job, from: None }],
        })
    }

    /// What a token says that is still to be sent.
    fn resumed(&self, text: &str, request: &SendRequest, caller: &Caller) -> Result<Plan, Failure> {
        let bad =
            |text: &str| Failure::new(FailureKind::Invalid, format!("cannot resume send: {text}"));
        let token = ResumeToken::decode(text).map_err(|error| bad(&error.to_string()))?;
        let name = String::from_utf8_lossy(&token.to_name).into_owned();
        let head = name::dataset_of(&name);
        let raw = request.raw || token.raw;
        self.may_send(caller, &name, Reach::Itself, Form::of(raw))?;
        let gone = || {
            bad(&format!(
                "'{name}' used in the initial send no longer exists"
            ))
        };
        let head = self.dsl.head(head).map_err(|_| gone())?;
        let mut snapshots = head.snapshots().map_err(unreadable)?.into_iter();
        let dataset = snapshots
            .find(|one| one.guid().is_ok_and(|guid| guid == token.to_guid))
            .ok_or_else(gone)?;
        let base = match token.from_guid {
            Some(guid) => {
                let by = token.bookmark_redact_snapshots.as_deref().map(guids);
                Some(
                    self.source_of_guid(&dataset, guid, by.as_deref())?
                        .ok_or_else(|| {
                            bad(&format!(
                                "incremental source {:#x} no longer exists",
                                guid.0
                            ))
                        })?,
                )
            }
            None => None,
        };
        let (from, mut redaction) = Base::split(base);
        if let Some(words) = &token.redact_snapshots
            && dataset.redacted_by().map_err(unreadable)?.is_none()
        {
            let list = redaction_by(&dataset, token.to_guid, &guids(words))?;
            redaction.left_out = Some(list.ok_or_else(|| {
                bad("the redaction bookmark used in the initial send no longer exists")
            })?);
        }
        let asked = options(request);
        let job = SendJob {
            name: dataset.name().map_err(unreadable)?,
            dataset,
            from,
            options: SendOptions {
                large_blocks: asked.large_blocks || token.large_blocks,
                embedded: asked.embedded || token.embedded,
                compressed: asked.compressed || token.compressed,
                raw,
            },
            resume: Some((token.object, token.offset)),
            redaction,
            saved: None,
        };
        let from = token.from_guid.map(|guid| format!("{:#x}", guid.0));
        Ok(Plan {
            package: None,
            jobs: vec![Sent { job, from }],
        })
    }

    /// The snapshot before this one, or the bookmark, with a guid.
    fn source_of_guid(
        &self,
        to: &Arc<Dataset>,
        guid: Guid,
        redacted_by: Option<&[Guid]>,
    ) -> Result<Option<Base>, Failure> {
        let mut current = to.previous().map_err(unreadable)?;
        // What a bookmark's list has is sent again, by whatever bookmark has the same.
        current.take_if(|_| redacted_by.is_some());
        while let Some(snapshot) = current {
            if snapshot.guid().map_err(unreadable)? == guid {
                return Base::of(&snapshot, to).map(Some);
            }
            current = snapshot.previous().map_err(unreadable)?;
        }
        let Some(head) = to.directory().head().map_err(unreadable)? else {
            return Ok(None);
        };
        let marks = head.bookmarks().map_err(unreadable)?;
        let name = head.name().map_err(unreadable)?;
        for mark in marks {
            let list = head.redaction_list(&mark).map_err(unreadable)?;
            let is_alike = match (redacted_by, &list) {
                (Some(by), Some(list)) => list.is_by(by),
                (Some(_), None) => false,
                (None, _) => true,
            };
            if mark.phys.guid == guid && is_alike {
                let from = format!("{name}#{}", mark.name);
                return self.send_source(to, &name, &from).map(Some);
            }
        }
        Ok(None)
    }
}

fn guids(words: &[u64]) -> Vec<Guid> {
    words.iter().copied().map(Guid).collect()
}

/// The complete redaction list of a snapshot that is by these.
fn redaction_by(
    snapshot: &Arc<Dataset>,
    guid: Guid,
    by: &[Guid],
) -> Result<Option<Arc<RedactionList>>, Failure> {
    let Some(head) = snapshot.directory().head().map_err(unreadable)? else {
        return Ok(None);
    };
    for mark in head.bookmarks().map_err(unreadable)? {
        let list = head.redaction_list(&mark).map_err(unreadable)?;
        let fits = |list: &RedactionList| list.is_complete() && list.is_by(by);
        if let Some(list) = list.filter(fits)
            && mark.phys.guid == guid
        {
            return Ok(Some(Arc::new(list)));
        }
    }
    Ok(None)
}

/// A redaction list, which must be complete.
fn complete(list: RedactionList, name: &str) -> Result<Arc<RedactionList>, Failure> {
    if list.is_complete() {
        return Ok(Arc::new(list));
    }
    let text = "incomplete redaction bookmark provided";
    Err(Failure::cannot(FailureKind::Invalid, "send", name, text))
}

/// What a stream starts from.
#[derive(Clone)]
pub(super) struct Base {
    from: SendFrom,
    redaction: SendRedaction,
}

impl Base {
    /// A snapshot.
    pub(super) fn of(source: &Dataset, to: &Dataset) -> Result<Self, Failure> {
        Ok(Self {
            from: from_snapshot(source, to)?,
            redaction: SendRedaction {
                from: source.redacted_by().map_err(unreadable)?,
                ..SendRedaction::default()
            },
        })
    }

    /// Its two parts; of nothing nothing.
    pub(super) fn split(base: Option<Self>) -> (Option<SendFrom>, SendRedaction) {
        base.map_or_else(Default::default, |base| (Some(base.from), base.redaction))
    }
}

pub(super) fn options(request: &SendRequest) -> SendOptions {
    SendOptions {
        large_blocks: request.large_blocks,
        embedded: request.embedded,
        compressed: request.compressed,
        raw: request.raw,
    }
}

fn from_snapshot(source: &Dataset, to: &Dataset) -> Result<SendFrom, Failure> {
    let phys = source.phys().map_err(unreadable)?;
    Ok(SendFrom {
        guid: phys.guid,
        txg: phys.creation_txg,
        is_origin: source.directory().id() != to.directory().id(),
        sizes: Some((phys.compressed_bytes, phys.uncompressed_bytes)),
        ivset: source
            .extra_word(IVSET_GUID)
            .map_err(unreadable)?
            .unwrap_or(0),
    })
}

/// Why a stream has no end.
fn send_failed(name: &str, error: &SendError) -> Failure {
    let kind = match error {
        SendError::Dsl(error) => {
            let (kind, text) = reason(error);
            return Failure::cannot(kind, "send", name, text);
        }
        SendError::Read(_) | SendError::Format(_) | SendError::Dmu(_) => FailureKind::Medium,
        SendError::Stream(StreamError::Io(_)) => FailureKind::Service,
        SendError::Stream(_) | SendError::Needs(..) => FailureKind::Invalid,
        SendError::NotEncrypted => FailureKind::Medium,
        SendError::OtherOrder | SendError::Redacted | SendError::RawRedacted => {
            FailureKind::Unsupported
        }
    };
    Failure::cannot(kind, "send", name, error)
}
