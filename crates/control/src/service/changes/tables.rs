//! The tables of a pool: pruned, or brought into memory.

use admin::Failure;
use admin::changes::{PrefetchTables, PruneDedup};
use dsl::Actor;
use pool::{DedupPrune, Tables};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::reporter::Reporter;

const DAY_S: u64 = 24 * 60 * 60;

impl PoolChange for PruneDedup {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("ddtprune", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("ddtprune")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let wanted = match *self {
            Self::Days(days) => DedupPrune::OlderThan(days.saturating_mul(DAY_S)),
            Self::Percent(percent) => DedupPrune::Percent(percent),
        };
        let pruned = service.pool.prune_dedup(wanted);
        pruned
            .map(drop)
            .map_err(|error| service.pool_refused("prune dedup table of", &error))
    }
}

impl PoolChange for PrefetchTables {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("prefetch", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("prefetch")
    }

    fn turn(&self) -> Turn {
        Turn::Beside
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let tables = match self {
            Self::Dedup => Tables::Dedup,
            Self::BlockReferences => Tables::BlockReferences,
        };
        let read = service.pool.facts().prefetch(tables);
        read.map(drop)
            .map_err(|error| service.pool_refused("prefetch", &error))
    }
}
