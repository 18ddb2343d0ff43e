//! Scrubs.

use admin::Failure;
use admin::changes::ScrubAction;
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied_plainly;
use crate::service::refusal::kind_of;
use crate::service::reporter::Reporter;

impl PoolChange for ScrubAction {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied_to_scrub(service))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("scrub")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let pool = &service.pool;
        let (verb, outcome) = match self {
            Self::Start => ("scrub", pool.start_scrub()),
            Self::Stop => ("cancel scrubbing", pool.stop_scrub()),
            Self::Pause => ("pause scrubbing", pool.pause_scrub()),
        };
        outcome.map_err(|error| {
            let name = pool.name();
            Failure::new(kind_of(&error), format!("cannot {verb} {name}: {error}"))
        })
    }
}

/// Wait until no scrub runs.
pub(super) struct WaitScrub;

impl PoolChange for WaitScrub {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied_to_scrub(service))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::Goes
    }

    fn turn(&self) -> Turn {
        Turn::Beside
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        service
            .pool
            .wait_scrub()
            .map_err(|error| service.pool_refused("wait for scrub of", &error))
    }
}

fn denied_to_scrub(service: &Service) -> Failure {
    denied_plainly(&format!("scrub {}", service.dsl.pool_name()))
}
