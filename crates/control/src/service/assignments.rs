//! Property assignments of a request: where they are kept, and as what they are stored.

use admin::{Assignments, Failure, FailureKind, PropertyError, Value};
use dsl::PropertyValue;
use dsl::property::dataset::{self, CASESENSITIVITY, NORMALIZATION, UTF8ONLY, VERSION};
use dsl::property::{CaseRule, Home, PropertyType, Requirement, Row};

use super::contents::NewFileSystem;

/// Properties that are kept inside a file system, and those that are not.
pub(super) fn split_inside(properties: &Assignments) -> (Assignments, Assignments) {
    properties
        .iter()
        .cloned()
        .partition(|(name, _)| dataset::find(name).is_some_and(|row| row.home == Home::FileSystem))
}

/// What is kept inside a file system.
pub(super) struct InsideValues {
    version: u64,
    utf8_only: bool,
    utf8_asked: Option<u64>,
    normalization: u64,
    case: CaseRule,
}

impl InsideValues {
    /// As asked, else as the parent has it, else plain. `has`: what the pool has.
    pub(super) fn new(
        asked: &Assignments,
        inherited: &dyn Fn(&str) -> Option<u64>,
        has: &dyn Fn(Requirement) -> bool,
    ) -> Self {
        let value = |row: &Row| {
            let found = asked.iter().find(|(key, _)| row.is(key));
            found.and_then(|(_, value)| value.number())
        };
        let or_parent = |row: &Row| {
            let found = value(row).or_else(|| inherited(row.name));
            found.unwrap_or(row.default_number())
        };
        Self {
            version: value(&VERSION).unwrap_or_else(|| newest_version(has)),
            utf8_only: or_parent(&UTF8ONLY) != 0,
            utf8_asked: value(&UTF8ONLY),
            normalization: or_parent(&NORMALIZATION),
            case: CaseRule::from_stored(&PropertyValue::Number(or_parent(&CASESENSITIVITY)))
                .unwrap_or(CaseRule::Sensitive),
        }
    }

    pub(super) fn shape(&self, name: &str) -> Result<NewFileSystem, Failure> {
        if self.normalization != 0 && self.utf8_asked == Some(0) {
            let reason = "'utf8only' must be on with normalization";
            return Err(Failure::cannot(
                FailureKind::Invalid,
                "create",
                name,
                reason,
            ));
        }
        Ok(NewFileSystem {
            version: self.version,
            utf8_only: self.utf8_only || self.normalization != 0,
            normalization: self.normalization,
            case: self.case,
            owner: (sys::user_id(), sys::group_id()),
        })
    }
}

/// The newest version of file systems that the pool can have.
fn newest_version(has: &dyn Fn(Requirement) -> bool) -> u64 {
    let fits = |version: &u64| VERSION.needed(*version).is_none_or(has);
    let newest = (1..=VERSION.default_number()).rev().find(fits);
    newest.unwrap_or(1)
}

/// Assignments as the property layer stores them.
pub(super) fn stored(properties: &Assignments) -> Result<Vec<(String, PropertyValue)>, Failure> {
    let mut found = Vec::new();
    for (name, value) in properties {
        let value = stored_value(value).ok_or_else(|| {
            let error = PropertyError::Unknown(name.clone());
            Failure::new(FailureKind::Invalid, error.to_string())
        })?;
        found.push((name.clone(), value));
    }
    Ok(found)
}

/// A value as the property layer stores it, if there is one.
pub(super) fn stored_value(value: &Value) -> Option<PropertyValue> {
    match value {
        Value::Number(number) => Some(PropertyValue::Number(*number)),
        Value::Text(text) => Some(PropertyValue::Text(text.clone())),
        Value::Absent => None,
    }
}
