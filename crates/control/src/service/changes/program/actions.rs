//! The changes that programs make, and what they are told of those that cannot be.
//!
//! They go by the same tasks as commands do, but nothing is unmounted, and a program gets a number where a command
//! gets a sentence.

use std::sync::Arc;

use admin::rows::Access;
use admin::{FailureKind, NameKind, PropertyName, find_dataset_property, name};
use dsl::tasks::{self, CreateBookmark, DestroyHead, DestroySnapshots, RenameSnapshot};
use dsl::{
    Dataset, DslError, PropertyChange, PropertyValue, SetProperties, SpaceClass, Task, TaskContext,
};
use program::{Action, Mode, Refusal, errno};

use crate::service::Service;
use crate::service::refusal::reason;
use crate::service::reporter::Reporter;

/// The longest value of a property.
const VALUE_BYTES_MAX: usize = 8191;

/// A task of which only the check is made.
struct OnlyCheck<T>(T);

impl<T: Task> Task for OnlyCheck<T> {
    type Output = ();

    fn space(&self) -> SpaceClass {
        self.0.space()
    }

    fn check(&mut self, context: &TaskContext<'_>) -> dsl::Result<()> {
        self.0.check(context)
    }

    fn apply(&mut self, _context: &TaskContext<'_>) -> dsl::Result<()> {
        Ok(())
    }
}

/// Answers for one change.
pub(super) fn act(service: &Service, action: &Action, mode: Mode) -> Result<(), Refusal> {
    match action {
        Action::Destroy { name, deferred } => match named(service, name)? {
            NameKind::Snapshot => destroy_snapshot(service, name, *deferred, mode),
            NameKind::Dataset => destroy_head(service, name, mode),
            NameKind::Bookmark => Err(invalid()),
        },
        Action::Inherit { name, property } => inherit(service, name, property, mode),
        Action::Promote { name } => promote(service, name, mode),
        Action::Rollback { name } => rollback(service, name, mode),
        Action::SetProperty {
            name,
            property,
            value,
        } => set_property(service, (name, property, value), mode),
        Action::Snapshot { name } => snapshot(service, name, mode),
        Action::RenameSnapshot { dataset, from, to } => {
            let old = format!("{dataset}@{from}");
            expect(service, &old, NameKind::Snapshot)?;
            expect(service, &format!("{dataset}@{to}"), NameKind::Snapshot)?;
            let task = RenameSnapshot {
                from: old,
                to: to.clone(),
                recursive: false,
            };
            attempt(service, task, mode)?;
            told(service, dataset, mode);
            Ok(())
        }
        Action::Bookmark { source, name } => {
            named(service, source)?;
            expect(service, name, NameKind::Bookmark)?;
            let task = CreateBookmark {
                name: name.clone(),
                source: source.clone(),
            };
            attempt(service, task, mode)
        }
    }
}

const fn invalid() -> Refusal {
    Refusal::new(errno::EINVAL)
}

const fn busy() -> Refusal {
    Refusal::new(errno::EBUSY)
}

/// What a name is of; refuses what is no name, or of another pool.
fn named(service: &Service, full_name: &str) -> Result<NameKind, Refusal> {
    let kind = name::check(full_name).map_err(|_| invalid())?;
    if name::pool_of(full_name) != service.dsl.pool_name() {
        return Err(Refusal::new(errno::EXDEV));
    }
    Ok(kind)
}

fn expect(service: &Service, full_name: &str, kind: NameKind) -> Result<(), Refusal> {
    match named(service, full_name)? == kind {
        true => Ok(()),
        false => Err(invalid()),
    }
}

/// Makes a task's change, or only its check.
fn attempt<T: Task + 'static>(service: &Service, task: T, mode: Mode) -> Result<(), Refusal> {
    let done = match mode {
        Mode::Do => service.run(task).map(drop),
        Mode::Check => service.run(OnlyCheck(task)),
    };
    done.map_err(|error| refusal(&error))
}

/// Tells a mount that the snapshots of its file system are others.
fn told(service: &Service, dataset: &str, mode: Mode) {
    if mode == Mode::Do {
        service.mounts().snapshots_changed(dataset);
    }
}

fn refusal(error: &DslError) -> Refusal {
    let number = if let DslError::HasClones { .. } | DslError::HasChildren { .. } = error {
        errno::EEXIST
    } else if let DslError::HasSnapshots { .. } = error {
        errno::EBUSY
    } else if let DslError::Quota { .. } = error {
        errno::EDQUOT
    } else {
        number_of(reason(error).0)
    };
    Refusal::new(number)
}

const fn number_of(kind: FailureKind) -> i64 {
    match kind {
        FailureKind::Missing => errno::ENOENT,
        FailureKind::Exists => errno::EEXIST,
        FailureKind::Busy => errno::EBUSY,
        FailureKind::Permission => errno::EACCES,
        FailureKind::Space => errno::ENOSPC,
        FailureKind::ReadOnly => errno::EROFS,
        FailureKind::Usage | FailureKind::Invalid => errno::EINVAL,
        FailureKind::Unsupported => errno::ENOTSUP,
        FailureKind::Medium | FailureKind::Service => errno::EIO,
    }
}

fn found(service: &Service, full_name: &str) -> Result<Arc<Dataset>, Refusal> {
    let found = service.dsl.dataset(full_name);
    found.map_err(|error| refusal(&error))
}

/// A head that nothing uses: neither a mount nor who has the volume open.
fn unused_head(service: &Service, path: &str) -> Result<Arc<Dataset>, Refusal> {
    expect(service, path, NameKind::Dataset)?;
    let head = found(service, path)?;
    let mounted = service.mounts().mounted();
    if mounted.iter().any(|mount| mount.dataset == path) || service.volumes.is_open(&head) {
        return Err(busy());
    }
    Ok(head)
}

fn destroy_snapshot(
    service: &Service,
    full_name: &str,
    deferred: bool,
    mode: Mode,
) -> Result<(), Refusal> {
    let snapshot = found(service, full_name)?;
    let holds = snapshot.holds().map_err(|error| refusal(&error))?;
    if !deferred && (!holds.is_empty() || snapshot.is_held_long()) {
        return Err(busy());
    }
    drop(snapshot);
    let task = DestroySnapshots {
        names: vec![full_name.to_owned()],
        defer: deferred,
    };
    attempt(service, task, mode)?;
    told(service, name::dataset_of(full_name), mode);
    Ok(())
}

fn destroy_head(service: &Service, path: &str, mode: Mode) -> Result<(), Refusal> {
    let head = unused_head(service, path)?;
    // What an interrupted receive has left goes with the head, but not if the head stays.
    if head.has_snapshots().map_err(|error| refusal(&error))? {
        return Err(busy());
    }
    let children = head.directory().children();
    if !children.map_err(|error| refusal(&error))?.is_empty() {
        return Err(Refusal::new(errno::EEXIST));
    }
    service
        .check_head(path)
        .map_err(|failure| Refusal::new(number_of(failure.kind)))?;
    drop(head);
    if mode == Mode::Check {
        let path = path.to_owned();
        return attempt(service, DestroyHead { path }, mode);
    }
    service
        .destroy_head(path)
        .map_err(|error| refusal(&error))?;
    service.kinds.forget_all();
    Ok(())
}

fn inherit(service: &Service, full_name: &str, property: &str, mode: Mode) -> Result<(), Refusal> {
    named(service, full_name)?;
    let property = match find_dataset_property(property) {
        Some(PropertyName::Native(row)) if row.access == Access::Settable && row.inherits => {
            row.name.to_owned()
        }
        Some(PropertyName::User(name)) => name,
        Some(PropertyName::Native(_) | PropertyName::Computed(_)) | None => return Err(invalid()),
    };
    found(service, full_name)?;
    let changes = vec![(property, PropertyChange::Inherit)];
    if mode == Mode::Check {
        let name = full_name.to_owned();
        return attempt(service, SetProperties { name, changes }, mode);
    }
    let mut nobody = |_| Ok(());
    let reporter = &mut Reporter::new(&mut nobody);
    let done = service.change_properties(full_name, changes, false, reporter);
    done.map_err(|failure| Refusal::new(number_of(failure.kind)))
}

fn set_property(
    service: &Service,
    (full_name, property, value): (&str, &str, &str),
    mode: Mode,
) -> Result<(), Refusal> {
    named(service, full_name)?;
    let Some(PropertyName::User(property)) = find_dataset_property(property) else {
        return Err(invalid());
    };
    if value.len() > VALUE_BYTES_MAX {
        return Err(Refusal::new(errno::E2BIG));
    }
    found(service, full_name)?;
    let value = PropertyValue::Text(value.to_owned());
    let task = SetProperties {
        name: full_name.to_owned(),
        changes: vec![(property, PropertyChange::Set(value))],
    };
    attempt(service, task, mode)
}

fn promote(service: &Service, path: &str, mode: Mode) -> Result<(), Refusal> {
    expect(service, path, NameKind::Dataset)?;
    let clone = found(service, path)?;
    let (old, conflicts) = conflicts(&clone).map_err(|error| refusal(&error))?;
    if !conflicts.is_empty() {
        return Err(Refusal {
            errno: errno::EEXIST,
            details: conflicts,
        });
    }
    drop(clone);
    let task = tasks::Promote {
        path: path.to_owned(),
    };
    attempt(service, task, mode)?;
    told(service, path, mode);
    told(service, &old, mode);
    Ok(())
}

/// Where a clone comes from, and its snapshots that are called like one that it would get from there.
fn conflicts(clone: &Arc<Dataset>) -> dsl::Result<(String, Vec<String>)> {
    let path = clone.directory().name();
    let origin = clone.directory().origin()?;
    let origin = origin.ok_or(DslError::NotClone { name: path })?;
    let old = origin.directory();
    let last = origin.phys()?.creation_txg;
    let mut conflicts = Vec::new();
    if let Some(head) = old.head()? {
        for snapshot in head.snapshots()? {
            let short = snapshot.snapshot_name()?;
            if snapshot.phys()?.creation_txg <= last && clone.snapshot(&short)?.is_some() {
                conflicts.push(short);
            }
        }
    }
    Ok((old.name(), conflicts))
}

fn rollback(service: &Service, path: &str, mode: Mode) -> Result<(), Refusal> {
    let head = unused_head(service, path)?;
    let latest = head.latest_snapshot().map_err(|error| refusal(&error))?;
    // Of a clone it would be the origin, which is another's.
    let latest = latest.filter(|found| found.directory().id() == head.directory().id());
    if latest.is_none() {
        return Err(Refusal::new(errno::ESRCH));
    }
    drop(head);
    let task = tasks::Rollback {
        path: path.to_owned(),
        snapshot: None,
    };
    attempt(service, task, mode)?;
    if mode == Mode::Do {
        service.mounts().content_changed(path);
    }
    Ok(())
}

fn snapshot(service: &Service, full_name: &str, mode: Mode) -> Result<(), Refusal> {
    expect(service, full_name, NameKind::Snapshot)?;
    let path = name::dataset_of(full_name);
    let head = found(service, path)?;
    // It is being received.
    if head.is_inconsistent().map_err(|error| refusal(&error))? {
        return Err(busy());
    }
    let mut resting = None;
    if mode == Mode::Do {
        let written = service.mounts().barrier(path);
        written.map_err(|failure| Refusal::new(number_of(failure.kind)))?;
        let rests = service.pool.rest_logs(&[head]);
        resting = Some(rests.map_err(|_| busy())?);
    }
    let task = tasks::Snapshot {
        names: vec![full_name.to_owned()],
        properties: Vec::new(),
    };
    attempt(service, task, mode)?;
    drop(resting);
    told(service, path, mode);
    Ok(())
}
