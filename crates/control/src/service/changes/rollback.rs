//! Going back to a snapshot.

use admin::changes::Rollback;
use admin::{Failure, FailureKind, Permission, name};
use dsl::tasks::{self, DestroyBookmark};
use dsl::{Actor, DslError};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::plan::{Plan, names};
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;

impl PoolChange for Rollback {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied("rollback", name::dataset_of(&self.snapshot));
        service.require(actor, &self.snapshot, &[Permission::ROLLBACK], failure)?;
        let more: &[Permission<'_>] = if self.destroy_later {
            &[Permission::DESTROY, Permission::MOUNT]
        } else {
            &[]
        };
        service.require(actor, &self.snapshot, more, failure)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let snapshot = self.snapshot.as_str();
        let (dataset, short) = snapshot.split_once('@').unwrap_or((snapshot, ""));
        let later = later(self, service, dataset, short)?;
        service.check_volume_unused("rollback", dataset)?;
        if !self.destroy_later && !later.is_empty() {
            return Err(too_late(
                snapshot,
                later.snapshots.iter().chain(&later.bookmarks),
            ));
        }
        let mut plan = Plan::new(service);
        for found in &later.snapshots {
            plan.snapshot(found)?;
        }
        let steps = plan.steps();
        let mut clones: Vec<&str> = names(&steps)
            .into_iter()
            .filter(|found| !found.contains('@'))
            .collect();
        if !self.destroy_clones && !clones.is_empty() {
            clones.sort_unstable();
            let reason = "clones of previous snapshots exist";
            let failure = Failure::cannot(FailureKind::Busy, "rollback to", snapshot, reason)
                .advise("use '-R' to force deletion of the following clones and dependents:");
            return Err(clones.into_iter().fold(failure, Failure::advise));
        }
        service.may_destroy(&steps)?;
        service.destroy_all(dataset, &steps, self.force, false)?;
        for bookmark in &later.bookmarks {
            let task = DestroyBookmark {
                name: bookmark.clone(),
            };
            service
                .dsl
                .run(task)
                .map_err(|error| refused("destroy", bookmark, &error))?;
        }
        service.roll(dataset, short)
    }
}

/// What came after the snapshot to go back to.
struct Later {
    snapshots: Vec<String>,
    bookmarks: Vec<String>,
}

impl Later {
    const fn is_empty(&self) -> bool {
        self.snapshots.is_empty() && self.bookmarks.is_empty()
    }
}

fn later(
    rollback: &Rollback,
    service: &Service,
    dataset: &str,
    short: &str,
) -> Result<Later, Failure> {
    let snapshot = rollback.snapshot.as_str();
    let head = service
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
    let mut snapshots = Vec::new();
    for found in head.snapshots().map_err(unreadable)? {
        if found.phys().map_err(unreadable)?.creation_txg > limit {
            snapshots.push(found.name().map_err(unreadable)?);
        }
    }
    let bookmarks: Vec<String> = head
        .bookmarks()
        .map_err(unreadable)?
        .into_iter()
        .filter(|bookmark| bookmark.phys.creation_txg > limit)
        .map(|bookmark| format!("{dataset}#{}", bookmark.name))
        .collect();
    Ok(Later {
        snapshots,
        bookmarks,
    })
}

impl Service {
    /// Refuses while somebody has the volume of that name open: who reads it would not know that it is another.
    fn check_volume_unused(&self, verb: &str, name: &str) -> Result<(), Failure> {
        let head = self.head("open", name)?;
        if self.volumes.is_open(&head) {
            let text = "dataset is busy";
            return Err(Failure::cannot(FailureKind::Busy, verb, name, text));
        }
        Ok(())
    }

    /// Goes back to the latest snapshot, under the mount if there is one.
    fn roll(&self, dataset: &str, short: &str) -> Result<(), Failure> {
        let cannot = |error: &DslError| refused("rollback", dataset, error);
        self.mounts().suspend(dataset).map_err(|failure| {
            Failure::cannot(failure.kind, "rollback", dataset, failure.message)
        })?;
        let task = tasks::Rollback {
            path: dataset.to_owned(),
            snapshot: Some(short.to_owned()),
        };
        let outcome = self.dsl.run(task);
        self.mounts().content_changed(dataset);
        outcome.map(drop).map_err(|error| cannot(&error))
    }
}

fn too_late<'a>(snapshot: &str, later: impl Iterator<Item = &'a String> + Clone) -> Failure {
    const SHOWN_MAX: usize = 32;
    let reason = "more recent snapshots or bookmarks exist";
    let failure = Failure::cannot(FailureKind::Busy, "rollback to", snapshot, reason)
        .advise("use '-r' to force deletion of the following snapshots and bookmarks:");
    let failure = later
        .clone()
        .take(SHOWN_MAX)
        .fold(failure, |failure, name| failure.because(name));
    if later.count() > SHOWN_MAX {
        failure.because(format!("Output limited to {SHOWN_MAX} snapshots/bookmarks"))
    } else {
        failure
    }
}
