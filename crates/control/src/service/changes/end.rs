//! What ends a pool's service: exporting it and destroying it.

use admin::changes::{DestroyPool, Export};
use admin::{Failure, FailureKind};
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::mounting::framed;
use crate::service::reporter::Reporter;

impl PoolChange for Export {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("export", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        if self.force {
            WhileSuspended::Goes
        } else {
            WhileSuspended::ForcedOnly { verb: "export" }
        }
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Before
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        if self.force && service.pool.suspended().is_some() {
            return service.give_up(reporter);
        }
        service.end("export", self.force, &|| service.pool.export())
    }
}

impl PoolChange for DestroyPool {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("destroy", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("destroy")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Before
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        service.end("destroy", self.force, &|| service.pool.destroy())
    }
}

impl Service {
    /// Lets go of a suspended pool, whose last changes cannot be written.
    fn give_up(&self, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let streams = self.streams.close(true)?;
        let unmounted = self.unmount_all(true)?;
        let name = self.pool.name();
        if let Some(txg) = self.pool.abandon() {
            reporter.line(format!(
                "pool '{name}' was suspended: changes after txg {txg} are lost, but for what was \
                 synchronized to files, and it is not marked as exported"
            ));
        }
        for mount in unmounted {
            // An empty directory that was made for the mount goes with it.
            let _gone = std::fs::remove_dir(&mount.path);
        }
        streams.for_good();
        self.leave_register();
        self.finish();
        Ok(())
    }

    /// Unmounts all, then lets the pool go.
    fn end(
        &self,
        verb: &str,
        force: bool,
        finish: &dyn Fn() -> pool::Result<()>,
    ) -> Result<(), Failure> {
        let name = self.pool.name();
        let streams = self.streams.close(force).map_err(|failure| {
            Failure::cannot(FailureKind::Busy, verb, &name, "pool is busy").advise(failure.message)
        })?;
        for mount in self.mounts().mounted() {
            match self.mounts().barrier(&mount.dataset) {
                // What is detached from under its users is theirs to lose.
                Err(_) if force => {}
                written => {
                    written.map_err(|failure| framed(verb, &mount.dataset, failure))?;
                }
            }
        }
        let unmounted = self.unmount_all(force).map_err(|failure| {
            if failure.kind == FailureKind::Busy {
                failure
                    .advise(format!("cannot {verb} '{name}': pool is busy"))
                    .advise(format!(
                        "close what uses it, or use 'zpool {verb} -f {name}'"
                    ))
            } else {
                failure
            }
        })?;
        if let Err(error) = finish() {
            self.mount_again(&unmounted);
            return Err(self.pool_refused(verb, &error));
        }
        if !self.is_coming_back() {
            self.leave_cache_file();
        }
        self.leave_register();
        for mount in unmounted {
            // An empty directory that was made for the mount goes with it.
            let _gone = std::fs::remove_dir(&mount.path);
        }
        streams.for_good();
        self.finish();
        Ok(())
    }
}
