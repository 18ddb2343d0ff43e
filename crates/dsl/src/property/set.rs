//! Setting, inheriting and receiving properties, and what some of them change beside their value.

use std::sync::Arc;

use dmu::{Tx, Zap};
use format::ObjectType;
use format::dsl::{UsedBy, property as suffix};
use format::zap::Value;

use super::PropertyValue;
use crate::dataset::{Dataset, DatasetFeature};
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::services::{HistoryEvent, SpaceClass};
use crate::sizes::Sizes;
use crate::task::{Task, TaskContext};
use crate::tasks::start_counting;

/// What happens to a property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyChange {
    /// It gets a local value.
    Set(PropertyValue),
    /// It is inherited, hiding a received value.
    Inherit,
    /// It goes back to the received value.
    RevertToReceived,
    /// A stream brought a value.
    Receive(PropertyValue),
    /// The received value goes.
    ClearReceived,
}

/// Changes properties of a dataset.
pub struct SetProperties {
    /// The full name of a head or snapshot.
    pub name: String,
    /// Names and what happens to them.
    pub changes: Vec<(String, PropertyChange)>,
}

/// Values of an index that old software does not know: property, from which value on, and what it
/// reads instead.
const UNKNOWN_INDEXES: [(&str, u64, u64); 2] = [("redundant_metadata", 2, 0), ("snapdir", 2, 0)];

const QUOTA: &str = "quota";
const RESERVATION: &str = "reservation";
const REF_QUOTA: &str = "refquota";
const REF_RESERVATION: &str = "refreservation";

impl Task for SetProperties {
    type Output = ();

    fn space(&self) -> SpaceClass {
        const FREES: [&str; 5] = [
            QUOTA,
            RESERVATION,
            REF_QUOTA,
            REF_RESERVATION,
            "compression",
        ];
        let frees = self
            .changes
            .iter()
            .all(|(name, _)| FREES.contains(&name.as_str()));
        if frees {
            SpaceClass::ExtraReserved
        } else {
            SpaceClass::Reserved
        }
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        const NAME_MAX: usize = 255;
        const TEXT_MAX: usize = 8191;
        let dataset = context.dsl.dataset(&self.name)?;
        for (name, change) in &self.changes {
            let (PropertyChange::Set(value) | PropertyChange::Receive(value)) = change else {
                continue;
            };
            let long = matches!(value, PropertyValue::Text(text) if text.len() > TEXT_MAX);
            if name.is_empty() || name.len() > NAME_MAX || name.contains('$') || long {
                return Err(bad_value(&dataset, name, value));
            }
            if !dataset.is_snapshot()
                && let PropertyValue::Number(number) = value
            {
                check_number(&dataset, name, *number)?;
            }
        }
        Ok(())
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let (dsl, tx) = (context.dsl, context.tx);
        let dataset = dsl.dataset(&self.name)?;
        for (name, change) in &self.changes {
            let before = Effects::of(&dataset, name)?;
            let zap = own_zap(dsl, tx, &dataset)?;
            write(&zap, tx, name, change)?;
            // Effects look the value up anew.
            dsl.new_stamp();
            before.follow(dsl, tx, &dataset, name)?;
            drop_empty(dsl, tx, &dataset)?;
            let (event, text) = match change {
                PropertyChange::Set(value) | PropertyChange::Receive(value) => {
                    ("set", format!("{name}={value}"))
                }
                _ => ("inherit", format!("{name}=")),
            };
            context.record(&HistoryEvent {
                name: event,
                dataset: &self.name,
                dataset_id: dataset.id(),
                text: &text,
            })?;
        }
        Ok(())
    }
}

fn bad_value(dataset: &Dataset, property: &str, value: &PropertyValue) -> DslError {
    DslError::BadValue {
        name: dataset.directory().name(),
        property: property.to_owned(),
        value: value.to_string(),
    }
}

/// Whether a quota or reservation can be what is asked.
fn check_number(dataset: &Dataset, name: &str, number: u64) -> Result<()> {
    let directory = dataset.directory();
    let space = directory.phys()?;
    let phys = dataset.phys()?;
    let possible = match name {
        QUOTA => number == 0 || number >= space.used_bytes.max(space.reserved),
        RESERVATION => {
            let held = space.used_bytes.max(space.reserved);
            let more = space.used_bytes.max(number).saturating_sub(held);
            let within_quota = space.quota == 0 || number <= space.quota;
            within_quota && (more == 0 || more <= above(dataset)?)
        }
        REF_QUOTA => number == 0 || number >= phys.referenced_bytes.max(dataset.ref_reservation()?),
        REF_RESERVATION => {
            let before = phys.unique_bytes.max(dataset.ref_reservation()?);
            let more = phys.unique_bytes.max(number).saturating_sub(before);
            let quota = dataset.ref_quota()?;
            (more == 0 || more <= directory.available(SpaceClass::Normal)?)
                && (quota == 0 || number <= quota)
        }
        _ => true,
    };
    if possible {
        Ok(())
    } else {
        Err(DslError::NoSpace)
    }
}

/// What the parent has left; above the root, the pool.
fn above(dataset: &Dataset) -> Result<u64> {
    let directory = dataset.directory();
    match directory.parent() {
        Some(parent) => parent.available(SpaceClass::Normal),
        None => {
            let usable = dataset.dsl().services().usable_bytes(SpaceClass::Normal);
            Ok(usable.saturating_sub(directory.phys()?.used_bytes))
        }
    }
}

fn own_zap(dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>) -> Result<Zap> {
    if !dataset.is_snapshot() {
        return dataset.directory().property_zap();
    }
    let id = dataset.phys()?.properties;
    if id.0 != 0 {
        return dsl.mos.zap(id);
    }
    let zap = crate::tasks::new_zap(&dsl.mos, tx, ObjectType::DSL_PROPERTIES, 0)?;
    dataset.change(tx, |phys| phys.properties = zap.object().id())?;
    Ok(zap)
}

/// A snapshot's ZAP of properties goes when nothing is left in it.
fn drop_empty(dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>) -> Result<()> {
    if !dataset.is_snapshot() {
        return Ok(());
    }
    let id = dataset.phys()?.properties;
    if id.0 != 0 && dsl.mos.zap(id)?.is_empty()? {
        dataset.change(tx, |phys| phys.properties = base::ObjectId(0))?;
        dsl.mos.free(tx, id)?;
    }
    Ok(())
}

fn remove(zap: &Zap, tx: &Tx, name: &str, ending: &str) -> Result<()> {
    let key = format!("{name}{ending}");
    if zap.lookup_value(key.as_bytes())?.is_some() {
        zap.remove(tx, key.as_bytes())?;
    }
    Ok(())
}

fn put(zap: &Zap, tx: &Tx, name: &str, ending: &str, value: &Value) -> Result<()> {
    let key = format!("{name}{ending}");
    Ok(zap.update_value(tx, key.as_bytes(), value)?)
}

fn write_local(zap: &Zap, tx: &Tx, name: &str, value: &PropertyValue) -> Result<()> {
    remove(zap, tx, name, suffix::INHERIT)?;
    let unknown = UNKNOWN_INDEXES.iter().find(|(property, from, _)| {
        *property == name && value.number().is_some_and(|number| number >= *from)
    });
    match unknown {
        Some((_, _, instead)) => {
            put(zap, tx, name, "", &Value::word(*instead))?;
            put(zap, tx, name, suffix::UNKNOWN_INDEX, &value.to_stored())
        }
        None => {
            put(zap, tx, name, "", &value.to_stored())?;
            remove(zap, tx, name, suffix::UNKNOWN_INDEX)
        }
    }
}

fn write(zap: &Zap, tx: &Tx, name: &str, change: &PropertyChange) -> Result<()> {
    match change {
        PropertyChange::Set(value) => write_local(zap, tx, name, value),
        PropertyChange::Inherit => {
            remove(zap, tx, name, "")?;
            remove(zap, tx, name, suffix::UNKNOWN_INDEX)?;
            if zap.lookup_value(suffix::HAS_RECEIVED.as_bytes())?.is_some() {
                put(zap, tx, name, suffix::INHERIT, &Value::word(0))?;
            }
            Ok(())
        }
        PropertyChange::RevertToReceived => {
            remove(zap, tx, name, "")?;
            remove(zap, tx, name, suffix::INHERIT)?;
            remove(zap, tx, name, suffix::UNKNOWN_INDEX)
        }
        PropertyChange::Receive(value) => {
            put(zap, tx, "", suffix::HAS_RECEIVED, &Value::word(0))?;
            put(zap, tx, name, suffix::RECEIVED, &value.to_stored())
        }
        PropertyChange::ClearReceived => remove(zap, tx, name, suffix::RECEIVED),
    }
}

/// What a property stood for before it changed.
struct Effects {
    ref_reservation: u64,
}

impl Effects {
    fn of(dataset: &Dataset, name: &str) -> Result<Self> {
        let head = !dataset.is_snapshot() && name == REF_RESERVATION;
        let ref_reservation = if head { dataset.ref_reservation()? } else { 0 };
        Ok(Self { ref_reservation })
    }

    /// Makes everything that follows from the value true.
    fn follow(&self, dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>, name: &str) -> Result<()> {
        if dataset.is_snapshot() {
            return Ok(());
        }
        let directory = dataset.directory();
        match name {
            QUOTA => directory.set_quota(tx, directory.number_property(QUOTA, false, 0)?),
            RESERVATION => {
                let reserved = directory.number_property(RESERVATION, false, 0)?;
                directory.set_reservation(tx, reserved)
            }
            REF_RESERVATION => {
                let unique = dataset.phys()?.unique_bytes;
                let before = self.ref_reservation.saturating_sub(unique);
                let after = dataset.ref_reservation()?.saturating_sub(unique);
                let delta = after.wrapping_sub(before).cast_signed();
                let sizes = Sizes {
                    used: delta,
                    ..Sizes::ZERO
                };
                directory.charge(tx, UsedBy::RefReservation, sizes)
            }
            "filesystem_limit" | "snapshot_limit" => start_counting(dsl, tx, &directory),
            "compression" | "checksum" => {
                let value = directory.number_property(name, true, 0)?;
                activate_for(dsl, tx, dataset, name, value)
            }
            _ => Ok(()),
        }
    }
}

/// Features of checksums and compressions count from the moment that the property is set.
fn activate_for(dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>, name: &str, value: u64) -> Result<()> {
    const INDEX: u64 = 0x7F;
    let feature = match (name, value & INDEX) {
        ("compression", 16) => DatasetFeature::ZstdCompress,
        ("checksum", 11) => DatasetFeature::Sha512,
        ("checksum", 12) => DatasetFeature::Skein,
        ("checksum", 13) => DatasetFeature::Edonr,
        ("checksum", 14) => DatasetFeature::Blake3,
        _ => return Ok(()),
    };
    if dsl.services().is_enabled(feature.feature()) {
        dataset.activate(tx, feature)?;
    }
    Ok(())
}

/// Sets a local property of a head that a task is making.
pub(crate) fn set_local(
    dsl: &Dsl,
    tx: &Tx,
    dataset: &Arc<Dataset>,
    name: &str,
    value: &PropertyValue,
) -> Result<()> {
    let before = Effects::of(dataset, name)?;
    write_local(&dataset.directory().property_zap()?, tx, name, value)?;
    dsl.new_stamp();
    before.follow(dsl, tx, dataset, name)
}

/// Sets a property of a snapshot that a task is taking.
pub(crate) fn set_snapshot_local(
    dsl: &Dsl,
    tx: &Tx,
    snapshot: &Arc<Dataset>,
    name: &str,
    value: &PropertyValue,
) -> Result<()> {
    write_local(&own_zap(dsl, tx, snapshot)?, tx, name, value)
}
