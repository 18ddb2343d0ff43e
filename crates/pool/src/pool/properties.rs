//! The pool's own properties: a ZAP that is made when the first one is set.

use std::sync::Arc;

use base::{Guid, ObjectId};
use dmu::{CreateZap, Tx, Zap};
use dsl::property::pool::{self, BOOTFS};
use dsl::property::{Home, Property, PropertyType, Row};
use dsl::{Got, PropertyValue, Source};
use format::ObjectType;
use format::config::{directory, keys};
use format::zap::Value;

use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::pool::services::PoolServices;

impl PoolServices {
    /// The ZAP of properties.
    fn property_table(&self) -> Result<Option<Zap>> {
        let id = self
            .directory
            .lookup(directory::POOL_PROPERTIES.as_bytes())?;
        let object = id.map(|id| self.mos.object(ObjectId(id))).transpose()?;
        Ok(object.map(|object| Zap::open(&object)).transpose()?)
    }

    /// A number among the properties, if it was set.
    pub(crate) fn stored_number(&self, row: &Row) -> Result<Option<u64>> {
        let Some(table) = self.property_table()? else {
            return Ok(None);
        };
        let value = table.lookup_value(row.name.as_bytes())?;
        Ok(value.and_then(|value| value.as_word()))
    }

    /// Sets a property; in syncing context. `comment` and `compatibility` live in labels.
    pub(crate) fn set_property(&self, tx: &Tx, name: &str, value: &PropertyValue) -> Result<()> {
        let row = pool::find(name);
        if row.is_some_and(in_labels) {
            self.config.change(|config| match value {
                PropertyValue::Text(text) if !text.is_empty() => {
                    config.list.set(name, text.as_str());
                }
                PropertyValue::Text(_) | PropertyValue::Number(_) => {
                    config.list.remove(name);
                }
            });
            return Ok(());
        }
        let table = match self.property_table()? {
            Some(table) => table,
            None => {
                let options = CreateZap {
                    object_type: ObjectType::POOL_PROPERTIES,
                    ..CreateZap::default()
                };
                let table = Zap::create(&self.mos, tx, &options)?;
                let id = table.object().id().0;
                self.directory
                    .add(tx, directory::POOL_PROPERTIES.as_bytes(), id)?;
                table
            }
        };
        if BOOTFS.is(name) && *value == PropertyValue::Number(0) {
            if table.lookup(name.as_bytes())?.is_some() {
                table.remove(tx, name.as_bytes())?;
            }
            return Ok(());
        }
        let stored = match value {
            PropertyValue::Number(number) => Value::word(*number),
            PropertyValue::Text(text) => Value::string(text),
        };
        table.update_value(tx, name.as_bytes(), &stored)?;
        Ok(())
    }
}

/// Whether the configuration in the labels has it: it is a text there.
const fn in_labels(row: &Row) -> bool {
    match row.home {
        Home::Labels => true,
        Home::Table | Home::FileSystem | Home::Volume | Home::Uberblock | Home::Process => false,
    }
}

fn value_of(value: &Value) -> PropertyValue {
    match value.as_word() {
        Some(number) => PropertyValue::Number(number),
        None => {
            let text = String::from_utf8_lossy(value.stored()).into_owned();
            PropertyValue::Text(text.trim_end_matches('\0').to_owned())
        }
    }
}

impl PoolServices {
    /// A dataset was destroyed: nobody boots from it any more.
    pub(crate) fn forget_boot_file_system(&self, tx: &Tx, id: ObjectId) -> dmu::Result<()> {
        let object = self
            .directory
            .lookup(directory::POOL_PROPERTIES.as_bytes())?;
        let Some(object) = object else { return Ok(()) };
        let table = Zap::open(&self.mos.object(ObjectId(object))?)?;
        let key = BOOTFS.name.as_bytes();
        if table.lookup(key)? == Some(id.0) {
            table.remove(tx, key)?;
        }
        Ok(())
    }
}

impl Pool {
    /// A property of the pool, and whether it was set.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn get<T: PropertyType>(&self, property: Property<T>) -> Result<Got<T>> {
        let stored = self.stored_property(property.row())?;
        let effective = stored.map(|value| (value, Source::Local));
        Ok(Got::of(effective, property.row()))
    }

    /// A property of the pool as it is stored; `None` when it has its default.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn stored_property(&self, row: &Row) -> Result<Option<PropertyValue>> {
        let name = row.name;
        if in_labels(row) {
            let config = self.config();
            let text = config.list.str(name);
            return Ok(text.map(|text| PropertyValue::Text(text.to_owned())));
        }
        let Some(table) = self.services.property_table()? else {
            return Ok(None);
        };
        let value = table.lookup_value(name.as_bytes())?;
        Ok(value.as_ref().map(value_of))
    }

    /// The stored properties that users gave names, by name.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn user_properties(&self) -> Result<Vec<(String, PropertyValue)>> {
        let Some(table) = self.services.property_table()? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in table.entries()? {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            let value = table.lookup_value(&entry.name)?;
            found.extend(
                value
                    .filter(|_| name.contains(':'))
                    .map(|value| (name, value_of(&value))),
            );
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    /// Sets properties of the pool, and waits until they are on disk.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn set_properties(
        self: &Arc<Self>,
        properties: Vec<(String, PropertyValue)>,
    ) -> Result<()> {
        let writer = self.writer()?;
        writer.settings.set_properties_next(properties);
        writer.engine.wait_synced(None)?;
        self.follow_failmode();
        self.follow_multihost()?;
        self.follow_autoexpand()?;
        self.follow_autotrim()
    }
}

/// What of a vdev's ZAP is not a property that somebody set.
const OURS: [&str; 5] = [
    "com.delphix:",
    "org.zfsonlinux:",
    "org.openzfs:",
    "com.klarasystems:",
    "org.illumos:",
];

impl PoolServices {
    /// The ZAP of a vdev: the pool's own, a top-level vdev's, or a leaf's.
    fn vdev_table(&self, vdev: Guid) -> Result<Option<Zap>> {
        let id = self.config.with(|config| {
            let mut found = None;
            config.root.walk(&mut |node| {
                if node.guid() == vdev {
                    found = found.or_else(|| {
                        let keys = [keys::VDEV_ZAP_ROOT, keys::VDEV_ZAP_TOP, keys::VDEV_ZAP_LEAF];
                        keys.into_iter().find_map(|key| node.object(key))
                    });
                }
            });
            found
        });
        let object = id.map(|id| self.mos.object(id)).transpose()?;
        Ok(object.map(|object| Zap::open(&object)).transpose()?)
    }

    /// The number that a property of a vdev was set to; none if it is not set.
    ///
    /// # Errors
    /// The table cannot be read.
    pub(crate) fn vdev_number(&self, vdev: Guid, row: &Row) -> Result<Option<u64>> {
        let Some(table) = self.vdev_table(vdev)? else {
            return Ok(None);
        };
        let value = table.lookup_value(row.name.as_bytes())?;
        Ok(value.and_then(|value| value.as_word()))
    }

    /// Sets a property of a vdev, or takes it back; in syncing context.
    pub(crate) fn set_vdev_property(
        &self,
        tx: &Tx,
        vdev: Guid,
        name: &str,
        value: Option<&PropertyValue>,
    ) -> Result<()> {
        let Some(table) = self.vdev_table(vdev)? else {
            return Ok(());
        };
        let stored = match value {
            Some(PropertyValue::Number(number)) => Value::word(*number),
            Some(PropertyValue::Text(text)) => Value::string(text),
            None => {
                if table.lookup_value(name.as_bytes())?.is_some() {
                    table.remove(tx, name.as_bytes())?;
                }
                return Ok(());
            }
        };
        Ok(table.update_value(tx, name.as_bytes(), &stored)?)
    }
}

impl Pool {
    /// What was set of a vdev's properties, by name.
    ///
    /// # Errors
    /// The table cannot be read.
    pub fn vdev_properties(&self, vdev: Guid) -> Result<Vec<(String, PropertyValue)>> {
        let Some(table) = self.services.vdev_table(vdev)? else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        for entry in table.entries()? {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            if OURS.iter().any(|prefix| name.starts_with(prefix)) {
                continue;
            }
            if let Some(value) = table.lookup_value(&entry.name)? {
                found.push((name, value_of(&value)));
            }
        }
        found.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(found)
    }

    /// Sets properties of a vdev, or takes them back, and waits until that is on disk.
    ///
    /// # Errors
    /// The pool is read-only or stopped, or keeps nothing for the vdev.
    pub fn set_vdev_properties(
        &self,
        vdev: Guid,
        properties: Vec<(String, Option<PropertyValue>)>,
    ) -> Result<()> {
        let writer = self.writer()?;
        if self.services.vdev_table(vdev)?.is_none() {
            let text = "it keeps no properties of this vdev".to_owned();
            return Err(PoolError::Damaged(text));
        }
        let changes = properties.into_iter();
        let changes = changes.map(|(name, value)| (vdev, name, value)).collect();
        writer.settings.set_vdev_properties_next(changes);
        writer.engine.wait_synced(None)?;
        Ok(())
    }
}
