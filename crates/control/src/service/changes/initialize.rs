//! Overwriting free space of the devices of the pool.

use admin::changes::{Initialize, InitializeAction, WaitInitialize};
use admin::{Failure, FailureKind};
use base::Guid;
use dsl::Actor;
use pool::PoolError;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use super::trim::told;
use crate::service::Service;
use crate::service::delegation::denied_plainly;
use crate::service::refusal::kind_of;
use crate::service::reporter::Reporter;

const VERB: &str = "initialize";

fn denied(service: &Service) -> Failure {
    denied_plainly(&format!("{VERB} {}", service.dsl.pool_name()))
}

fn failed(service: &Service, error: &PoolError) -> Failure {
    let text = format!("cannot {VERB} '{}': {error}", service.pool.name());
    Failure::new(kind_of(error), text)
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
            let text = format!(
                "cannot {VERB} '{}': no such device in pool",
                service.pool.name()
            );
            return Err(Failure::new(FailureKind::Missing, text));
        }
        let guids: Vec<Guid> = leaves.iter().map(|leaf| leaf.guid).collect();
        let pool = &service.pool;
        let refused = match self.action {
            InitializeAction::Start => pool.start_initializing(&guids),
            InitializeAction::Cancel => pool.cancel_initializing(&guids),
            InitializeAction::Suspend => pool.suspend_initializing(&guids),
            InitializeAction::Forget => pool.uninitialize(&guids),
        };
        let refused = refused.map_err(|error| failed(service, &error))?;
        // Of a whole pool, those for which there was something to do count.
        if self.devices.is_empty() && refused.len() < leaves.len() {
            return Ok(());
        }
        told(VERB, &leaves, &refused)
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
        let guids: Vec<Guid> = leaves.iter().map(|leaf| leaf.guid).collect();
        let waited = service.pool.wait_initializing(&guids);
        waited.map_err(|error| failed(service, &error))
    }
}
