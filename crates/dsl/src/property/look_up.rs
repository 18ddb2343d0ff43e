//! Looking up effective values: here, or at the nearest directory above that has one.

use std::borrow::Cow;

use dmu::Zap;
use format::dsl::property as suffix;

use super::cache::Key;
use super::effective::{Effective, Got, Source};
use super::row::{Property, Row};
use super::stored::{StoredProperty, list, stored};
use super::table::dataset;
use super::typed::PropertyType;
use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::Result;
use crate::policy::StoragePolicy;

impl Directory {
    /// The effective value of a property at this directory's head, and who has set it.
    ///
    /// # Errors
    /// A ZAP of properties cannot be read.
    pub fn get<T: PropertyType>(&self, property: Property<T>) -> Result<Got<T>> {
        Ok(Got::of(self.effective(property.row())?, property.row()))
    }

    /// The effective value of a row as it is stored. What is not inheritable is not looked for
    /// above.
    ///
    /// # Errors
    /// A ZAP of properties cannot be read.
    pub fn effective(&self, row: &'static Row) -> Result<Effective> {
        self.effective_by((Cow::Borrowed(row.name), row.inherits))
    }

    /// The effective value of a property that a user gave a name, which is inherited.
    ///
    /// # Errors
    /// A ZAP of properties cannot be read.
    pub fn user_property(&self, name: &str) -> Result<Effective> {
        self.effective_by((Cow::Owned(name.to_owned()), true))
    }

    fn effective_by(&self, key: Key) -> Result<Effective> {
        let stamp = self.dsl.stamp();
        if let Some(known) = self.effective.get(stamp, &key) {
            return Ok(known);
        }
        let effective = self.look_up(&key)?;
        self.effective.put(stamp, key, &effective);
        Ok(effective)
    }

    fn look_up(&self, key: &Key) -> Result<Effective> {
        let here = stored(&self.property_zap()?, &key.0)?;
        if let Some(value) = here.local {
            return Ok(Some((value, Source::Local)));
        }
        if let Some(value) = here.received {
            return Ok(Some((value, Source::Received)));
        }
        if !key.1 {
            return Ok(None);
        }
        let Some(parent) = self.parent() else {
            return Ok(None);
        };
        let above = parent.effective_by(key.clone())?;
        Ok(above.map(|(value, source)| (value, inherited(source, || parent.name()))))
    }

    /// How blocks of the head are stored.
    ///
    /// # Errors
    /// As [`Directory::property`].
    pub fn storage_policy(&self) -> Result<StoragePolicy> {
        let stamp = self.dsl.stamp();
        if let Some(policy) = self.effective.policy(stamp) {
            return Ok(policy);
        }
        let policy = StoragePolicy {
            compression: self.get(dataset::COMPRESSION)?.value,
            checksum: self.get(dataset::CHECKSUM)?.value,
            copies: self.get(dataset::COPIES)?.value,
            redundant_metadata: self.get(dataset::REDUNDANT_METADATA)?.value,
            dedup: self.get(dataset::DEDUP)?.value,
            special_small_blocks: self.get(dataset::SPECIAL_SMALL_BLOCKS)?.value,
            encrypted: self.crypto_key()?.is_some(),
        };
        self.effective.put_policy(stamp, policy);
        Ok(policy)
    }

    /// All values stored here, by name: local and received ones. Names of user properties are
    /// among them.
    ///
    /// # Errors
    /// The ZAP of properties cannot be read.
    pub fn stored_properties(&self) -> Result<Vec<StoredProperty>> {
        list(&self.property_zap()?)
    }

    /// Whether a stream brought properties, even if none is left.
    ///
    /// # Errors
    /// The ZAP of properties cannot be read.
    pub fn has_received_properties(&self) -> Result<bool> {
        let marker = suffix::HAS_RECEIVED.as_bytes();
        Ok(self.property_zap()?.lookup_value(marker)?.is_some())
    }
}

impl Dataset {
    /// The effective value of a property, and who has set it; of a snapshot its own, or as its
    /// head's directory says.
    ///
    /// # Errors
    /// A ZAP of properties cannot be read.
    pub fn get<T: PropertyType>(&self, property: Property<T>) -> Result<Got<T>> {
        Ok(Got::of(self.effective(property.row())?, property.row()))
    }

    /// The effective value of a row as it is stored.
    ///
    /// # Errors
    /// A ZAP of properties cannot be read.
    pub fn effective(&self, row: &'static Row) -> Result<Effective> {
        self.effective_by((Cow::Borrowed(row.name), row.inherits))
    }

    /// The effective value of a property that a user gave a name.
    ///
    /// # Errors
    /// A ZAP of properties cannot be read.
    pub fn user_property(&self, name: &str) -> Result<Effective> {
        self.effective_by((Cow::Owned(name.to_owned()), true))
    }

    fn effective_by(&self, key: Key) -> Result<Effective> {
        let directory = self.directory();
        if !self.is_snapshot() {
            return directory.effective_by(key);
        }
        if let Some(zap) = self.property_zap()? {
            let here = stored(&zap, &key.0)?;
            if let Some(value) = here.local {
                return Ok(Some((value, Source::Local)));
            }
            if let Some(value) = here.received {
                return Ok(Some((value, Source::Received)));
            }
        }
        if !key.1 {
            return Ok(None);
        }
        let above = directory.effective_by(key)?;
        Ok(above.map(|(value, source)| (value, inherited(source, || directory.name()))))
    }

    /// All values stored at this dataset.
    ///
    /// # Errors
    /// The ZAP of properties cannot be read.
    pub fn stored_properties(&self) -> Result<Vec<StoredProperty>> {
        if !self.is_snapshot() {
            return self.directory().stored_properties();
        }
        self.property_zap()?
            .map_or_else(|| Ok(Vec::new()), |zap| list(&zap))
    }

    fn property_zap(&self) -> Result<Option<Zap>> {
        let id = self.phys()?.properties;
        if id.0 == 0 {
            Ok(None)
        } else {
            self.dsl().mos.zap(id).map(Some)
        }
    }
}

/// The source of a value that was found above.
fn inherited(source: Source, above: impl FnOnce() -> String) -> Source {
    match source {
        Source::Inherited(from) => Source::Inherited(from),
        Source::Local | Source::Received => Source::Inherited(above()),
    }
}
