//! Renaming datasets and snapshots.

use admin::changes::{Create, Rename};
use admin::name::{self, NameKind};
use admin::{Assignments, Failure, FailureKind, Permission};
use dsl::{Actor, DslError, tasks};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::refused;
use crate::service::reporter::Reporter;

impl PoolChange for Rename {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied("rename", &self.from);
        for name in service.these(std::slice::from_ref(&self.from), self.recursive)? {
            service.require(
                actor,
                &name,
                &[Permission::RENAME, Permission::MOUNT],
                failure,
            )?;
        }
        if self.from.contains('@') {
            return Ok(());
        }
        service.require_unmounted(actor, &self.from)?;
        service.authorize_new(actor, &self.to, &Assignments::new())
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

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let (from, to) = (self.from.as_str(), self.to.as_str());
        if name::kind_of(from) == NameKind::Snapshot {
            return rename_snapshot(self, service);
        }
        service.head("open", from)?;
        make_parent(self, service, reporter)?;
        // Only mounts that follow the name must move.
        let before = service.places_below(from)?;
        let unmounted = if self.keep_mounts {
            Vec::new()
        } else {
            service.unmount_below(from, service.force(self.force))?
        };
        let task = tasks::Rename {
            from: from.to_owned(),
            to: to.to_owned(),
        };
        if let Err(error) = service.run(task) {
            service.mount_again(&unmounted);
            return Err(refused("rename", from, &error));
        }
        service.mounts().renamed(from, to);
        if !unmounted.is_empty() {
            service.mount_renamed(&unmounted, (from, to), reporter);
            for (mount, _) in before {
                // Directories that were made for the old places go if nothing is in them.
                if !service
                    .mounts()
                    .mounted()
                    .iter()
                    .any(|now| now.path.starts_with(&mount.path))
                {
                    let _gone = std::fs::remove_dir(&mount.path);
                }
            }
        }
        Ok(())
    }
}

fn make_parent(
    rename: &Rename,
    service: &Service,
    reporter: &mut Reporter<'_>,
) -> Result<(), Failure> {
    let parent = name::parent_of(&rename.to).unwrap_or(&rename.to);
    if service.dsl.head(parent).is_ok() {
        return Ok(());
    }
    if !rename.parents {
        let (kind, reason) = (FailureKind::Missing, "parent does not exist");
        return Err(Failure::cannot(kind, "create", &rename.to, reason));
    }
    let create = Create {
        name: parent.to_owned(),
        volume: None,
        properties: Assignments::new(),
        parents: true,
        unmounted: false,
        key: None,
    };
    create.apply(service, reporter)
}

fn rename_snapshot(rename: &Rename, service: &Service) -> Result<(), Failure> {
    let from = rename.from.as_str();
    let short = rename
        .to
        .split_once('@')
        .map_or(rename.to.as_str(), |(_, short)| short);
    if let Err(error) = service.dsl.dataset(from) {
        return Err(refused("open", from, &error));
    }
    let task = tasks::RenameSnapshot {
        from: from.to_owned(),
        to: short.to_owned(),
        recursive: rename.recursive,
    };
    service.dsl.run(task).map_err(|error| {
        if rename.recursive
            && let DslError::Exists { .. } = error
        {
            let reason = "a child dataset already has a snapshot with the new name";
            Failure::cannot(FailureKind::Exists, "rename", from, reason)
        } else {
            refused("rename", from, &error)
        }
    })?;
    let dataset = name::dataset_of(from);
    for mount in service.mounted_below(dataset) {
        service.mounts().snapshots_changed(&mount.dataset);
    }
    Ok(())
}
