//! What ends a pool's service: exporting it and destroying it.

use admin::changes::{DestroyPool, Export};
use admin::{Failure, FailureKind, Mounted};
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::mounts::Force;
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
        let give_up = self.force.then_some(reporter);
        service.end("export", self.force, &|| service.pool.export(), give_up)
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
        service.end("destroy", self.force, &|| service.pool.destroy(), None)
    }
}

impl Service {
    /// Lets go of a suspended pool, whose last changes cannot be written.
    fn give_up(&self, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let streams = self.streams.close(true)?;
        // Nothing waits for a suspended pool: what they had in memory is lost with the rest.
        let _closed = self.volumes.close(true);
        let unmounted = self.unmount_all(Force::All)?;
        self.abandon(reporter);
        self.gone(&unmounted);
        streams.for_good();
        Ok(())
    }

    fn abandon(&self, reporter: &mut Reporter<'_>) {
        let name = self.pool.name();
        if let Some(txg) = self.pool.abandon() {
            reporter.notice(format!(
                "pool '{name}' was suspended: changes after txg {txg} are lost, but for what was \
                 synchronized to files, and it is not marked as exported"
            ));
        }
    }

    /// The pool is not served any more, and these are not mounted.
    fn gone(&self, unmounted: &[Mounted]) {
        self.leave_register();
        for mount in unmounted {
            // An empty directory that was made for the mount goes with it.
            let _gone = std::fs::remove_dir(&mount.path);
        }
        self.finish();
    }

    /// Lets no volume be opened any more, and ends the use of those that are open if that is forced.
    fn close_volumes(&self, verb: &str, force: bool) -> Result<(), Failure> {
        self.volumes.close(force).map_err(|names| {
            let pool = self.pool.name();
            let failure = Failure::cannot(FailureKind::Busy, verb, &pool, "pool is busy");
            let open = names
                .into_iter()
                .map(|name| format!("volume '{name}' is open"));
            open.fold(failure, Failure::advise)
        })
    }

    /// Unmounts all, then lets the pool go. One that cannot be written any more is given up, if that is to be.
    fn end(
        &self,
        verb: &str,
        force: bool,
        finish: &dyn Fn() -> pool::Result<()>,
        give_up: Option<&mut Reporter<'_>>,
    ) -> Result<(), Failure> {
        let name = self.pool.name();
        let streams = self.streams.close(force).map_err(|failure| {
            Failure::cannot(FailureKind::Busy, verb, &name, "pool is busy").because(failure.message)
        })?;
        self.close_volumes(verb, force)?;
        for mount in self.mounts().mounted() {
            match self.mounts().barrier(&mount.dataset) {
                // What is detached from under its users is theirs to lose.
                Err(_) if force => {}
                written => {
                    written.map_err(|failure| {
                        self.volumes.reopen();
                        framed(verb, &mount.dataset, failure)
                    })?;
                }
            }
        }
        let how = if force { Force::All } else { Force::None };
        let unmounted = self.unmount_all(how).map_err(|failure| {
            self.volumes.reopen();
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
        match (finish(), give_up) {
            (Ok(()), _) => {}
            (Err(_), Some(reporter)) if self.pool.suspended().is_some() => self.abandon(reporter),
            (Err(error), _) => {
                self.volumes.reopen();
                self.mount_again(&unmounted);
                return Err(self.not_let_go(verb, &error));
            }
        }
        if !self.is_coming_back() {
            self.leave_cache_file();
        }
        self.gone(&unmounted);
        streams.for_good();
        Ok(())
    }

    fn not_let_go(&self, verb: &str, error: &pool::PoolError) -> Failure {
        let failure = self.pool_refused(verb, error);
        if self.pool.suspended().is_none() {
            return failure;
        }
        let name = self.pool.name();
        failure.advise(format!(
            "repair the devices and run 'zpool clear {name}', or give up what is not on disk: 'zpool export -f {name}'"
        ))
    }
}
