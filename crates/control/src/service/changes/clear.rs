//! Forgetting errors of devices.

use admin::changes::Clear;
use admin::{Failure, FailureKind};
use dsl::Actor;

use super::devices::is_cache_called;
use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied_plainly;
use crate::service::reporter::Reporter;

impl PoolChange for Clear {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        let pool = service.dsl.pool_name();
        Err(denied_plainly(&format!("clear errors for {pool}")))
    }

    /// It is what ends the suspension.
    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::Goes
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let device = self.device.as_deref();
        let named = |leaf: &vdev::Leaf| {
            let path = leaf.path();
            device.is_none_or(|device| *path == *device || path.rsplit('/').next() == Some(device))
        };
        let picked = service.pool.clear(&named).map_err(|error| {
            let name = service.pool.name();
            let text = format!("cannot clear errors for {name}: {error}");
            Failure::new(FailureKind::Medium, text)
        })?;
        let picked = picked
            + service
                .pool
                .clear_caches(&|cache| device.is_none_or(|device| is_cache_called(cache, device)));
        match device {
            Some(device) if picked == 0 => {
                let text = format!("cannot clear errors for {device}: no such device in pool");
                Err(Failure::new(FailureKind::Missing, text))
            }
            Some(_) | None => Ok(()),
        }
    }
}
