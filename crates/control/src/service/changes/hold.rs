//! Holds of snapshots.

use admin::changes::{Hold, Release};
use admin::{Failure, FailureKind, Permission, name};
use dsl::{Actor, DslError, tasks};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied_plainly;
use crate::service::refusal::{reason, refused, unreadable};
use crate::service::reporter::Reporter;

impl PoolChange for Hold {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        service.require_each(
            actor,
            &self.snapshots,
            self.recursive,
            Permission::HOLD,
            || denied_plainly("hold"),
        )
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
        let snapshots = service.snapshots_named(&self.snapshots, self.recursive)?;
        let first = snapshots.first().cloned().unwrap_or_default();
        let cannot = |kind, text: &str| Failure::cannot(kind, "hold snapshot", &first, text);
        if self.tag.len() >= 256 {
            return Err(cannot(FailureKind::Invalid, "tag too long"));
        }
        let holds = with_tag(snapshots, &self.tag);
        let task = tasks::Hold { holds };
        service.dsl.run(task).map_err(|error| {
            if let DslError::HoldExists { name, .. } = &error {
                let kind = FailureKind::Exists;
                let reason = "tag already exists on this dataset";
                Failure::cannot(kind, "hold snapshot", name, reason)
            } else {
                refused("hold snapshot", &first, &error)
            }
        })
    }
}

impl PoolChange for Release {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        service.require_each(
            actor,
            &self.snapshots,
            self.recursive,
            Permission::RELEASE,
            || denied_plainly("release"),
        )
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
        let snapshots = service.snapshots_named(&self.snapshots, self.recursive)?;
        let first = snapshots.first().cloned().unwrap_or_default();
        let heads: Vec<String> = snapshots
            .iter()
            .map(|name| name::dataset_of(name).to_owned())
            .collect();
        let holds = with_tag(snapshots, &self.tag);
        service.dsl.run(tasks::Release { holds }).map_err(|error| {
            let (kind, text) = reason(&error);
            Failure::cannot(kind, "release hold from snapshot", &first, text)
        })?;
        // A deferred snapshot may have gone with its last hold.
        for head in heads {
            service.mounts().snapshots_changed(&head);
        }
        Ok(())
    }
}

fn with_tag(snapshots: Vec<String>, tag: &str) -> Vec<(String, String)> {
    snapshots
        .into_iter()
        .map(|snapshot| (snapshot, tag.to_owned()))
        .collect()
}

impl Service {
    /// The snapshots of the given names, and with `recursive` of the same name below.
    pub(in crate::service) fn snapshots_named(
        &self,
        names: &[String],
        recursive: bool,
    ) -> Result<Vec<String>, Failure> {
        let mut found = Vec::new();
        for name in names {
            let (dataset, short) = name.split_once('@').unwrap_or((name, ""));
            let head = self.head("open", dataset)?;
            if !recursive {
                found.push(name.clone());
                continue;
            }
            for head in self
                .dsl
                .heads_under(&head.directory())
                .map_err(unreadable)?
            {
                if head.snapshot(short).map_err(unreadable)?.is_some() {
                    found.push(format!("{}@{short}", head.directory().name()));
                }
            }
        }
        Ok(found)
    }
}
