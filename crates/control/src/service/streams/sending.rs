//! `zfs send`: which snapshots go into the stream, and who may send them.

use std::io::BufWriter;
use std::sync::Arc;

use admin::{Caller, Failure, FailureKind, SendRequest, StreamSize, name};
use dsl::Dataset;
use format::NvList;
use format::dsl::key::IVSET_GUID;
use replication::send::{SendError, SendFrom, SendJob, SendOptions, estimate, send};
use stream::{Features, ResumeToken, StreamError, Writer};
use sys::PassedDescriptor;

use super::package::package;
use crate::service::Service;
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
        let mut writer = Writer::new(BufWriter::with_capacity(BUFFER_BYTES, data));
        let whole = &request.snapshot;
        let framed = |error| send_failed(whole, &SendError::from(error));
        if let Some(Package { name, list }) = &plan.package {
            let features = if request.holds {
                Features::HOLDS
            } else {
                Features::NONE
            };
            let begun = writer.begin_package(name.as_bytes(), features, list.as_ref());
            begun.map_err(framed)?;
        }
        for sent in &plan.jobs {
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

    fn may_send(&self, caller: &Caller, name: &str) -> Result<(), Failure> {
        let dataset = name::dataset_of(name);
        self.require(&actor_of(caller), dataset, &["send"], || {
            denied("send", name)
        })
    }

    fn plan(&self, request: &SendRequest, caller: &Caller) -> Result<Plan, Failure> {
        if let Some(text) = &request.token {
            return self.resumed(text, request, caller);
        }
        let name = &request.snapshot;
        self.may_send(caller, name)?;
        if request.replicate {
            let top = [name::dataset_of(name).to_owned()];
            let refuse = || denied("send", name);
            self.require_each(&actor_of(caller), &top, true, "send", refuse)?;
        }
        let found = self.dsl.dataset(name);
        let snapshot = found.map_err(|error| refused("open", name, &error))?;
        let options = options(request);
        if !snapshot.is_snapshot() && !self.readonly {
            let text = "only a snapshot can be sent, or a file system of a pool that is imported read-only";
            return Err(Failure::cannot(FailureKind::Invalid, "send", name, text));
        }
        if request.replicate || request.properties || request.holds || request.backup {
            if let Some(from) = &request.from {
                self.send_source(&snapshot, name, from)?;
            }
            return package(&snapshot, request);
        }
        if request.intermediate {
            let from = request.from.as_deref().unwrap_or_default();
            return self.steps(&snapshot, name, from, options);
        }
        let from = request.from.as_deref();
        let job = SendJob {
            from: from
                .map(|from| self.send_source(&snapshot, name, from))
                .transpose()?,
            name: if snapshot.is_snapshot() {
                name.clone()
            } else {
                format!("{name}@--head--")
            },
            dataset: snapshot,
            options,
            resume: None,
        };
        let from = from.map(str::to_owned);
        Ok(Plan {
            package: None,
            jobs: vec![Sent { job, from }],
        })
    }

    /// All snapshots behind `from` up to this one, each from the one before.
    fn steps(
        &self,
        last: &Arc<Dataset>,
        name: &str,
        from: &str,
        options: SendOptions,
    ) -> Result<Plan, Failure> {
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
            let job = SendJob {
                from: Some(from_snapshot(&before.1, &dataset)?),
                name: name.clone(),
                dataset: Arc::clone(&dataset),
                options,
                resume: None,
            };
            let from = std::mem::replace(&mut before, (name, dataset)).0;
            jobs.push(Sent {
                job,
                from: Some(from),
            });
        }
        Ok(Plan {
            package: Some(Package {
                name: name.to_owned(),
                list: None,
            }),
            jobs,
        })
    }

    /// What the receiver has, by the name of a snapshot or bookmark.
    fn send_source(&self, to: &Arc<Dataset>, name: &str, from: &str) -> Result<SendFrom, Failure> {
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
            let mark = head.bookmark(short).map_err(unreadable)?;
            let mark = mark.ok_or_else(missing)?.phys;
            let is_own = head.directory().id() == to.directory().id();
            if !is_own || mark.creation_txg >= to.phys().map_err(unreadable)?.creation_txg {
                return Err(unrelated());
            }
            let sizes = (mark.compressed_bytes, mark.uncompressed_bytes);
            return Ok(SendFrom {
                guid: mark.guid,
                txg: mark.creation_txg,
                is_origin: false,
                sizes: mark.counts_freed().then_some(sizes),
                ivset: mark.ivset_guid,
            });
        }
        let source = self.dsl.dataset(from).map_err(|_| missing())?;
        if !source.is_snapshot() || !source.is_before(to).map_err(unreadable)? {
            return Err(unrelated());
        }
        from_snapshot(&source, to)
    }

    /// What a token says that is still to be sent.
    fn resumed(&self, text: &str, request: &SendRequest, caller: &Caller) -> Result<Plan, Failure> {
        let bad =
            |text: &str| Failure::new(FailureKind::Invalid, format!("cannot resume send: {text}"));
        let token = ResumeToken::decode(text).map_err(|error| bad(&error.to_string()))?;
        if token.redact_snapshots.is_some() {
            return Err(bad("redacted streams are not sent"));
        }
        let name = String::from_utf8_lossy(&token.to_name).into_owned();
        let head = name::dataset_of(&name);
        self.may_send(caller, &name)?;
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
        let from = match token.from_guid {
            Some(guid) => Some(self.source_of_guid(&dataset, guid)?.ok_or_else(|| {
                bad(&format!(
                    "incremental source {:#x} no longer exists",
                    guid.0
                ))
            })?),
            None => None,
        };
        let asked = options(request);
        let job = SendJob {
            name: dataset.name().map_err(unreadable)?,
            dataset,
            from,
            options: SendOptions {
                large_blocks: asked.large_blocks || token.large_blocks,
                embedded: asked.embedded || token.embedded,
                compressed: asked.compressed || token.compressed,
                raw: asked.raw || token.raw,
            },
            resume: Some((token.object, token.offset)),
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
        guid: base::Guid,
    ) -> Result<Option<SendFrom>, Failure> {
        let mut current = to.previous().map_err(unreadable)?;
        while let Some(snapshot) = current {
            if snapshot.guid().map_err(unreadable)? == guid {
                return from_snapshot(&snapshot, to).map(Some);
            }
            current = snapshot.previous().map_err(unreadable)?;
        }
        let Some(head) = to.directory().head().map_err(unreadable)? else {
            return Ok(None);
        };
        let marks = head.bookmarks().map_err(unreadable)?;
        let name = head.name().map_err(unreadable)?;
        match marks.into_iter().find(|mark| mark.phys.guid == guid) {
            Some(mark) => {
                let from = format!("{name}#{}", mark.name);
                self.send_source(to, &name, &from).map(Some)
            }
            None => Ok(None),
        }
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

pub(super) fn from_snapshot(source: &Dataset, to: &Dataset) -> Result<SendFrom, Failure> {
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
        SendError::OtherOrder | SendError::Redacted => FailureKind::Unsupported,
    };
    Failure::cannot(kind, "send", name, error)
}
