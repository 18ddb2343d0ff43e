//! What concerns all devices of a pool: looked at again, resilvered again, told another guid.

use admin::Failure;
use admin::changes::{Reguid, ReopenDevices};
use base::Guid;
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::reporter::Reporter;

/// Start a resilver, or start it anew.
pub(super) struct RestartResilver;

impl PoolChange for ReopenDevices {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("reopen", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("reopen")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let result = service.pool.reopen_devices(self.keep_scan);
        result.map_err(|error| service.pool_refused("reopen", &error))
    }
}

impl PoolChange for RestartResilver {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("restart resilver", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("restart resilver")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let result = service.pool.restart_resilver();
        result.map_err(|error| service.pool_refused("restart resilver", &error))
    }
}

impl PoolChange for Reguid {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("reguid", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("reguid")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let result = service.pool.reguid(self.guid.map(Guid));
        let _ = result.map_err(|error| service.pool_refused("reguid", &error))?;
        Ok(())
    }
}
