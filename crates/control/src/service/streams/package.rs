//! Packages: several snapshots with the properties of their file systems (`-R`, `-p`), and what the list at the head of
//! one says.

use std::sync::Arc;

use admin::{Failure, FailureKind, SendRequest, is_within};
use base::{Guid, ObjectId, Txg};
use dsl::property::{Access, PropertyValue, StoredProperty};
use dsl::{Dataset, Directory, Dsl, DslError};
use format::NvList;
use format::nvlist::Value;
use replication::send::{SendJob, SendOptions};

use super::sending::{Base, Package, Plan, Sent, options};
use crate::service::refusal::unreadable;

/// What is put into one package.
struct Packing<'a> {
    dsl: &'a Dsl,
    request: &'a SendRequest,
    options: SendOptions,
    /// The sent snapshot's name after the `@`, and that of the one that the receiver has.
    to: &'a str,
    from: Option<&'a str>,
    /// When the sent snapshot was made: what was made later need not have it.
    made: Txg,
    systems: Vec<System>,
}

/// A dataset of the package.
struct System {
    head: Arc<Dataset>,
    name: String,
    /// Oldest first, up to the sent one.
    snapshots: Vec<Snapshot>,
    /// The snapshot that it was cloned from.
    origin: Option<Arc<Dataset>>,
    /// What of the dataset above the receiver has, or gets.
    above: Guid,
}

#[derive(Clone)]
struct Snapshot {
    dataset: Arc<Dataset>,
    name: String,
    guid: Guid,
    txg: Txg,
}

/// The package of a snapshot: with `-R` of all below it as well, else of these streams.
pub(super) fn package(
    dsl: &Dsl,
    top: &Arc<Dataset>,
    request: &SendRequest,
    alone: Option<Vec<Sent>>,
) -> Result<Plan, Failure> {
    let after_at = |name: &'_ str| name.split_once('@').map(|(_, short)| short.to_owned());
    let to = after_at(&request.snapshot).unwrap_or_default();
    let from = request.from.as_deref().and_then(after_at);
    let mut packing = Packing {
        dsl,
        request,
        options: options(request),
        to: &to,
        from: from.as_deref(),
        made: top.phys().map_err(unreadable)?.creation_txg,
        systems: Vec::new(),
    };
    packing.add(&top.directory(), Guid(0))?;
    let jobs = match alone {
        Some(jobs) => jobs,
        None => packing.jobs()?,
    };
    Ok(Plan {
        package: Some(Package {
            name: request.snapshot.clone(),
            list: Some(packing.list()?),
        }),
        jobs,
    })
}

impl Packing<'_> {
    /// Takes in a dataset, and with `-R` those below.
    fn add(&mut self, directory: &Arc<Directory>, above: Guid) -> Result<(), Failure> {
        let name = directory.name();
        let is_excluded = |one: &String| is_within(&name, one);
        if self.request.excluded.iter().any(is_excluded) {
            return Ok(());
        }
        let Some(head) = directory.head().map_err(unreadable)? else {
            return Ok(());
        };
        if !self.request.raw && head.is_encrypted().map_err(unreadable)? {
            let text = "encrypted dataset may not be sent with properties without the raw flag";
            return Err(Failure::cannot(FailureKind::Invalid, "send", &name, text));
        }
        let load = || System::load(Arc::clone(&head), name.clone(), self.to, above);
        let system = self.dsl.settled(load).map_err(unreadable)?;
        let below = match &system {
            Some(system) => system.known_by(self.from.unwrap_or(self.to)),
            None => None,
        };
        match system {
            Some(system) => self.systems.push(system),
            None if self.request.skip_missing || self.is_younger(&head)? => {}
            None => {
                let text = format!("snapshot {}@{} does not exist", directory.name(), self.to);
                let whole = format!("cannot send {} recursively: {text}", self.request.snapshot);
                return Err(Failure::new(FailureKind::Missing, whole));
            }
        }
        if self.request.replicate {
            for child in directory.children().map_err(unreadable)? {
                self.add(&child, below.unwrap_or(Guid(0)))?;
            }
        }
        Ok(())
    }

    /// Whether a dataset was made after the snapshot that is sent.
    fn is_younger(&self, head: &Dataset) -> Result<bool, Failure> {
        Ok(head.phys().map_err(unreadable)?.creation_txg > self.made)
    }

    /// The streams: a dataset after the one above it and that which it was cloned from.
    fn jobs(&self) -> Result<Vec<Sent>, Failure> {
        let mut jobs = Vec::new();
        let mut left: Vec<&System> = self.systems.iter().collect();
        while !left.is_empty() {
            let named = |id: ObjectId| {
                let is_it = |one: &&&System| one.head.directory().id() == id;
                left.iter().find(is_it).copied()
            };
            let origin = |system: &System| named(system.origin.as_ref()?.directory().id());
            let above = |system: &System| named(system.head.directory().parent()?.id());
            let waits = |system: &System| origin(system).is_some() || above(system).is_some();
            let mut now: Vec<&System> = left.iter().copied().filter(|one| !waits(one)).collect();
            if now.is_empty() {
                // One is a clone of what lies below it. What it was cloned from goes first, and of what is above that
                // only what must: a receiver has the rest from before, or cannot have it.
                let is_free = |one: &&System| origin(one).is_none();
                for mut one in left.iter().filter_map(|one| origin(one)).filter(is_free) {
                    while let Some(above) = above(one).filter(is_free) {
                        one = above;
                    }
                    now.push(one);
                }
                now.sort_unstable_by(|one, other| one.name.cmp(&other.name));
                now.dedup_by_key(|one| one.head.directory().id());
            }
            // No two are cloned from each other: some can always go.
            if now.is_empty() {
                break;
            }
            for system in &now {
                self.jobs_of(system, &mut jobs)?;
            }
            let is_sent = |one: &System| now.iter().any(|sent| std::ptr::eq(*sent, one));
            left.retain(|one| !is_sent(one));
        }
        Ok(jobs)
    }

    fn jobs_of(&self, system: &System, jobs: &mut Vec<Sent>) -> Result<(), Failure> {
        let base = self.from.and_then(|from| system.named(from));
        let is_after = |one: &&Snapshot| base.is_none_or(|base| one.txg > base.txg);
        let whole = self.request.intermediate || self.from.is_none();
        let mut before = match (base, &system.origin) {
            (Some(base), _) => {
                let name = format!("{}@{}", system.name, base.name);
                Some((Base::of(&base.dataset, &system.head)?, name))
            }
            (None, Some(origin)) => {
                let name = origin.name().map_err(unreadable)?;
                Some((Base::of(origin, &system.head)?, name))
            }
            (None, None) => None,
        };
        for snapshot in system.snapshots.iter().filter(is_after) {
            if !whole && snapshot.name != self.to && !self.is_origin(snapshot.dataset.id()) {
                continue;
            }
            let (base, source): (Option<Base>, Option<String>) = before.unzip();
            let (from, redaction) = Base::split(base);
            let name = format!("{}@{}", system.name, snapshot.name);
            let job = SendJob {
                dataset: Arc::clone(&snapshot.dataset),
                name: name.clone(),
                from,
                options: self.options,
                resume: None,
                redaction,
                saved: None,
            };
            jobs.push(Sent { job, from: source });
            before = Some((Base::of(&snapshot.dataset, &system.head)?, name));
        }
        Ok(())
    }

    /// Whether a dataset of the package is cloned from a snapshot.
    fn is_origin(&self, snapshot: ObjectId) -> bool {
        let mut origins = self
            .systems
            .iter()
            .filter_map(|system| system.origin.as_ref());
        origins.any(|origin| origin.id() == snapshot)
    }

    /// The list at the head of the package.
    fn list(&self) -> Result<NvList, Failure> {
        let mut list = NvList::new();
        // OpenZFS tells it only where there may be several streams.
        let may_be_several = self.request.replicate || self.request.intermediate;
        if let Some(from) = self.from.filter(|_| may_be_several) {
            list.set("fromsnap", from);
        }
        list.set("tosnap", self.to);
        if !self.request.replicate {
            list.set("not_recursive", Value::Boolean);
        }
        if self.request.raw {
            list.set("raw", Value::Boolean);
        }
        let mut systems = NvList::new();
        for system in &self.systems {
            let guid = system.head.guid().map_err(unreadable)?;
            systems.set(format!("0x{:x}", guid.0), self.entry(system)?);
        }
        list.set("fss", systems);
        Ok(list)
    }

    fn entry(&self, system: &System) -> Result<NvList, Failure> {
        let mut entry = NvList::new();
        entry.set("name", system.name.as_str());
        entry.set("parentfromsnap", system.above.0);
        if let Some(origin) = &system.origin {
            entry.set("origin", origin.guid().map_err(unreadable)?.0);
        }
        entry.set("props", properties(&system.head, self.request.backup)?);
        let base = self
            .from
            .and_then(|from| system.named(from))
            .map(|base| base.txg);
        let is_told = |one: &&Snapshot| {
            self.request.replicate
                || one.name == self.to
                || (self.request.intermediate && base.is_none_or(|base| one.txg >= base))
        };
        let (mut snapshots, mut of_snapshots) = (NvList::new(), NvList::new());
        let mut holds = NvList::new();
        for snapshot in system.snapshots.iter().filter(is_told) {
            snapshots.set(&snapshot.name, snapshot.guid.0);
            let own = properties(&snapshot.dataset, self.request.backup)?;
            of_snapshots.set(&snapshot.name, own);
            // Also one of nothing: OpenZFS's receiver ends with an assertion where a snapshot has none.
            holds.set(&snapshot.name, holds_of(&snapshot.dataset)?);
        }
        entry.set("snaps", snapshots);
        entry.set("snapprops", of_snapshots);
        let record = system.head.directory().key_record().map_err(unreadable)?;
        let root = record.and_then(|record| record.root().map(|root| root.id()));
        if self.request.raw && root == Some(system.head.directory().id()) {
            entry.set("is_encroot", Value::Boolean);
        }
        if self.request.holds {
            entry.set("snapholds", holds);
        }
        Ok(entry)
    }
}

impl System {
    /// A dataset with its snapshots up to one; none if it has no such snapshot.
    fn load(
        head: Arc<Dataset>,
        name: String,
        to: &str,
        above: Guid,
    ) -> Result<Option<Self>, DslError> {
        let Some(last) = head.snapshot(to)? else {
            return Ok(None);
        };
        let until = last.phys()?.creation_txg;
        let mut snapshots = Vec::new();
        for (name, dataset) in head.named_snapshots()? {
            let phys = dataset.phys()?;
            if phys.creation_txg > until {
                break;
            }
            snapshots.push(Snapshot {
                name,
                guid: phys.guid,
                txg: phys.creation_txg,
                dataset,
            });
        }
        let origin = head.directory().origin()?;
        Ok(Some(Self {
            head,
            name,
            snapshots,
            origin,
            above,
        }))
    }

    fn named(&self, name: &str) -> Option<&Snapshot> {
        self.snapshots.iter().find(|one| one.name == name)
    }

    fn known_by(&self, name: &str) -> Option<Guid> {
        self.named(name).map(|one| one.guid)
    }
}

/// A snapshot's holds, each with when it was made.
fn holds_of(snapshot: &Dataset) -> Result<NvList, Failure> {
    let mut list = NvList::new();
    for hold in snapshot.holds().map_err(unreadable)? {
        list.set(&hold.tag, hold.time);
    }
    Ok(list)
}

/// What is set at a dataset, or was received there. As a backup, only what was received, if it ever was.
fn properties(dataset: &Dataset, backup: bool) -> Result<NvList, Failure> {
    let mut list = NvList::new();
    let only_received = backup
        && !dataset.is_snapshot()
        && dataset
            .directory()
            .has_received_properties()
            .map_err(unreadable)?;
    for stored in dataset.stored_properties().map_err(unreadable)? {
        let StoredProperty {
            name,
            local,
            received,
            inherits,
        } = stored;
        let is_sent = match admin::find_dataset_property(&name) {
            Some(admin::PropertyName::Native(row)) => row.access == Access::Settable,
            Some(admin::PropertyName::User(_)) => true,
            Some(admin::PropertyName::Computed(_)) | None => false,
        };
        let value = if only_received {
            received
        } else {
            local.or(received.filter(|_| !inherits))
        };
        match value {
            Some(PropertyValue::Number(number)) if is_sent => {
                list.set(&name, number);
            }
            Some(PropertyValue::Text(text)) if is_sent => {
                list.set(&name, text);
            }
            Some(_) | None => {}
        }
    }
    Ok(list)
}
