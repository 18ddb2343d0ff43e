//! Overwriting free space of the devices of the pool.

use admin::changes::{Initialize, InitializeAction, WaitInitialize};
use admin::{Failure, FailureKind};
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use super::trim::{guids, told};
use crate::service::Service;
use crate::service::delegation::denied_plainly;
use crate::service::reporter::Reporter;

const VERB: &str = "initialize";

fn denied(service: &Service) -> Failure {
    denied_plainly(&format!("{VERB} {}", service.dsl.pool_name()))
}

impl PoolChange for Initialize {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied(service))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused(VERB)
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let leaves = service.meant(VERB, &self.devices)?;
        if leaves.is_empty() {
            let (kind, pool) = (FailureKind::Missing, service.pool.name());
            return Err(Failure::cannot(kind, VERB, &pool, "no such device in pool"));
        }
        let (pool, guids) = (&service.pool, guids(&leaves));
        let refused = match self.action {
            InitializeAction::Start => pool.start_initializing(&guids),
            InitializeAction::Cancel => pool.cancel_initializing(&guids),
            InitializeAction::Suspend => pool.suspend_initializing(&guids),
            InitializeAction::Forget => pool.uninitialize(&guids),
        };
        let refused = refused.map_err(|error| service.pool_refused(VERB, &error))?;
        told(VERB, self.devices.is_empty(), &leaves, &refused)
    }
}

impl PoolChange for WaitInitialize {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied(service))
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
        let leaves = service.meant(VERB, &self.devices)?;
        let waited = service.pool.wait_initializing(&guids(&leaves));
        waited.map_err(|error| service.pool_refused("wait for initialize of", &error))
    }
}
