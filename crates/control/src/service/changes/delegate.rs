//! Granting permissions and taking them back.

use admin::changes::Delegate;
use admin::{Failure, Permission};
use dsl::{Actor, ChangeGrants, Grant};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;

const VERB: &str = "set permissions on";

impl PoolChange for Delegate {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied(VERB, &self.name);
        if self.grant {
            let all = self.changes.iter().flat_map(|(_, granted)| granted);
            let all = all.map(|listed| Permission::listed(listed));
            let all: Vec<_> = all.chain([Permission::ALLOW]).collect();
            return service.require(actor, &self.name, &all, failure);
        }
        // Taking back is for one's own grants.
        let (here, below) = (format!("ul${}", actor.user), format!("ud${}", actor.user));
        let own = |key: &str| key.eq_ignore_ascii_case(&here) || key.eq_ignore_ascii_case(&below);
        if self.recursive || !self.changes.iter().all(|(key, _)| own(key)) {
            return Err(failure());
        }
        service.require(actor, &self.name, &[Permission::ALLOW], failure)
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
        let head = service.head("open", &self.name)?;
        let paths: Vec<String> = if self.recursive {
            let heads = service
                .dsl
                .heads_under(&head.directory())
                .map_err(unreadable)?;
            heads.iter().map(|head| head.directory().name()).collect()
        } else {
            vec![self.name.clone()]
        };
        for path in paths {
            let grants = self.changes.iter().map(|(key, permissions)| Grant {
                key: key.clone(),
                permissions: permissions.clone(),
            });
            let task = ChangeGrants {
                path: path.clone(),
                grant: self.grant,
                changes: grants.collect(),
            };
            service
                .run(task)
                .map_err(|error| refused(VERB, &path, &error))?;
        }
        Ok(())
    }
}
