//! Setting and inheriting properties of datasets.

use std::sync::Arc;

use admin::changes::{Inherit, Set};
use admin::{Assignments, Failure, FailureKind, Permission, Types, Value};
use dsl::property::dataset::{CANMOUNT, COPIES, MOUNTPOINT, QUOTA, REFQUOTA, REFRESERVATION, find};
use dsl::property::{CanMount, Effect, Figure, PropertyValue};
use dsl::{Actor, Dataset, DslError, PropertyChange, SetProperties};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::mounts::Force;
use crate::service::Service;
use crate::service::assignments::stored;
use crate::service::delegation::{denied, denied_plainly};
use crate::service::mountpoint::MountFlags;
use crate::service::property_source::PropertySource;
use crate::service::refusal::{reason, refused, unreadable};
use crate::service::reporter::Reporter;
use crate::service::rules::{Target, volume_reservation};

const VERB: &str = "set property for";

impl PoolChange for Set {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        for name in &self.names {
            for (property, _) in &self.properties {
                let failure = || denied(VERB, name);
                service.require(actor, name, &[Permission::of_property(property)], failure)?;
            }
        }
        Ok(())
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
        for name in &self.names {
            let dataset = service
                .dsl
                .dataset(name)
                .map_err(|error| refused("open", name, &error))?;
            let kind = if dataset.is_snapshot() {
                Types::SNAPSHOT
            } else {
                service.dataset_index().kind_of(&dataset)?
            };
            let target = Target {
                kind,
                creating: false,
            };
            service.check_properties(VERB, name, target, &self.properties)?;
            let properties = service.set_inside(name, &dataset, &self.properties)?;
            let properties = service.resolved(&dataset, &properties)?;
            let changes = stored(&properties)?
                .into_iter()
                .map(|(name, value)| (name, PropertyChange::Set(value)))
                .collect();
            service.change_properties(name, changes, self.keep_mounts, reporter)?;
        }
        Ok(())
    }
}

impl PoolChange for Inherit {
    fn authorize(&self, service: &Service, actor: &Actor) -> Result<(), Failure> {
        let property = &self.property;
        let permission = Permission::of_property(property);
        for name in service.these(&self.names, self.recursive)? {
            let text = format!("inherit {property} for '{name}'");
            service.require(actor, &name, &[permission], || denied_plainly(&text))?;
        }
        Ok(())
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
        for name in &self.names {
            let dataset = service
                .dsl
                .dataset(name)
                .map_err(|error| refused("open", name, &error))?;
            let mut all = vec![name.clone()];
            if self.recursive && !dataset.is_snapshot() {
                let heads = service
                    .dsl
                    .heads_under(&dataset.directory())
                    .map_err(unreadable)?;
                all = heads.iter().map(|head| head.directory().name()).collect();
            }
            for name in all {
                let change = if self.received {
                    PropertyChange::RevertToReceived
                } else {
                    PropertyChange::Inherit
                };
                let changes = vec![(self.property.clone(), change)];
                service.change_properties(&name, changes, false, reporter)?;
            }
        }
        Ok(())
    }
}

impl Service {
    /// `refreservation=auto` becomes a number.
    fn resolved(
        &self,
        dataset: &Arc<Dataset>,
        properties: &Assignments,
    ) -> Result<Assignments, Failure> {
        let mut found = properties.clone();
        for (name, value) in &mut found {
            if REFRESERVATION.is(name) && value.text() == Some("auto") {
                *value = Value::Number(self.automatic_reservation(dataset)?);
            }
        }
        Ok(found)
    }

    /// What `refreservation=auto` means for a volume.
    fn automatic_reservation(&self, dataset: &Arc<Dataset>) -> Result<u64, Failure> {
        let dataset_index = self.dataset_index();
        let name = dataset.directory().name();
        let owner = dataset_index.head(name, Arc::clone(dataset))?;
        let number = |figure: Figure| {
            let found = owner.figure(figure).ok().flatten();
            found.and_then(|value| value.number()).unwrap_or(0)
        };
        let copies = dataset.get(COPIES).map_err(unreadable)?.value;
        Ok(volume_reservation(
            number(Figure::VolumeSize),
            number(Figure::VolumeBlockSize),
            copies,
        ))
    }

    /// Changes properties of one dataset and does what follows for mounts.
    pub(in crate::service) fn change_properties(
        &self,
        dataset: &str,
        changes: Vec<(String, PropertyChange)>,
        keep_mounts: bool,
        reporter: &mut Reporter<'_>,
    ) -> Result<(), Failure> {
        // Whether it is mounted now is another question than whether it mounts by itself.
        let not_by_itself = PropertyChange::Set(PropertyValue::Number(CanMount::NoAuto as u64));
        let any = |effect: Effect| {
            let mut rows = changes
                .iter()
                .filter(|(name, change)| !CANMOUNT.is(name) || *change != not_by_itself)
                .filter_map(|(name, _)| find(name));
            rows.any(|row| row.has(effect))
        };
        let (moves, remounts) = (any(Effect::Move), any(Effect::Remount));
        let was_mounted = self.mounted_below(dataset);
        // Only the administrator moves what is mounted.
        let keep_mounts = keep_mounts || !self.actor().privileged;
        let unmounted = if moves && !keep_mounts {
            self.unmount_below(dataset, Force::None)?
        } else {
            Vec::new()
        };
        let names: Vec<String> = changes.iter().map(|(name, _)| name.clone()).collect();
        let task = SetProperties {
            name: dataset.to_owned(),
            changes,
        };
        if let Err(error) = self.dsl.run(task) {
            self.mount_again(&unmounted);
            return Err(self.set_refused(dataset, &names, &error));
        }
        if let Err(failure) = self.source().refresh_volumes() {
            reporter.warn(failure);
        }
        if moves && !keep_mounts {
            // Turning a mount point on mounts it, as turning it off has unmounted it.
            let by_itself = !was_mounted.is_empty() || names.iter().any(|name| MOUNTPOINT.is(name));
            if by_itself {
                self.mount_below(dataset, MountFlags::default(), reporter);
            }
            for mount in &was_mounted {
                if !self
                    .mounts()
                    .mounted()
                    .iter()
                    .any(|now| now.path.starts_with(&mount.path))
                {
                    let _gone = std::fs::remove_dir(&mount.path);
                }
            }
        }
        if moves && !self.actor().privileged && !was_mounted.is_empty() {
            let text = "property may be set but unable to remount filesystem";
            reporter.warn(Failure::new(FailureKind::Permission, text));
        }
        if remounts && !keep_mounts {
            self.refresh_mounts(dataset, reporter);
        }
        Ok(())
    }

    fn set_refused(&self, dataset: &str, names: &[String], error: &DslError) -> Failure {
        let (kind, text) = if let DslError::NoSpace = error {
            (FailureKind::Space, no_space(names).to_owned())
        } else if let DslError::ReadOnly = error {
            (FailureKind::ReadOnly, "dataset is read-only".to_owned())
        } else {
            reason(error)
        };
        Failure::cannot(kind, VERB, dataset, text)
    }
}

/// Why one of these values takes more space than there is.
fn no_space(names: &[String]) -> &'static str {
    if names.iter().any(|name| QUOTA.is(name) || REFQUOTA.is(name)) {
        "size is less than current used or reserved space"
    } else {
        "size is greater than available space"
    }
}

#[cfg(test)]
mod tests;
