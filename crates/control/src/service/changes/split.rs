//! `zpool split`: a pool of one side of each mirror.

use admin::changes::Split;
use admin::{Assignments, Failure, FailureKind, PropertyName, find_pool_property};
use dsl::property::Access;
use dsl::property::pool::{BOOTFS, CACHEFILE, COMPATIBILITY, VERSION};
use dsl::{Actor, PropertyValue};
use pool::PoolError;

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::compatibility::Compatibility;
use crate::service::Service;
use crate::service::assignments::stored_value;
use crate::service::delegation::denied;
use crate::service::refusal::kind_of;
use crate::service::reporter::Reporter;

impl PoolChange for Split {
    fn authorize(&self, service: &Service, _actor: &Actor) -> Result<(), Failure> {
        Err(denied("split", &service.dsl.pool_name()))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("split")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::unless(self.dry_run)
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let name = service.pool.name();
        let refuse =
            |kind, reason: &str| Failure::new(kind, format!("Unable to split {name}: {reason}"));
        let refused = |error: PoolError| refuse(kind_of(&error), &error.to_string());
        let properties =
            to_store(&self.properties).map_err(|reason| refuse(FailureKind::Invalid, &reason))?;
        let mut named = Vec::new();
        for device in &self.devices {
            let found = service.device(device)?;
            let missing = || {
                let reason = format!("no such device in pool: {device}");
                refuse(FailureKind::Missing, &reason)
            };
            named.push(found.ok_or_else(missing)?.guid);
        }
        let sides = service.pool.sides_to_split(&named).map_err(refused)?;
        if self.dry_run {
            sides
                .iter()
                .for_each(|side| reporter.line(side.0.to_string()));
            return Ok(());
        }
        let split = service.pool.split(&self.name, &sides).map_err(|error| {
            let failure = refused(error.clone());
            if let PoolError::SplitUnfinished { .. } = error {
                return failure.advise(format!(
                    "'zpool attach -f {name} DEVICE SIDE' gives them back to '{name}'"
                ));
            }
            failure
        })?;
        let ended = match properties.is_empty() {
            true => split.export(),
            false => split
                .set_properties(properties)
                .and_then(|()| split.export()),
        };
        ended.map_err(|error| {
            let text = format!("cannot export '{}': {error}", self.name);
            Failure::new(kind_of(&error), text)
        })
    }
}

/// Properties as the new pool stores them, or why it cannot have one.
fn to_store(given: &Assignments) -> Result<Vec<(String, PropertyValue)>, String> {
    let mut stored = Vec::new();
    for (name, value) in given {
        let settable = match find_pool_property(name) {
            Some(PropertyName::Native(row)) => {
                let is_special =
                    BOOTFS.is(row.name) || CACHEFILE.is(row.name) || VERSION.is(row.name);
                row.access == Access::Settable && !is_special
            }
            Some(PropertyName::User(_)) => true,
            Some(PropertyName::Computed(_)) | None => false,
        };
        if !settable {
            return Err(format!(
                "property '{name}' cannot be set while a pool is split"
            ));
        }
        if COMPATIBILITY.is(name)
            && let Some(text) = value.text()
        {
            Compatibility::read(text)?;
        }
        stored.extend(stored_value(value).map(|value| (name.clone(), value)));
    }
    Ok(stored)
}
