//! Raising the pool's version, and enabling the features that this software supports.

use admin::changes::Upgrade;
use admin::{Failure, FailureKind};
use dsl::Actor;
use format::features::Feature;
use format::uberblock::VERSION_FEATURES;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::reporter::Reporter;

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
        let (name, before) = (service.pool.name(), service.pool.version());
        let to = self.version;
        if to < before {
            reporter.line(format!(
                "Pool '{name}' is already formatted using more current version '{before}'.\n"
            ));
            return Ok(());
        }
        if before == to && to < VERSION_FEATURES {
            let line = format!("Pool '{name}' is already formatted using version {to}.\n");
            reporter.line(line);
            return Ok(());
        }
        let mut changed = service.raise_pool_version(to)?;
        if changed {
            let now = match to {
                VERSION_FEATURES => "feature flags".to_owned(),
                numbered => format!("version {numbered}"),
            };
            reporter.line(format!(
                "Successfully upgraded '{name}' from version {before} to {now}."
            ));
        }
        if to == VERSION_FEATURES {
            let enabled = service.enable_all()?;
            if !enabled.is_empty() {
                changed = true;
                reporter.line(format!("Enabled the following features on '{name}':"));
                for feature in enabled {
                    reporter.line(format!("  {}", feature.name));
                }
            } else if before == to {
                reporter.line(format!(
                    "Pool '{name}' already has all supported and requested features enabled."
                ));
            }
        }
        if changed {
            reporter.line(String::new());
        }
        Ok(())
    }
}

impl Service {
    /// Raises the pool's version; whether it was an older one.
    pub(super) fn raise_pool_version(&self, to: u64) -> Result<bool, Failure> {
        let raised = self.pool.raise_version(to);
        raised.map_err(|error| self.pool_refused("upgrade", &error))
    }

    /// Enables every feature that the pool may have; those that were not enabled.
    fn enable_all(&self) -> Result<Vec<&'static Feature>, Failure> {
        let name = self.pool.name();
        let limit = self
            .compatibility()
            .map_err(|reason| Failure::cannot(FailureKind::Invalid, "upgrade", &name, reason))?;
        let mut wanted = pool::default_features();
        wanted.retain(|feature| limit.allows(feature.name));
        let enabled = self.pool.enable_features(&wanted);
        enabled.map_err(|error| self.pool_refused("upgrade", &error))
    }
}
