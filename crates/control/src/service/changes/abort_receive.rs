//! Destroying what a receive that broke off has left.

use admin::changes::AbortReceive;
use admin::{Failure, FailureKind, Permission};
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::{refused, unreadable};
use crate::service::reporter::Reporter;

impl PoolChange for AbortReceive {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let failure = || denied("abort receive of", &self.dataset);
        service.require(
            actor,
            &self.dataset,
            &[Permission::DESTROY, Permission::MOUNT],
            failure,
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
        service.head("open", &self.dataset)?;
        let found = service.dsl.interrupted_receive(&self.dataset);
        let Some((receiving, _)) = found.map_err(unreadable)? else {
            let text = "does not have any resumable receive state to abort";
            let text = format!("'{}' {text}", self.dataset);
            return Err(Failure::new(FailureKind::Missing, text));
        };
        let path = receiving.directory().name();
        drop(receiving);
        let done = service.destroy_head(&path);
        service.kinds.forget_all();
        done.map_err(|error| refused("abort receive of", &self.dataset, &error))
    }
}
