//! One dataset as properties see it, and the rule that makes a shown property of what is stored.

use crate::Failure;
use crate::property::{
    Access, DATASET_PROPERTIES, Default, Property, PropertyName, Setting, Source, Types, Value,
    find_dataset_property,
};

#[cfg(test)]
mod tests;

/// A dataset, snapshot or bookmark whose properties can be asked for.
pub(crate) trait Subject {
    /// Its full name.
    fn name(&self) -> &str;
    /// Its kind.
    fn kind(&self) -> Types;
    /// For a snapshot or bookmark, the kind of what it is of; else its own.
    fn head_kind(&self) -> Types;
    /// When it was made.
    fn created_txg(&self) -> u64;
    /// What is measured under this name (or fixed since creation); nothing if it has none.
    fn measured(&self, name: &str) -> Result<Option<Value>, Failure>;
    /// What was set here or above; without defaults.
    fn stored(&self, name: &str, inherits: bool) -> Result<Option<Setting>, Failure>;
    /// The user properties set here or above, by name.
    fn user_properties(&self) -> Result<Vec<(String, Setting)>, Failure>;
}

/// All properties that the subject has, in the order of `get all`.
pub(crate) fn all(subject: &dyn Subject) -> Result<Vec<(String, Setting)>, Failure> {
    let mut found = Vec::new();
    for property in DATASET_PROPERTIES
        .iter()
        .filter(|property| property.visible)
    {
        if let Some(setting) = native(subject, property)? {
            found.push((property.name.to_owned(), setting));
        }
    }
    found.extend(subject.user_properties()?);
    Ok(found)
}

/// The named properties that the subject has, in the order of the names.
pub(crate) fn named(
    subject: &dyn Subject,
    names: &[String],
) -> Result<Vec<(String, Setting)>, Failure> {
    let mut found = Vec::new();
    for name in names {
        let setting = match find_dataset_property(name) {
            Some(PropertyName::Native(property)) => native(subject, property)?,
            Some(PropertyName::User(name)) => user(subject, &name)?,
            Some(PropertyName::Computed(name)) => {
                // What is asked for by name (users' space, `written@`) counts as the dataset's own.
                let value = subject.measured(&name)?;
                value.map(|value| Setting::from(value, Source::Local))
            }
            None => None,
        };
        found.extend(setting.map(|setting| (name.clone(), setting)));
    }
    Ok(found)
}

fn user(subject: &dyn Subject, name: &str) -> Result<Option<Setting>, Failure> {
    if subject.kind() == Types::BOOKMARK {
        return Ok(None);
    }
    subject.stored(name, true)
}

fn native(subject: &dyn Subject, property: &Property) -> Result<Option<Setting>, Failure> {
    let kind = subject.kind();
    let applies = property.types.meets(kind)
        && (kind != Types::SNAPSHOT || applies_to_head(property, subject.head_kind()));
    if !applies {
        return Ok(None);
    }
    match property.name {
        "name" => {
            return Ok(Some(Setting::measured(Value::Text(
                subject.name().to_owned(),
            ))));
        }
        "type" => return Ok(Some(Setting::measured(Value::Text(kind.word().to_owned())))),
        _ => {}
    }
    if is_fixed(property) {
        return measured(subject, property);
    }
    let setting = match subject.stored(property.name, property.inherits)? {
        Some(setting) => setting,
        None if property.name == "volsize" => return measured_as(subject, property, Source::Local),
        None if property.name == "keylocation" && !is_own_key(subject)? => return Ok(None),
        None => Setting::from(property.default_value(), Source::Default),
    };
    // What the dataset's directory holds beats what the property table remembers.
    if matches!(property.name, "quota" | "reservation")
        && let Some(value) = subject.measured(property.name)?
    {
        let source = if value == Value::Number(0) {
            Source::Default
        } else if setting.source == Source::Default {
            Source::Local
        } else {
            setting.source
        };
        return Ok(Some(Setting {
            value,
            source,
            received: setting.received,
        }));
    }
    Ok(Some(setting))
}

/// Properties of snapshots that only file systems' or only volumes' have.
fn applies_to_head(property: &Property, head: Types) -> bool {
    let of_heads = Types(property.types.0 & Types::HEADS.0);
    of_heads == Types::NONE || of_heads.meets(head)
}

/// Measured, or fixed since the dataset was made: no source.
fn is_fixed(property: &Property) -> bool {
    property.access != Access::Settable || property.name == "version"
}

fn measured(subject: &dyn Subject, property: &Property) -> Result<Option<Setting>, Failure> {
    measured_as(subject, property, Source::None)
}

fn measured_as(
    subject: &dyn Subject,
    property: &Property,
    source: Source,
) -> Result<Option<Setting>, Failure> {
    let value = subject.measured(property.name)?;
    let crypto = matches!(property.name, "encryption" | "keyformat" | "pbkdf2iters");
    Ok(match (value, property.default) {
        (Some(value), default) if crypto && is_default(&value, default) => {
            Some(Setting::from(value, Source::Default))
        }
        (Some(value), _) if property.name.ends_with("_count") => {
            Some(Setting::from(value, Source::Local))
        }
        (Some(value), _) => Some(Setting::from(value, source)),
        // Counts nobody keeps, keys nobody has.
        (None, Default::Number(_)) if crypto || property.name.ends_with("_count") => {
            Some(Setting::from(property.default_value(), Source::Default))
        }
        (None, _) => None,
    })
}

fn is_default(value: &Value, default: Default) -> bool {
    matches!((value, default), (Value::Number(a), Default::Number(b)) if *a == b)
}

/// False for an encrypted dataset whose key is an ancestor's: it has no place of its own.
fn is_own_key(subject: &dyn Subject) -> Result<bool, Failure> {
    let root = subject.measured("encryptionroot")?;
    Ok(match root {
        Some(Value::Text(root)) => root == subject.name(),
        Some(Value::Number(_) | Value::Absent) | None => true,
    })
}
