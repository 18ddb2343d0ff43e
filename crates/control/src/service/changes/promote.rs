//! Promoting clones.

use admin::changes::Promote;
use admin::{Failure, FailureKind, Permission};
use dsl::{Actor, DslError, tasks};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;

impl PoolChange for Promote {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied("promote", &self.name);
        service.require(
            actor,
            &self.name,
            &[Permission::PROMOTE, Permission::MOUNT],
            failure,
        )?;
        let Ok(head) = service.dsl.head(&self.name) else {
            return Ok(());
        };
        if let Some(origin) = head.directory().origin().map_err(unreadable)? {
            let origin = origin.directory().name();
            service.require(
                actor,
                &origin,
                &[Permission::PROMOTE, Permission::MOUNT],
                failure,
            )?;
        }
        Ok(())
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
        let dataset = self.name.as_str();
        let head = service.head("open", dataset)?;
        let cannot = |kind, reason: &str| Failure::cannot(kind, "promote", dataset, reason);
        let Some(origin) = head.directory().origin().map_err(unreadable)? else {
            return Err(cannot(FailureKind::Invalid, "not a cloned filesystem"));
        };
        let old = origin.directory().name();
        let task = tasks::Promote {
            path: dataset.to_owned(),
        };
        service.dsl.run(task).map_err(|error| {
            if let DslError::Exists { name } = &error {
                let short = name.split_once('@').map_or("", |(_, short)| short);
                let text = format!("conflicting snapshot '{short}' from parent '{old}'");
                cannot(FailureKind::Exists, &text)
            } else {
                refused("promote", dataset, &error)
            }
        })?;
        service.mounts().snapshots_changed(dataset);
        service.mounts().snapshots_changed(&old);
        Ok(())
    }
}
