//! Devices come to the pool and leave it.

use admin::changes::{AddVdevs, CheckVdevs, RemoveAction, RemoveVdevs};
use admin::redundancy::{Redundancy, mismatch_with};
use admin::{Failure, FailureKind, VdevSpec, human_bytes};
use base::Guid;
use dsl::Actor;
use pool::{CacheStatus, Pool, PoolError, SpareStatus, VdevRole, VdevStatus};
use std::path::Path;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::delegation::denied;
use crate::service::open::{make_files, new_caches, new_spares, new_vdevs, paths, remove_files};
use crate::service::refusal::kind_of;
use crate::service::refusal::unreadable;
use crate::service::reporter::Reporter;

impl PoolChange for AddVdevs {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("add to", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("add to")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::After
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let name = service.pool.name();
        if !self.force {
            check_redundancy(self, service)?;
        }
        let made = make_files("add to", &name, &self.vdevs, self.file_size)?;
        let pool = &service.pool;
        let (vdevs, spares) = (
            new_vdevs(&self.vdevs, &made),
            new_spares(&self.vdevs, &made),
        );
        let added = match vdevs.is_empty() {
            true => Ok(()),
            false => pool.add_vdevs(&vdevs, self.ashift, self.force),
        };
        let added = added.and_then(|()| match spares.is_empty() {
            true => Ok(()),
            false => pool.add_spares(&spares, self.force),
        });
        let caches = new_caches(&self.vdevs, &made);
        let added = added.and_then(|()| match caches.is_empty() {
            true => Ok(()),
            false => pool.add_caches(&caches, self.ashift, self.force),
        });
        added.map_err(|error| {
            let mut unused = paths(&made);
            unused.retain(|path| !may_be_used(pool, path));
            remove_files(&unused);
            refused(service, &error)
        })
    }
}

impl PoolChange for CheckVdevs {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        self.wanted.authorize(service, actor)
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        self.wanted.while_suspended()
    }

    fn turn(&self) -> Turn {
        self.wanted.turn()
    }

    fn recorded(&self) -> Recorded {
        Recorded::Never
    }

    fn apply(&self, service: &Service, _reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        if !self.wanted.force {
            check_redundancy(&self.wanted, service)?;
        }
        check(&self.wanted, service)
    }
}

/// Whether a file that was made for a change that failed is the pool's all the same, or may come to be: what failed may
/// be another part of the change, and what waits for a txg goes in when the pool goes on.
fn may_be_used(pool: &Pool, path: &Path) -> bool {
    let path = device::absolute(path);
    let is_it = |known: &str| Path::new(known) == path;
    let root = pool.config().root;
    pool.suspended().is_some()
        || root
            .leaves()
            .into_iter()
            .filter_map(|leaf| leaf.path())
            .any(is_it)
        || pool.spares().iter().any(|spare| is_it(&spare.path))
        || pool.caches().iter().any(|cache| is_it(&cache.path))
}

impl PoolChange for RemoveVdevs {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("remove from", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("remove from")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        match self.action {
            RemoveAction::Remove | RemoveAction::Cancel => Recorded::After,
            RemoveAction::Estimate { .. } => Recorded::Never,
        }
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        if self.action == RemoveAction::Cancel {
            return service.pool.cancel_removal().map_err(|error| {
                let text = format!("cannot cancel removal: {error}");
                Failure::new(kind_of(&error), text)
            });
        }
        for device in &self.devices {
            let refuse = |kind, reason: &str| {
                let text = format!("cannot remove {device}: {reason}");
                Failure::new(kind, text)
            };
            let mut spares = service.pool.spares().into_iter();
            if let Some(spare) = spares.find(|spare| is_spare_called(spare, device)) {
                if self.action != RemoveAction::Remove {
                    continue;
                }
                let removed = service.pool.remove_spare(spare.guid);
                removed.map_err(|error| refuse(kind_of(&error), &error.to_string()))?;
                continue;
            }
            let mut caches = service.pool.caches().into_iter();
            if let Some(cache) = caches.find(|cache| is_cache_called(cache, device)) {
                if self.action != RemoveAction::Remove {
                    continue;
                }
                let removed = service.pool.remove_cache(cache.guid);
                removed.map_err(|error| refuse(kind_of(&error), &error.to_string()))?;
                continue;
            }
            let status = service.pool.status().map_err(unreadable)?;
            let mut tops = status.root.children.iter();
            let found = tops.find(|top| is_called(top, device));
            let missing = || refuse(FailureKind::Missing, "no such device in pool");
            let top = found.ok_or_else(missing)?;
            if top.role != VdevRole::Log {
                remove_data(service, self.action, (device, top.guid), reporter)?;
                continue;
            }
            if self.action != RemoveAction::Remove {
                continue; // a log leaves nothing behind
            }
            service.pool.remove_log(top.guid).map_err(|error| {
                if let PoolError::Busy = error {
                    let reason = "an intent log waits to be replayed; mount its dataset first";
                    refuse(FailureKind::Busy, reason)
                } else {
                    refuse(kind_of(&error), &error.to_string())
                }
            })?;
        }
        Ok(())
    }
}

/// Removes a vdev that holds data, or says what that would take.
fn remove_data(
    service: &Service,
    action: RemoveAction,
    (device, guid): (&str, Guid),
    reporter: &mut Reporter<'_>,
) -> Result<(), Failure> {
    let done = match action {
        RemoveAction::Remove | RemoveAction::Cancel => service.pool.remove_vdev(guid),
        RemoveAction::Estimate { exact } => service.pool.removal_memory(guid).map(|bytes| {
            let size = if exact {
                bytes.to_string()
            } else {
                human_bytes(bytes)
            };
            reporter.line(format!(
                "Memory that will be used after removing {device}: {size}"
            ));
        }),
    };
    done.map_err(|error| {
        let reason = if let PoolError::Busy = error {
            "Pool busy; removal may already be in progress".to_owned()
        } else if let PoolError::NoSpace = error {
            "out of space".to_owned()
        } else {
            error.to_string()
        };
        Failure::new(kind_of(&error), format!("cannot remove {device}: {reason}"))
    })
}

/// Refuses vdevs that can lose less or more devices than those there are, before the pool is lost.
fn check_redundancy(add: &AddVdevs, service: &Service) -> Result<(), Failure> {
    let status = service.pool.status().map_err(unreadable)?;
    let tops = status.root.children.iter();
    let data = tops.filter(|top| match top.role {
        VdevRole::Data | VdevRole::Special | VdevRole::Dedup => true,
        VdevRole::Log => false,
    });
    let mut known = data.filter_map(|top| Redundancy::named(&top.kind, top.children.len()));
    match mismatch_with(known.next_back(), &add.vdevs) {
        None => Ok(()),
        Some(text) => Err(Failure::unless_forced(
            FailureKind::Invalid,
            format!("mismatched replication level: {text}"),
        )),
    }
}

/// Whether it could be done: with files that are still to be made, nothing but the redundancy can be wrong.
fn check(add: &AddVdevs, service: &Service) -> Result<(), Failure> {
    let mut all = add.vdevs.iter().flat_map(VdevSpec::leaves);
    let vdevs = new_vdevs(&add.vdevs, &[]);
    if vdevs.is_empty() || !all.all(|path| device::exists(path)) {
        return Ok(());
    }
    let could = service.pool.check_vdevs(&vdevs, add.ashift, add.force);
    could.map_err(|error| refused(service, &error))
}

fn refused(service: &Service, error: &PoolError) -> Failure {
    let name = service.pool.name();
    if let PoolError::TooSmall { .. } = error {
        let reason = "device is less than the minimum size (64M)";
        Failure::cannot(FailureKind::Invalid, "add to", &name, reason)
    } else if let PoolError::DeviceInUse { .. } = error {
        Failure::unless_forced(FailureKind::Busy, error.to_string())
    } else {
        service.pool_refused("add to", error)
    }
}

/// Whether a user means this spare.
fn is_spare_called(spare: &SpareStatus, name: &str) -> bool {
    is_device_called((&spare.path, spare.guid), name)
}

/// Whether a user means this cache device.
pub(super) fn is_cache_called(cache: &CacheStatus, name: &str) -> bool {
    is_device_called((&cache.path, cache.guid), name)
}

/// Whether a user means a device beside the vdevs: by its path or the end of it, by guid.
fn is_device_called((path, guid): (&str, Guid), name: &str) -> bool {
    let is_path = path == name || path.rsplit('/').next() == Some(name);
    is_path || guid.0.to_string() == name
}

/// Whether a user means this vdev: by its path or the end of it, by its name in lists, by guid.
pub(super) fn is_called(vdev: &VdevStatus, name: &str) -> bool {
    let path = vdev.path.as_deref();
    path.is_some_and(|path| path == name || path.rsplit('/').next() == Some(name))
        || format!("{}-{}", vdev.kind, vdev.id) == name
        || (vdev.guid.0 != 0 && vdev.guid.0.to_string() == name)
}
