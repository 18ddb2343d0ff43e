//! Writing out everything.

use admin::Failure;
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::mounting::framed;
use crate::service::reporter::Reporter;

/// Everything written so far is on the devices when this returns.
pub(super) struct SyncPool;

impl PoolChange for SyncPool {
    /// For everybody.
    fn authorize(&self, _service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Ok(())
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("sync")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        if service.readonly {
            return Ok(());
        }
        for mount in service.mounts().mounted() {
            let written = service.mounts().barrier(&mount.dataset);
            written.map_err(|failure| framed("sync", &mount.dataset, failure))?;
        }
        service.pool.sync().map_err(|error| {
            // While it was written out: from now on it is refused before, with the same words.
            let suspended = service.check_running(self.while_suspended());
            let failure = suspended.err();
            failure.unwrap_or_else(|| service.pool_refused("sync", &error))
        })
    }
}
