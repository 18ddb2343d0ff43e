//! Mounting and unmounting because somebody asked for it.

use admin::Failure;
use admin::changes::{Mount, Unmount};
use dsl::Actor;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::mountpoint::MountFlags;
use crate::service::mountpoint::is_remount;
use crate::service::reporter::Reporter;

impl PoolChange for Mount {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        let pool = service.dsl.pool_name();
        Err(denied("mount", self.name.as_deref().unwrap_or(&pool)))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::REFUSED
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let flags = MountFlags {
            words: &self.options,
            overlay: self.overlay,
            redacted: self.force,
            at: self.at.as_deref(),
        };
        let Some(dataset) = &self.name else {
            service.mount_below(&service.dsl.pool_name(), flags, reporter);
            return Ok(());
        };
        if is_remount(flags.words) {
            return service.remount(dataset, flags.words);
        }
        service.mount_one(dataset, flags)?;
        if self.recursive {
            let flags = MountFlags { at: None, ..flags };
            service.mount_below(dataset, flags, reporter);
        }
        Ok(())
    }
}

impl PoolChange for Unmount {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        let pool = service.dsl.pool_name();
        Err(denied("unmount", self.name.as_deref().unwrap_or(&pool)))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        if self.force {
            return WhileSuspended::Goes;
        }
        WhileSuspended::Refused {
            verb: "unmount",
            name: self.name.as_deref(),
        }
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let force = service.force(self.force);
        match &self.name {
            Some(name) => service.unmount_one(name, force),
            None => service.unmount_all(force).map(drop),
        }
    }
}
