//! Keeping the state of the pool as it is, and giving up what is kept.

use admin::Failure;
use admin::changes::Checkpoint;
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::reporter::Reporter;

/// What is asked for, as messages call it.
const fn verb(change: Checkpoint) -> &'static str {
    if change.discard {
        "discard checkpoint in"
    } else {
        "checkpoint"
    }
}

impl PoolChange for Checkpoint {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied(verb(*self), &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused(verb(*self))
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let pool = &service.pool;
        let result = if self.discard {
            pool.discard_checkpoint()
        } else {
            pool.take_checkpoint()
        };
        result.map_err(|error| service.pool_refused(verb(*self), &error))
    }
}
