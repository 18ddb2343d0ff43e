//! What one ZAP of properties says.

use std::collections::BTreeMap;

use dmu::Zap;
use format::dsl::property as suffix;

use super::value::PropertyValue;
use crate::error::Result;
use crate::mos::name_of;

/// What one property ZAP says of a property.
pub(super) struct Stored {
    pub(super) local: Option<PropertyValue>,
    pub(super) received: Option<PropertyValue>,
}

pub(super) fn stored(zap: &Zap, name: &str) -> Result<Stored> {
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

/// All that is stored there, by name.
pub(super) fn list(zap: &Zap) -> Result<Vec<StoredProperty>> {
    let mut names: BTreeMap<String, StoredProperty> = BTreeMap::new();
    for entry in zap.entries()? {
        let key = name_of(&entry.name);
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
