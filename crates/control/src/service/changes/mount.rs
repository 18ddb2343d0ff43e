//! Mounting and unmounting because somebody asked for it.

use std::path::PathBuf;

use dsl::Actor;
use serde::{Deserialize, Serialize};

use super::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::Failure;
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::mounting::MountFlags;
use crate::service::mountpoint::is_remount;
use crate::service::reporter::Reporter;

/// Mount a file system, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mount {
    /// Which; none: all that may be.
    pub name: Option<String>,
    /// Where, for a file system whose mount point is `legacy`.
    pub at: Option<PathBuf>,
    /// Options of `-o`; with `remount` among them, what is mounted gets them.
    pub options: Vec<String>,
    /// Over a directory that is not empty.
    pub overlay: bool,
    /// Even if redacted.
    pub force: bool,
    /// What is below it as well.
    pub recursive: bool,
}

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

/// Unmount a file system, or all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmount {
    /// A dataset or a path; none: all.
    pub name: Option<String>,
    /// From under its users.
    pub force: bool,
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
        match &self.name {
            Some(name) => service.unmount_one(name, self.force),
            None => service.unmount_all(self.force).map(drop),
        }
    }
}
