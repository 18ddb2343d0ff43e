//! Enabling the features that this software supports.

use admin::{Failure, FailureKind};
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::reporter::Reporter;

/// Enable all features that this software supports.
pub(super) struct Upgrade;

impl PoolChange for Upgrade {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("upgrade", &service.dsl.pool_name()))
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
        let name = service.pool.name();
        if service.pool.version() < 5000 {
            let reason = "pools of a legacy version cannot be upgraded by this version";
            let kind = FailureKind::Unsupported;
            return Err(Failure::cannot(kind, "upgrade", &name, reason));
        }
        let limit = service
            .compatibility()
            .map_err(|reason| Failure::cannot(FailureKind::Invalid, "upgrade", &name, reason))?;
        let mut wanted = pool::default_features();
        wanted.retain(|feature| limit.allows(feature.name));
        let enabled = service
            .pool
            .enable_features(&wanted)
            .map_err(|error| service.pool_refused("upgrade", &error))?;
        if enabled.is_empty() {
            reporter.line(format!(
                "Pool '{name}' already has all supported and requested features enabled."
            ));
        } else {
            reporter.line(format!("Enabled the following features on '{name}':"));
            for feature in enabled {
                reporter.line(format!("  {}", feature.name));
            }
        }
        Ok(())
    }
}
