//! Destroying datasets, snapshots and bookmarks.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use admin::changes::{Destroy, DestroyTarget};
use admin::{Failure, FailureKind, Mounted, Permission, name};
use dsl::tasks::{DestroyBookmark, DestroySnapshots};
use dsl::{Actor, Dataset, DslError};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::{denied, denied_plainly};
use crate::service::plan::{Family, Plan, Step, names};
use crate::service::refusal::{reason, refused, unreadable};
use crate::service::reporter::Reporter;
use crate::service::snapshots::{SpecError, select};

/// The name of the hidden dataset that is received into.
pub(in crate::service) const RECEIVED: &str = "%recv";

/// Why something is not destroyed that somebody uses.
const BUSY: &str = "dataset is busy";

impl PoolChange for Destroy {
    /// Children and clones are looked at where they are found.
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let (name, failure) = match &self.target {
            DestroyTarget::Dataset(name) | DestroyTarget::Bookmark(name) => {
                (name, denied("destroy", name))
            }
            DestroyTarget::Snapshots { dataset, .. } => {
                (dataset, denied_plainly("destroy snapshots"))
            }
        };
        service.require(
            actor,
            name,
            &[Permission::DESTROY, Permission::MOUNT],
            || failure,
        )
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::unless(self.dry_run)
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        match &self.target {
            DestroyTarget::Dataset(dataset) => service.destroy_dataset(dataset, self, reporter),
            DestroyTarget::Snapshots { dataset, specs } => {
                service.destroy_snapshots(dataset, specs, self, reporter)
            }
            DestroyTarget::Bookmark(bookmark) => service.destroy_bookmark(bookmark, self),
        }
    }
}

impl Family for Service {
    fn children(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let directory = self.dsl.directory(dataset).map_err(unreadable)?;
        let children = directory.children().map_err(unreadable)?;
        Ok(children.iter().map(|child| child.name()).collect())
    }

    fn snapshots(&self, dataset: &str) -> Result<Vec<String>, Failure> {
        let head = self.dsl.head(dataset).map_err(unreadable)?;
        let mut found = Vec::new();
        for snapshot in head.snapshots().map_err(unreadable)? {
            found.push(snapshot.name().map_err(unreadable)?);
        }
        Ok(found)
    }

    fn clones(&self, snapshot: &str) -> Result<Vec<String>, Failure> {
        self.dsl
            .dataset(snapshot)
            .and_then(|found| found.clone_names())
            .map_err(unreadable)
    }
}

impl Service {
    fn destroy_bookmark(&self, bookmark: &str, how: &Destroy) -> Result<(), Failure> {
        let head = self.head("open", name::dataset_of(bookmark))?;
        let short = bookmark.split_once('#').map_or("", |(_, short)| short);
        if head.bookmark(short).map_err(unreadable)?.is_none() {
            let text = format!("bookmark '{bookmark}' does not exist.");
            return Err(Failure::new(FailureKind::Missing, text));
        }
        if how.dry_run {
            return Ok(());
        }
        let task = DestroyBookmark {
            name: bookmark.to_owned(),
        };
        self.dsl
            .run(task)
            .map_err(|error| refused("destroy", bookmark, &error))
    }

    fn destroy_dataset(
        &self,
        dataset: &str,
        how: &Destroy,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        if name::pool_of(dataset) == dataset {
            return self.empty_pool(dataset, how, reporter);
        }
        let head = self.head("open", dataset)?;
        let kind = self.dataset_index().kind_of(&head)?.word();
        let mut plan = Plan::new(self);
        plan.head(dataset)?;
        let steps = plan.steps();
        let all = names(&steps);
        let (within, outside): (Vec<&str>, Vec<&str>) = all
            .iter()
            .copied()
            .partition(|found| name::is_within(found, dataset));
        if !how.recursive && within.len() > 1 {
            let below: Vec<&str> = within
                .into_iter()
                .filter(|found| *found != dataset)
                .collect();
            let reason = format!("{kind} has children");
            return Err(listing(dataset, &reason, "-r", &below));
        }
        if !how.dependents && !outside.is_empty() {
            let reason = format!("{kind} has dependent clones");
            return Err(listing(dataset, &reason, "-R", &outside));
        }
        self.carry_out(dataset, &steps, how, reporter)
    }

    /// Destroys all in a pool but its root file system.
    fn empty_pool(
        &self,
        pool: &str,
        how: &Destroy,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        self.head("open", pool)?;
        if !how.recursive {
            let reason = "operation does not apply to pools";
            let failure = Failure::cannot(FailureKind::Invalid, "destroy", pool, reason);
            return Err(failure
                .advise(format!(
                    "use 'zfs destroy -r {pool}' to destroy all datasets in the pool"
                ))
                .advise(format!(
                    "use 'zpool destroy {pool}' to destroy the pool itself"
                )));
        }
        let mut plan = Plan::new(self);
        plan.pool(pool)?;
        let steps = plan.steps();
        if names(&steps).contains(&pool) {
            let reason = "it is a clone of what would be destroyed";
            let failure = Failure::cannot(FailureKind::Busy, "destroy", pool, reason);
            return Err(failure.advise(format!("run 'zfs promote {pool}' first")));
        }
        self.carry_out(pool, &steps, how, reporter)
    }

    fn destroy_snapshots(
        &self,
        dataset: &str,
        specs: &[String],
        how: &Destroy,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        let directory = self.head("open", dataset)?.directory();
        let heads = if how.recursive {
            self.dsl.heads_under(&directory).map_err(unreadable)?
        } else {
            vec![self.head("open", dataset)?]
        };
        let mut chosen = Vec::new();
        let mut reclaimed = 0u64;
        for head in heads {
            let snapshots = head.snapshots().map_err(unreadable)?;
            let mut short = Vec::new();
            for snapshot in &snapshots {
                short.push(snapshot.snapshot_name().map_err(unreadable)?);
            }
            let head_name = head.directory().name();
            match select(&short, specs) {
                Ok(found) => {
                    reclaimed += reclaimable(&snapshots, &short, &found)?;
                    chosen.extend(found.iter().map(|short| format!("{head_name}@{short}")));
                }
                // Below, ranges apply as far as their ends exist.
                Err(_) if head_name != dataset => {}
                Err(error @ SpecError::NoEnd(_)) => {
                    return Err(Failure::new(FailureKind::Missing, error.to_string()));
                }
                Err(error @ (SpecError::Backwards(..) | SpecError::Empty)) => {
                    return Err(Failure::cannot(
                        FailureKind::Missing,
                        "destroy",
                        dataset,
                        error,
                    ));
                }
            }
        }
        if chosen.is_empty() {
            let text = "could not find any snapshots to destroy; check snapshot names.";
            return Err(Failure::new(FailureKind::Missing, text));
        }
        let steps = self.snapshot_steps(&chosen, how)?;
        self.carry_out(dataset, &steps, how, reporter)?;
        reporter.line(format!("reclaim {reclaimed}"));
        Ok(())
    }

    /// The steps to destroy snapshots; refuses while they have clones or holds.
    fn snapshot_steps(&self, chosen: &[String], how: &Destroy) -> Result<Vec<Step>, Failure> {
        if how.deferred {
            return Ok(vec![Step::Snapshots(chosen.to_vec())]);
        }
        for snapshot in chosen {
            self.check_snapshot(snapshot)?;
        }
        let mut plan = Plan::new(self);
        for snapshot in chosen {
            plan.snapshot(snapshot)?;
        }
        let steps = plan.steps();
        if !how.dependents {
            let all = names(&steps);
            let clones: Vec<&str> = all
                .into_iter()
                .filter(|found| !chosen.iter().any(|name| name == found))
                .collect();
            if let (false, Some(first)) = (clones.is_empty(), chosen.first()) {
                return Err(listing(
                    first,
                    "snapshot has dependent clones",
                    "-R",
                    &clones,
                ));
            }
        }
        Ok(steps)
    }

    /// Says every name, and unless it is a dry run does the steps.
    fn carry_out(
        &self,
        name: &str,
        steps: &[Step],
        how: &Destroy,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        for found in names(steps) {
            reporter.line(format!("destroy {found}"));
        }
        self.may_destroy(steps)?;
        if how.dry_run {
            return Ok(());
        }
        self.destroy_all(name, steps, how.force, how.deferred)
    }

    /// Does the steps of what is called `name`. What can be known to fail is looked at before the first of them, and
    /// everything is unmounted before it: one that is in use keeps all.
    pub(super) fn destroy_all(
        &self,
        name: &str,
        steps: &[Step],
        force: bool,
        deferred: bool,
    ) -> Result<(), Failure> {
        self.check_steps(steps, deferred)?;
        let unmounted = self.unmount_steps(steps, force)?;
        let outcome = self.do_steps(name, steps, deferred);
        for mount in &unmounted {
            if self.is_gone(&mount.dataset) {
                // An empty directory that was made for the mount goes with it.
                let _gone = std::fs::remove_dir(&mount.path);
            }
        }
        if outcome.is_err() {
            self.mount_again(&unmounted);
        }
        outcome
    }

    /// Does one step after the other. Where one fails, what is left is told.
    fn do_steps(&self, name: &str, steps: &[Step], deferred: bool) -> Result<(), Failure> {
        for (at, step) in steps.iter().enumerate() {
            let Err(failure) = self.step(step, deferred) else {
                continue;
            };
            let failure = match failure.message.starts_with("cannot ") {
                true => failure,
                // The reason is of one of many: say of which.
                false => Failure::cannot(failure.kind, "destroy", name, failure.message),
            };
            let left = names(steps.get(at..).unwrap_or_default());
            let left = left.into_iter().filter(|name| !self.is_gone(name));
            return Err(not_destroyed(failure, &left.collect::<Vec<_>>(), at > 0));
        }
        Ok(())
    }

    fn is_gone(&self, name: &str) -> bool {
        matches!(self.dsl.dataset(name), Err(DslError::NotFound { .. }))
    }

    /// Refuses what is in use: holds, streams that are being sent or received, volumes that somebody has open.
    fn check_steps(&self, steps: &[Step], deferred: bool) -> Result<(), Failure> {
        for step in steps {
            match step {
                // These go with their last user.
                Step::Snapshots(_) if deferred => {}
                Step::Snapshots(names) => {
                    for snapshot in names {
                        self.check_snapshot(snapshot)?;
                    }
                }
                Step::Head(name) => self.check_head(name)?,
            }
        }
        Ok(())
    }

    /// Refuses a snapshot that has holds, or that somebody reads.
    fn check_snapshot(&self, snapshot: &str) -> Result<(), Failure> {
        let found = self.dsl.dataset(snapshot).map_err(unreadable)?;
        let why = if !found.holds().map_err(unreadable)?.is_empty() {
            format!("it's being held. Run 'zfs holds -r {snapshot}' to see holders.")
        } else if found.is_held_long() {
            BUSY.to_owned()
        } else {
            return Ok(());
        };
        let text = format!("cannot destroy snapshot {snapshot}: {why}");
        Err(Failure::new(FailureKind::Busy, text))
    }

    /// Refuses a head that somebody uses other than by its mount, or receives into.
    pub(super) fn check_head(&self, name: &str) -> Result<(), Failure> {
        let head = self.head("open", name)?;
        let hidden = head.directory().child(RECEIVED).map_err(unreadable)?;
        let hidden = hidden.map(|hidden| hidden.head()).transpose();
        let received = hidden.map_err(unreadable)?.flatten();
        let is_received =
            received.is_some_and(|received| received.is_in_use() || received.is_held_long());
        if is_received || head.is_held_long() || self.volumes.is_open(&head) {
            return Err(Failure::cannot(FailureKind::Busy, "destroy", name, BUSY));
        }
        Ok(())
    }

    /// Unmounts all that goes. If one refuses, those that went are mounted again and nothing has changed.
    fn unmount_steps(&self, steps: &[Step], force: bool) -> Result<Vec<Mounted>, Failure> {
        // Who reads a snapshot does not keep it: he is told that it is gone.
        let heads = steps.iter().filter_map(|step| match step {
            Step::Head(name) => Some(name.as_str()),
            Step::Snapshots(_) => None,
        });
        let going: HashSet<&str> = heads.collect();
        let mounts = self.mounted_if(|dataset| going.contains(dataset));
        self.unmount_these(mounts, self.force(force))
    }

    /// Children and clones may be closed to who may destroy what they hang on.
    pub(super) fn may_destroy(&self, steps: &[Step]) -> Result<(), Failure> {
        let actor = self.actor();
        if actor.privileged {
            return Ok(());
        }
        for found in names(steps) {
            self.require(
                &actor,
                found,
                &[Permission::DESTROY, Permission::MOUNT],
                || {
                    Failure::cannot(
                        FailureKind::Permission,
                        "destroy",
                        found,
                        "permission denied",
                    )
                },
            )?;
        }
        for step in steps {
            if let Step::Head(head) = step {
                self.require_unmounted(&actor, head)?;
            }
        }
        Ok(())
    }

    /// Destroys what is not mounted.
    fn step(&self, step: &Step, deferred: bool) -> Result<(), Failure> {
        match step {
            Step::Snapshots(names) => {
                // One that waited for its last clone has gone with it.
                let mut names = names.clone();
                names.retain(|name| {
                    let found = self.dsl.dataset(name);
                    !matches!(found, Err(DslError::NotFound { .. }))
                });
                let task = DestroySnapshots {
                    names: names.clone(),
                    defer: deferred,
                };
                self.dsl.run(task).map_err(|error| {
                    let (kind, text) = reason(&error);
                    let first = names.first().map_or("", String::as_str);
                    Failure::new(kind, format!("cannot destroy snapshot {first}: {text}"))
                })?;
                let mut heads: Vec<&str> =
                    names.iter().map(|found| name::dataset_of(found)).collect();
                heads.dedup();
                for head in heads {
                    self.mounts().snapshots_changed(head);
                }
                Ok(())
            }
            Step::Head(dataset) => {
                let destroyed = self.destroy_head(dataset);
                destroyed.map_err(|error| refused("destroy", dataset, &error))?;
                self.kinds.forget_all();
                Ok(())
            }
        }
    }

    /// Destroys the hidden dataset below a head that an interrupted receive has left: it goes with the head.
    fn destroy_left_beside(&self, path: &str) -> dsl::Result<()> {
        let Some(hidden) = self.dsl.directory(path)?.child(RECEIVED)? else {
            return Ok(());
        };
        let path = hidden.name();
        drop(hidden);
        self.dsl.destroy_head(&path)
    }

    /// Destroys a head. Right after a mount, its last use may be somebody who is just ending.
    pub(in crate::service) fn destroy_head(&self, path: &str) -> dsl::Result<()> {
        const ATTEMPTS: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(20);
        self.destroy_left_beside(path)?;
        let mut attempt = 1;
        loop {
            match self.dsl.destroy_head(path) {
                Err(DslError::Busy { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                    std::thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }
}

/// What the chosen ones of a dataset's snapshots, all of them oldest first, have for themselves: what
/// only one has, or several in a row.
fn reclaimable(
    snapshots: &[Arc<Dataset>],
    names: &[String],
    chosen: &[String],
) -> Result<u64, Failure> {
    let is_chosen = |at: &usize| names.get(*at).is_some_and(|name| chosen.contains(name));
    let mut sum = 0;
    let mut first = None;
    for (at, snapshot) in snapshots.iter().enumerate() {
        if !is_chosen(&at) {
            first = None;
            continue;
        }
        let first = *first.get_or_insert(snapshot);
        if !is_chosen(&(at + 1)) {
            sum += snapshot.freed_back_to(first).map_err(unreadable)?;
        }
    }
    Ok(sum)
}

fn listing(name: &str, reason: &str, flag: &str, names: &[&str]) -> Failure {
    let failure = Failure::cannot(FailureKind::Busy, "destroy", name, reason)
        .advise(format!("use '{flag}' to destroy the following datasets:"));
    names
        .iter()
        .fold(failure, |failure, name| failure.because(*name))
}

/// With what is left of a plan that was begun.
fn not_destroyed(failure: Failure, left: &[&str], is_begun: bool) -> Failure {
    /// More of them are not named.
    const NAMED: usize = 16;
    if !is_begun || left.is_empty() {
        return failure;
    }
    let named = left.get(..NAMED).unwrap_or(left).join(", ");
    let more = match left.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    failure.because(format!("not destroyed: {named}{more}; what came before is"))
}
