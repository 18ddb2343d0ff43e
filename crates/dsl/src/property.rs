//! Properties: the table of all of them, the values stored at a dataset, and the effective ones
//! with their source.
//!
//! Invariant: what a property is stands in its row ([`Row`]) and nowhere else.
//!
//! Effective values are looked up through the chain of parents and kept with the layer's stamp; a
//! set anywhere makes a new stamp, and nobody needs to be told.

mod facts;
mod figure;
mod row;
mod set;
mod table;
mod typed;
mod words;

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::lock::{LockClass, Mutex, rank};
use dmu::Zap;
use format::dsl::property as suffix;
use format::zap::Value;

use crate::dataset::Dataset;
use crate::directory::Directory;
use crate::error::Result;
use crate::policy::StoragePolicy;

pub use facts::{
    Access, Default, Effect, Home, Kind, MountOption, Need, Number, Range, Shown, Support,
    TextRule, Types, Unsupported, Values, Word,
};
pub use figure::Measured;
pub use row::{Property, Row};
pub use table::dataset::{DATASET_PROPERTIES, Figure};
pub use table::pool::{POOL_PROPERTIES, PoolFigure};
pub use table::vdev::{VDEV_PROPERTIES, VdevFigure};
pub use table::{dataset, pool, vdev};
pub use typed::{PropertyType, Shape};
pub use words::{
    AclInherit, AclMode, AclType, CachePolicy, CanMount, CaseRule, DirectPolicy, FailMode, LogBias,
    RedundantMetadata, SnapshotDevices, SnapshotDirectory, SyncPolicy, VolumeMode, XattrPolicy,
};

pub use set::{PropertyChange, SetProperties};
pub(crate) use set::{set_local, set_snapshot_local};

static EFFECTIVE: LockClass = LockClass::new("dsl.effective", rank::DSL + 35);

/// The value of a property as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A number, a boolean or an index.
    Number(u64),
    /// A text.
    Text(String),
}

impl PropertyValue {
    fn from_stored(value: &Value) -> Option<Self> {
        match value.as_word() {
            Some(word) => Some(Self::Number(word)),
            None => value.as_text().map(|text| Self::Text(text.to_owned())),
        }
    }

    pub(crate) fn to_stored(&self) -> Value {
        match self {
            Self::Number(number) => Value::word(*number),
            Self::Text(text) => Value::string(text),
        }
    }

    /// The number, when it is one.
    #[must_use]
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) => None,
        }
    }
}

impl std::fmt::Display for PropertyValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// Where an effective value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Set here.
    Local,
    /// Received here in a stream.
    Received,
    /// Set or received at a dataset above.
    Inherited(String),
}

/// An effective value and where it comes from. Without one, the default holds.
pub type Effective = Option<(PropertyValue, Source)>;

/// A typed value and where it comes from: nowhere, when it is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got<T> {
    /// The effective value.
    pub value: T,
    /// Who has set it.
    pub source: Option<Source>,
}

impl<T: PropertyType> Got<T> {
    /// What is stored, read as the row's type; the default where that cannot be.
    #[must_use]
    pub fn of(effective: Effective, row: &Row) -> Self {
        match effective {
            None => Self {
                value: T::from_default(row.default),
                source: None,
            },
            Some((value, source)) => Self {
                value: T::from_stored(&value).unwrap_or_else(|| T::from_default(row.default)),
                source: Some(source),
            },
        }
    }
}

/// A name, and whether its lookup goes on above.
type Key = (Cow<'static, str>, bool);

/// Effective values of names.
type Effectives = BTreeMap<Key, Effective>;

/// Effective values of one directory or dataset, valid under one stamp.
pub(crate) struct EffectiveCache {
    inner: Mutex<(u64, Effectives, Option<StoragePolicy>)>,
}

impl EffectiveCache {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::new(&EFFECTIVE, (0, BTreeMap::new(), None)),
        }
    }

    fn get(&self, stamp: u64, key: &Key) -> Option<Effective> {
        let inner = self.inner.lock();
        if inner.0 == stamp {
            inner.1.get(key).cloned()
        } else {
            None
        }
    }

    fn put(&self, stamp: u64, key: Key, value: &Effective) {
        /// More different names than there are properties: user properties that nobody has.
        const NAMES_MAX: usize = 512;
        let mut inner = self.inner.lock();
        if inner.0 != stamp || inner.1.len() > NAMES_MAX {
            *inner = (stamp, BTreeMap::new(), None);
        }
        inner.1.insert(key, value.clone());
    }

    fn policy(&self, stamp: u64) -> Option<StoragePolicy> {
        let inner = self.inner.lock();
        if inner.0 == stamp { inner.2 } else { None }
    }

    fn put_policy(&self, stamp: u64, policy: StoragePolicy) {
        let mut inner = self.inner.lock();
        if inner.0 == stamp {
            inner.2 = Some(policy);
        }
    }
}

/// What one property ZAP says of a property.
struct Stored {
    local: Option<PropertyValue>,
    received: Option<PropertyValue>,
}

fn stored(zap: &Zap, name: &str) -> Result<Stored> {
    let value = |suffix: &str| -> Result<Option<PropertyValue>> {
        let key = format!("{name}{suffix}");
        let value = zap.lookup_value(key.as_bytes())?;
        Ok(value.as_ref().and_then(PropertyValue::from_stored))
    };
    let local = match value(suffix::UNKNOWN_INDEX)? {
        Some(known) => Some(known),
        None => value("")?,
    };
    let received = if value(suffix::INHERIT)?.is_some() {
        None
    } else {
        value(suffix::RECEIVED)?
    };
    Ok(Stored { local, received })
}

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
}

/// The source of a value that was found above.
fn inherited(source: Source, above: impl FnOnce() -> String) -> Source {
    match source {
        Source::Inherited(from) => Source::Inherited(from),
        Source::Local | Source::Received => Source::Inherited(above()),
    }
}

/// A property stored at a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredProperty {
    /// The name.
    pub name: String,
    /// The local value.
    pub local: Option<PropertyValue>,
    /// The received value, hidden or not.
    pub received: Option<PropertyValue>,
    /// Whether it is inherited on purpose.
    pub inherits: bool,
}

fn list(zap: &Zap) -> Result<Vec<StoredProperty>> {
    let mut names: BTreeMap<String, StoredProperty> = BTreeMap::new();
    for entry in zap.entries()? {
        let key = crate::mos::name_of(&entry.name);
        let (name, ending) = match key.find('$') {
            Some(0) => continue,
            Some(at) => key.split_at(at),
            None => (key.as_str(), ""),
        };
        let property = names
            .entry(name.to_owned())
            .or_insert_with(|| StoredProperty {
                name: name.to_owned(),
                local: None,
                received: None,
                inherits: false,
            });
        let value = zap.lookup_value(&entry.name)?;
        let value = value.as_ref().and_then(PropertyValue::from_stored);
        match ending {
            // An index that old software does not know wins over the stand-in.
            "" if property.local.is_none() => property.local = value,
            suffix::UNKNOWN_INDEX => property.local = value,
            suffix::RECEIVED => property.received = value,
            suffix::INHERIT => property.inherits = true,
            _ => {}
        }
    }
    Ok(names.into_values().collect())
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
