//! Single devices: beside another one, away, out of use and back.

use admin::changes::{AttachDevice, DetachDevice, OfflineDevices, OnlineDevices};
use admin::{Failure, FailureKind};
use base::Guid;
use dsl::Actor;
use format::config::VdevType;
use pool::{AttachOptions, Fill, NewDevice, OutOfUse, PoolError, VdevStatus};
use std::path::PathBuf;
use vdev::VdevState;

use super::devices::is_called;
use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::refusal::{kind_of, unreadable};
use crate::service::reporter::Reporter;

/// `attach NEW to DEVICE`, `replace DEVICE with NEW`.
fn action(change: &AttachDevice, new: &str) -> String {
    match (&change.new, change.replace) {
        (None, _) => format!("replace {}", change.device),
        (Some(_), true) => format!("replace {} with {new}", change.device),
        (Some(_), false) => format!("attach {new} to {}", change.device),
    }
}

/// What a change is called where it is refused as such.
fn verb(change: &AttachDevice) -> &'static str {
    if change.replace {
        "replace devices of"
    } else {
        "attach to"
    }
}

impl PoolChange for AttachDevice {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied(verb(self), &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused(verb(self))
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let new = self.new.as_ref().map(|new| new.display().to_string());
        let new = new.unwrap_or_else(|| self.device.clone());
        let cannot = |kind, reason: &str| {
            Failure::new(kind, format!("cannot {}: {reason}", action(self, &new)))
        };
        let target = service.device(&self.device)?;
        let missing = || cannot(FailureKind::Missing, "no such device in pool");
        let target = target.ok_or_else(missing)?;
        let same = || target.path.map(PathBuf::from);
        let path = self.new.clone().or_else(same).ok_or_else(missing)?;
        let options = AttachOptions {
            replace: self.replace,
            ashift: self.ashift,
            force: self.force,
            fill: match self.sequential {
                true => Fill::Sequential,
                false => Fill::Healing,
            },
        };
        let device = NewDevice::Path(path.clone());
        let expands = !self.replace && target.gets_children;
        let result = if expands {
            service.pool.expand_raidz(target.guid, &device, &options)
        } else {
            service.pool.attach_device(target.guid, &device, &options)
        };
        result.map_err(|error| {
            if pool::is_in_use(&error) {
                return cannot(FailureKind::Busy, &format!("{} is busy", path.display()));
            }
            if let PoolError::NoSuchVdev { .. } = error {
                return missing();
            }
            if let PoolError::DeviceInUse { .. } = error {
                return Failure::unless_forced(FailureKind::Busy, error.to_string());
            }
            cannot(kind_of(&error), &error.to_string())
        })
    }
}

impl PoolChange for DetachDevice {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("detach from", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("detach from")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let name = &self.device;
        service.each_device("detach", std::slice::from_ref(name), &mut |_, guid| {
            service.pool.detach_device(guid)
        })
    }
}

impl PoolChange for OfflineDevices {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("offline devices of", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("offline devices of")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let how = OutOfUse {
            faulted: self.faulted,
            temporary: self.temporary,
        };
        let verb = if self.faulted { "fault" } else { "offline" };
        service.each_device(verb, &self.devices, &mut |_, guid| {
            service.pool.take_out(guid, how)
        })
    }
}

impl PoolChange for OnlineDevices {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("online devices of", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("online devices of")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        service.each_device("online", &self.devices, &mut |name, guid| {
            // Who says a whole URI means its server to be connected to.
            device::name(name.as_ref());
            let condition = service.pool.bring_online(guid)?;
            if self.expand {
                service.pool.expand_over(&[guid])?;
            }
            let advice = match condition.state {
                VdevState::Healthy => return Ok(()),
                VdevState::Faulted | VdevState::Degraded => {
                    "use 'zpool clear' to restore a faulted device"
                }
                VdevState::Unknown
                | VdevState::Closed
                | VdevState::Offline
                | VdevState::Removed
                | VdevState::CantOpen => {
                    "use 'zpool replace' to replace devices that are no longer present"
                }
            };
            reporter.line(format!(
                "warning: device '{name}' onlined, but remains in faulted state"
            ));
            reporter.line(advice);
            Ok(())
        })
    }
}

/// A vdev that was meant.
pub(super) struct Meant {
    pub(super) guid: Guid,
    path: Option<String>,
    gets_children: bool,
}

impl Service {
    /// The vdev that a user means.
    pub(super) fn device(&self, name: &str) -> Result<Option<Meant>, Failure> {
        let status = self.pool.status().map_err(unreadable)?;
        let by_path = |vdev: &VdevStatus| vdev.path.as_deref() == Some(name);
        let found = find(&status.root, &by_path);
        let found = found.or_else(|| find(&status.root, &|vdev| is_called(vdev, name)));
        Ok(found.map(|vdev| Meant {
            guid: vdev.guid,
            path: vdev.path.clone(),
            gets_children: vdev.vdev_type.is_some_and(VdevType::gets_children),
        }))
    }

    /// Does something to each device of these names, also after one was refused.
    fn each_device(
        &self,
        verb: &str,
        names: &[String],
        act: &mut dyn FnMut(&str, Guid) -> pool::Result<()>,
    ) -> Result<(), Failure> {
        let mut failed: Option<Failure> = None;
        for name in names {
            let refuse =
                |kind, reason: &str| Failure::new(kind, format!("cannot {verb} {name}: {reason}"));
            let found = self.device(name)?;
            let result = match found {
                None => Err(refuse(FailureKind::Missing, "no such device in pool")),
                Some(found) => act(name, found.guid).map_err(|error| {
                    if let PoolError::NoSuchVdev { .. } = error {
                        return refuse(FailureKind::Missing, "no such device in pool");
                    }
                    refuse(kind_of(&error), &error.to_string())
                }),
            };
            if let Err(failure) = result {
                failed = Some(match failed {
                    None => failure,
                    Some(first) => first.because(failure.to_string()),
                });
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

/// The first vdev below `vdev` that is such.
fn find<'a>(vdev: &'a VdevStatus, is: &dyn Fn(&VdevStatus) -> bool) -> Option<&'a VdevStatus> {
    let mut children = vdev.children.iter();
    children.find_map(|child| {
        if is(child) {
            return Some(child);
        }
        find(child, is)
    })
}
