//! Cloning snapshots.

use admin::changes::CloneSnapshot;
use admin::{Failure, FailureKind, Permission, Types, name};
use dsl::{Actor, tasks};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::assignments::stored;
use crate::service::delegation::denied;
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;
use crate::service::rules::Target;

impl PoolChange for CloneSnapshot {
    /// Parents are looked at where they are found.
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied("create", &self.name);
        service.require(actor, &self.snapshot, &[Permission::CLONE], failure)?;
        service.authorize_new(actor, &self.name, &self.properties)
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
        let (snapshot, name) = (self.snapshot.as_str(), self.name.as_str());
        let origin = service
            .dsl
            .dataset(snapshot)
            .map_err(|error| refused("open", snapshot, &error))?;
        let parent = name::parent_of(name).unwrap_or(name);
        if !self.parents && service.dsl.head(parent).is_err() {
            let reason = format!("no such parent '{parent}'");
            return Err(Failure::cannot(
                FailureKind::Missing,
                "create",
                name,
                reason,
            ));
        }
        if !service.prepare(name, self.parents, self.unmounted, reporter)? {
            return Ok(());
        }
        let head = origin.directory().head().map_err(unreadable)?;
        let kind = match head {
            Some(head) => service.dataset_index().kind_of(&head)?,
            None => Types::FILESYSTEM,
        };
        service.check_properties(
            "create",
            name,
            Target {
                kind,
                creating: false,
            },
            &self.properties,
        )?;
        let task = tasks::Clone {
            origin: snapshot.to_owned(),
            path: name.to_owned(),
            properties: stored(&self.properties)?,
        };
        let head = service
            .run(task)
            .map_err(|error| refused("create", name, &error))?;
        service.mount_created(&head, self.unmounted, reporter)
    }
}
