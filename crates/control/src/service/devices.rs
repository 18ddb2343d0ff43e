//! Devices come to the pool and leave it.

use pool::{PoolError, VdevRole, VdevStatus};

use super::Service;
use super::open::{kind_of, make_files, new_vdevs, remove_files};
use crate::message::{VdevShape, VdevSpec};
use crate::report::VdevClass;
use crate::{Failure, FailureKind};

impl Service {
    /// Adds top-level vdevs.
    pub(super) fn add_vdevs(
        &self,
        vdevs: &[VdevSpec],
        ashift: Option<u32>,
        force: bool,
        file_size: Option<u64>,
    ) -> Result<(), Failure> {
        let name = self.pool.name();
        if !force {
            self.check_redundancy(vdevs)?;
        }
        let made = make_files("add to", &name, vdevs, file_size)?;
        let added = self.pool.add_vdevs(&new_vdevs(vdevs), ashift, force);
        added.map_err(|error| {
            remove_files(&made);
            let cannot = |kind, reason: &str| Failure::cannot(kind, "add to", &name, reason);
            match &error {
                PoolError::TooSmall { .. } => cannot(
                    FailureKind::Invalid,
                    "device is less than the minimum size (64M)",
                ),
                PoolError::DeviceInUse { .. } => {
                    Failure::new(FailureKind::Busy, "invalid vdev specification")
                        .advise("use '-f' to override the following errors:")
                        .advise(error.to_string())
                }
                error => cannot(kind_of(error), &error.to_string()),
            }
        })
    }

    /// Refuses data vdevs of another redundancy than those there are.
    fn check_redundancy(&self, vdevs: &[VdevSpec]) -> Result<(), Failure> {
        let status = self.pool.status().map_err(super::refusal::unreadable)?;
        let tops = status.root.children.iter();
        let mut data = tops.filter(|top| top.role == VdevRole::Data && top.kind != "hole");
        let Some(first) = data.next() else {
            return Ok(());
        };
        let sides = |kind: &str, count: usize| if kind == "mirror" { count } else { 1 };
        let there = sides(&first.kind, first.children.len());
        for spec in vdevs.iter().filter(|spec| spec.class == VdevClass::Normal) {
            let (word, new) = match &spec.shape {
                VdevShape::Leaf(path) if path.starts_with("/dev") => ("disk", 1),
                VdevShape::Leaf(_) => ("file", 1),
                VdevShape::Mirror(paths) => ("mirror", paths.len()),
            };
            let kind = &first.kind;
            let text = match (there, new) {
                (there, new) if there == new => continue,
                (1, _) | (_, 1) => format!("pool uses {kind} and new vdev uses {word}"),
                _ => format!("pool uses {there}-way {kind} and new vdev uses {new}-way {word}"),
            };
            return Err(
                Failure::new(FailureKind::Invalid, "invalid vdev specification")
                    .advise("use '-f' to override the following errors:")
                    .advise(format!("mismatched replication level: {text}")),
            );
        }
        Ok(())
    }

    /// Removes top-level vdevs, one after the other.
    pub(super) fn remove_vdevs(&self, devices: &[String]) -> Result<(), Failure> {
        for device in devices {
            let refuse = |kind, reason: &str| {
                let text = format!("cannot remove {device}: {reason}");
                Failure::new(kind, text)
            };
            let status = self.pool.status().map_err(super::refusal::unreadable)?;
            let mut tops = status.root.children.iter();
            let found = tops.find(|top| is_called(top, device));
            let missing = || refuse(FailureKind::Missing, "no such device in pool");
            let top = found.ok_or_else(missing)?;
            self.pool
                .remove_log(top.guid)
                .map_err(|error| match error {
                    PoolError::Busy => refuse(
                        FailureKind::Busy,
                        "an intent log waits to be replayed; mount its dataset first",
                    ),
                    error => refuse(kind_of(&error), &error.to_string()),
                })?;
        }
        Ok(())
    }
}

/// Whether a user means this vdev: by its path or the end of it, by its name in lists, by guid.
fn is_called(vdev: &VdevStatus, name: &str) -> bool {
    let path = vdev.path.as_deref();
    path.is_some_and(|path| path == name || path.rsplit('/').next() == Some(name))
        || format!("{}-{}", vdev.kind, vdev.id) == name
        || (vdev.guid.0 != 0 && vdev.guid.0.to_string() == name)
}
