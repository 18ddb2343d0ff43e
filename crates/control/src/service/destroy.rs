//! Destroying datasets, snapshots and bookmarks; going back to a snapshot.

use std::sync::Arc;
use std::time::Duration;

use dsl::tasks::{DestroyBookmark, DestroyHead, DestroySnapshots, Rollback};
use dsl::{Dataset, DslError};

use super::Service;
use super::plan::{Family, Plan, Step, names};
use super::refusal::{reason, refused, unreadable};
use super::snapshots::{SpecError, select};
use super::voice::Voice;
use crate::message::DestroyTarget;
use crate::name;
use crate::{Failure, FailureKind};

/// How to destroy.
#[derive(Debug, Clone, Copy)]
pub(super) struct DestroyFlags {
    pub(super) recursive: bool,
    pub(super) dependents: bool,
    pub(super) force: bool,
    pub(super) deferred: bool,
    pub(super) dry_run: bool,
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
    pub(super) fn destroy(
        &self,
        target: &DestroyTarget,
        flags: DestroyFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        match target {
            DestroyTarget::Dataset(dataset) => self.destroy_dataset(dataset, flags, voice),
            DestroyTarget::Snapshots { dataset, specs } => {
                self.destroy_snapshots(dataset, specs, flags, voice)
            }
            DestroyTarget::Bookmark(bookmark) => self.destroy_bookmark(bookmark, flags),
        }
    }

    fn destroy_bookmark(&self, bookmark: &str, flags: DestroyFlags) -> Result<(), Failure> {
        let head = self.head("open", name::dataset_of(bookmark))?;
        let short = bookmark.split_once('#').map_or("", |(_, short)| short);
        if head.bookmark(short).map_err(unreadable)?.is_none() {
            let text = format!("bookmark '{bookmark}' does not exist.");
            return Err(Failure::new(FailureKind::Missing, text));
        }
        if flags.dry_run {
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
        flags: DestroyFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        if !dataset.contains('/') {
            self.head("open", dataset)?;
            let reason = "operation does not apply to pools";
            return Err(
                Failure::cannot(FailureKind::Invalid, "destroy", dataset, reason)
                    .advise(format!(
                        "use 'zfs destroy -r {dataset}' to destroy all datasets in the pool"
                    ))
                    .advise(format!(
                        "use 'zpool destroy {dataset}' to destroy the pool itself"
                    )),
            );
        }
        let head = self.head("open", dataset)?;
        let kind = self.catalogue().kind_of(&head)?.word();
        let mut plan = Plan::new(self);
        plan.head(dataset)?;
        let steps = plan.steps();
        let all = names(&steps);
        let (within, outside): (Vec<&str>, Vec<&str>) = all
            .iter()
            .copied()
            .partition(|found| name::is_within(found, dataset));
        if !flags.recursive && within.len() > 1 {
            let below: Vec<&str> = within
                .into_iter()
                .filter(|found| *found != dataset)
                .collect();
            let reason = format!("{kind} has children");
            return Err(listing(dataset, &reason, "-r", &below));
        }
        if !flags.dependents && !outside.is_empty() {
            let reason = format!("{kind} has dependent clones");
            return Err(listing(dataset, &reason, "-R", &outside));
        }
        self.carry_out("destroy", dataset, &steps, flags, voice)
    }

    fn destroy_snapshots(
        &self,
        dataset: &str,
        specs: &[String],
        flags: DestroyFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        let directory = self.head("open", dataset)?.directory();
        let heads = if flags.recursive {
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
                Err(error) => {
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
        let steps = self.snapshot_steps(&chosen, flags)?;
        self.carry_out("destroy", dataset, &steps, flags, voice)?;
        voice.line(format!("reclaim {reclaimed}"));
        Ok(())
    }

    /// The steps to destroy snapshots; refuses while they have clones or holds.
    fn snapshot_steps(&self, chosen: &[String], flags: DestroyFlags) -> Result<Vec<Step>, Failure> {
        if flags.deferred {
            return Ok(vec![Step::Snapshots(chosen.to_vec())]);
        }
        for snapshot in chosen {
            let found = self.dsl.dataset(snapshot).map_err(unreadable)?;
            if !found.holds().map_err(unreadable)?.is_empty() {
                let text = format!(
                    "cannot destroy snapshot {snapshot}: it's being held. Run 'zfs holds -r \
                     {snapshot}' to see holders."
                );
                return Err(Failure::new(FailureKind::Busy, text));
            }
        }
        let mut plan = Plan::new(self);
        for snapshot in chosen {
            plan.snapshot(snapshot)?;
        }
        let steps = plan.steps();
        if !flags.dependents {
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
        verb: &str,
        name: &str,
        steps: &[Step],
        flags: DestroyFlags,
        voice: &mut Voice<'_>,
    ) -> Result<(), Failure> {
        for found in names(steps) {
            voice.line(format!("destroy {found}"));
        }
        self.may_destroy(steps)?;
        if flags.dry_run {
            return Ok(());
        }
        for step in steps {
            self.step(step, flags)
                .map_err(|failure| match failure.kind {
                    // The reason is of one of many: say of which.
                    _ if failure.message.starts_with("cannot ") => failure,
                    kind => Failure::cannot(kind, verb, name, failure.message),
                })?;
        }
        Ok(())
    }

    /// Children and clones may be closed to who may destroy what they hang on.
    fn may_destroy(&self, steps: &[Step]) -> Result<(), Failure> {
        let actor = self.actor();
        if actor.privileged {
            return Ok(());
        }
        for found in names(steps) {
            self.require(&actor, found, &["destroy", "mount"], || {
                Failure::cannot(
                    FailureKind::Permission,
                    "destroy",
                    found,
                    "permission denied",
                )
            })?;
        }
        for step in steps {
            if let Step::Head(head) = step {
                self.require_unmounted(&actor, head)?;
            }
        }
        Ok(())
    }

    fn step(&self, step: &Step, flags: DestroyFlags) -> Result<(), Failure> {
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
                    defer: flags.deferred,
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
                let unmounted = self.unmount_below(dataset, flags.force)?;
                match self.destroy_head(dataset) {
                    Ok(()) => {
                        self.kinds.forget_all();
                        for mount in unmounted {
                            // An empty directory that was made for the mount goes with it.
                            let _gone = std::fs::remove_dir(&mount.path);
                        }
                        Ok(())
                    }
                    Err(error) => {
                        self.mount_again(&unmounted);
                        Err(refused("destroy", dataset, &error))
                    }
                }
            }
        }
    }

    /// Destroys a head. Right after a mount, its last use may be somebody who is just ending.
    fn destroy_head(&self, path: &str) -> dsl::Result<()> {
        const ATTEMPTS: u32 = 100;
        const PAUSE: Duration = Duration::from_millis(20);
        let mut attempt = 1;
        loop {
            let path = path.to_owned();
            match self.dsl.run(DestroyHead { path }) {
                Err(DslError::Busy { .. }) if attempt < ATTEMPTS => {
                    attempt += 1;
                    std::thread::sleep(PAUSE);
                }
                result => return result,
            }
        }
    }

    pub(super) fn rollback(&self, snapshot: &str, flags: DestroyFlags) -> Result<(), Failure> {
        let (dataset, short) = snapshot.split_once('@').unwrap_or((snapshot, ""));
        let head = self
            .dsl
            .head(dataset)
            .map_err(|error| refused("open", snapshot, &error))?;
        let target = head.snapshot(short).map_err(unreadable)?.ok_or_else(|| {
            Failure::cannot(
                FailureKind::Missing,
                "open",
                snapshot,
                "dataset does not exist",
            )
        })?;
        let limit = target.phys().map_err(unreadable)?.creation_txg;
        let mut later = Vec::new();
        for found in head.snapshots().map_err(unreadable)? {
            if found.phys().map_err(unreadable)?.creation_txg > limit {
                later.push(found.name().map_err(unreadable)?);
            }
        }
        let bookmarks: Vec<String> = head
            .bookmarks()
            .map_err(unreadable)?
            .into_iter()
            .filter(|bookmark| bookmark.phys.creation_txg > limit)
            .map(|bookmark| format!("{dataset}#{}", bookmark.name))
            .collect();
        let is_latest = later.is_empty() && bookmarks.is_empty();
        if !flags.recursive && !is_latest {
            return Err(too_late(snapshot, later.iter().chain(&bookmarks)));
        }
        let mut plan = Plan::new(self);
        for found in &later {
            plan.snapshot(found)?;
        }
        let steps = plan.steps();
        let mut clones: Vec<&str> = names(&steps)
            .into_iter()
            .filter(|found| !found.contains('@'))
            .collect();
        if !flags.dependents && !clones.is_empty() {
            clones.sort_unstable();
            let reason = "clones of previous snapshots exist";
            let failure = Failure::cannot(FailureKind::Busy, "rollback to", snapshot, reason)
                .advise("use '-R' to force deletion of the following clones and dependents:");
            return Err(clones.into_iter().fold(failure, Failure::advise));
        }
        self.may_destroy(&steps)?;
        for step in &steps {
            self.step(step, flags)?;
        }
        for bookmark in bookmarks {
            let task = DestroyBookmark {
                name: bookmark.clone(),
            };
            self.dsl
                .run(task)
                .map_err(|error| refused("destroy", &bookmark, &error))?;
        }
        self.roll(dataset, short)
    }

    /// Goes back to the latest snapshot, under the mount if there is one.
    fn roll(&self, dataset: &str, short: &str) -> Result<(), Failure> {
        let cannot = |error: &DslError| refused("rollback", dataset, error);
        self.mounts().suspend(dataset).map_err(|failure| {
            Failure::cannot(failure.kind, "rollback", dataset, failure.message)
        })?;
        let task = Rollback {
            path: dataset.to_owned(),
            snapshot: Some(short.to_owned()),
        };
        let outcome = self.dsl.run(task);
        self.mounts().content_changed(dataset);
        outcome.map(drop).map_err(|error| cannot(&error))
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
        .fold(failure, |failure, name| failure.advise(*name))
}

fn too_late<'a>(snapshot: &str, later: impl Iterator<Item = &'a String> + Clone) -> Failure {
    const SHOWN_MAX: usize = 32;
    let reason = "more recent snapshots or bookmarks exist";
    let failure = Failure::cannot(FailureKind::Busy, "rollback to", snapshot, reason)
        .advise("use '-r' to force deletion of the following snapshots and bookmarks:");
    let failure = later
        .clone()
        .take(SHOWN_MAX)
        .fold(failure, |failure, name| failure.advise(name));
    if later.count() > SHOWN_MAX {
        failure.advise(format!("Output limited to {SHOWN_MAX} snapshots/bookmarks"))
    } else {
        failure
    }
}
