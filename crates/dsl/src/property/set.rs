//! Setting, inheriting and receiving properties, and what some of them change beside their value.

use std::sync::Arc;

use dmu::{Tx, Zap};
use format::dsl::{UsedBy, property as suffix};
use format::zap::Value;
use format::{ObjectType, version};

use super::dataset::{QUOTA, RESERVATION, find};
use super::{Effect, PropertyValue, Requirement, Row};
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
    /// A stream brought properties, whether or not this dataset has some: the name does not matter.
    NoteReceived,
}

/// Changes properties of a dataset.
pub struct SetProperties {
    /// The full name of a head or snapshot.
    pub name: String,
    /// Names and what happens to them.
    pub changes: Vec<(String, PropertyChange)>,
}

impl Task for SetProperties {
    type Output = ();

    fn space(&self) -> SpaceClass {
        let frees = self
            .changes
            .iter()
            .all(|(name, _)| has(name, Effect::MayFreeSpace));
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
        if dataset.is_snapshot() {
            let since = version::SNAPSHOT_PROPERTIES;
            context.dsl.require_version(since)?;
        }
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
            let before = Before::of(&dataset, name)?;
            let zap = own_zap(dsl, tx, &dataset)?;
            write(&zap, tx, name, &known(dsl, change))?;
            // Effects look the value up anew.
            dsl.new_stamp();
            before.follow(dsl, tx, &dataset, name)?;
            drop_empty(dsl, tx, &dataset)?;
            let (event, text) = match change {
                PropertyChange::Set(value) | PropertyChange::Receive(value) => {
                    ("set", format!("{name}={value}"))
                }
                PropertyChange::Inherit
                | PropertyChange::RevertToReceived
                | PropertyChange::ClearReceived => ("inherit", format!("{name}=")),
                PropertyChange::NoteReceived => continue,
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

/// What setting a property does beside its value; nothing for the names that users give.
fn effects(name: &str) -> &'static [Effect] {
    find(name).map_or(&[], |row| row.effects)
}

fn has(name: &str, effect: Effect) -> bool {
    effects(name).contains(&effect)
}

/// Whether a quota or reservation can be what is asked.
fn check_number(dataset: &Dataset, name: &str, number: u64) -> Result<()> {
    for effect in effects(name) {
        if !is_possible(dataset, *effect, number)? {
            return Err(DslError::NoSpace);
        }
    }
    Ok(())
}

fn is_possible(dataset: &Dataset, effect: Effect, number: u64) -> Result<bool> {
    let directory = dataset.directory();
    Ok(match effect {
        Effect::Quota => {
            let space = directory.phys()?;
            number == 0 || number >= space.used_bytes.max(space.reserved)
        }
        Effect::Reservation => {
            let space = directory.phys()?;
            let held = space.used_bytes.max(space.reserved);
            let more = space.used_bytes.max(number).saturating_sub(held);
            let within_quota = space.quota == 0 || number <= space.quota;
            within_quota && (more == 0 || more <= above(dataset)?)
        }
        Effect::RefQuota => {
            let referenced = dataset.phys()?.referenced_bytes;
            number == 0 || number >= referenced.max(dataset.ref_reservation()?)
        }
        Effect::RefReservation => {
            let unique = dataset.phys()?.unique_bytes;
            let before = unique.max(dataset.ref_reservation()?);
            let more = unique.max(number).saturating_sub(before);
            let quota = dataset.ref_quota()?;
            (more == 0 || more <= directory.available(SpaceClass::Normal)?)
                && (quota == 0 || number <= quota)
        }
        Effect::Remount
        | Effect::Move
        | Effect::CountBelow
        | Effect::ActivateFeature
        | Effect::Caching
        | Effect::MayFreeSpace => true,
    })
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
    let zap = dsl.mos.new_zap(tx, ObjectType::DSL_PROPERTIES, 0)?;
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
    let stand_in = find(name).and_then(|row| row.stand_in);
    let instead = stand_in.and_then(|(from, instead)| {
        let unknown = value.number().is_some_and(|number| number >= from);
        unknown.then_some(instead)
    });
    match instead {
        Some(instead) => {
            put(zap, tx, name, "", &Value::word(instead))?;
            put(zap, tx, name, suffix::UNKNOWN_INDEX, &value.to_stored())
        }
        None => {
            put(zap, tx, name, "", &value.to_stored())?;
            remove(zap, tx, name, suffix::UNKNOWN_INDEX)
        }
    }
}

/// What becomes of a change in a pool that does not remember what was received: that is set there.
fn known(dsl: &Dsl, change: &PropertyChange) -> PropertyChange {
    if dsl.services().version() >= version::RECEIVED_PROPERTIES {
        return change.clone();
    }
    match change {
        PropertyChange::Set(value) | PropertyChange::Receive(value) => {
            PropertyChange::Set(value.clone())
        }
        PropertyChange::Inherit | PropertyChange::RevertToReceived => PropertyChange::Inherit,
        PropertyChange::ClearReceived => PropertyChange::ClearReceived,
        PropertyChange::NoteReceived => PropertyChange::ClearReceived,
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
        PropertyChange::NoteReceived => put(zap, tx, "", suffix::HAS_RECEIVED, &Value::word(0)),
    }
}

/// What a property stood for before it changed.
struct Before {
    ref_reservation: u64,
}

impl Before {
    fn of(dataset: &Dataset, name: &str) -> Result<Self> {
        let head = !dataset.is_snapshot() && has(name, Effect::RefReservation);
        let ref_reservation = if head { dataset.ref_reservation()? } else { 0 };
        Ok(Self { ref_reservation })
    }

    /// Makes everything that follows from the value true.
    fn follow(&self, dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>, name: &str) -> Result<()> {
        let Some(row) = find(name) else {
            return Ok(());
        };
        // Of a snapshot, whose directory is its head's, blocks are read.
        let effects = row
            .effects
            .iter()
            .filter(|&&effect| !dataset.is_snapshot() || effect == Effect::Caching);
        for effect in effects {
            self.follow_one(*effect, row, dsl, tx, dataset)?;
        }
        Ok(())
    }

    fn follow_one(
        &self,
        effect: Effect,
        row: &'static Row,
        dsl: &Dsl,
        tx: &Tx,
        dataset: &Arc<Dataset>,
    ) -> Result<()> {
        let directory = dataset.directory();
        match effect {
            Effect::Quota => directory.set_quota(tx, directory.get(QUOTA)?.value),
            Effect::Reservation => directory.set_reservation(tx, directory.get(RESERVATION)?.value),
            Effect::RefReservation => {
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
            Effect::CountBelow => start_counting(dsl, tx, &directory),
            Effect::ActivateFeature => {
                let effective = directory.effective(row)?;
                let value = effective.and_then(|(value, _)| value.number());
                activate_for(dsl, tx, dataset, row, value.unwrap_or(0))
            }
            Effect::Caching => {
                dsl.primary_cache.note_change();
                Ok(())
            }
            // The layers above see to these, and a quota of what is referenced is looked up.
            Effect::Remount | Effect::Move | Effect::RefQuota | Effect::MayFreeSpace => Ok(()),
        }
    }
}

/// Features of checksums and compressions count from the moment that the property is set.
fn activate_for(dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>, row: &Row, value: u64) -> Result<()> {
    let Some(Requirement::Feature(needed)) = row.needed(value) else {
        return Ok(());
    };
    let Some(feature) = DatasetFeature::of(needed) else {
        return Ok(());
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
    let before = Before::of(dataset, name)?;
    write_local(&dataset.directory().property_zap()?, tx, name, value)?;
    dsl.new_stamp();
    before.follow(dsl, tx, dataset, name)
}

/// Takes a local property off a head.
pub(crate) fn clear_local(dsl: &Dsl, tx: &Tx, dataset: &Arc<Dataset>, name: &str) -> Result<()> {
    let before = Before::of(dataset, name)?;
    let zap = dataset.directory().property_zap()?;
    write(&zap, tx, name, &PropertyChange::Inherit)?;
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
