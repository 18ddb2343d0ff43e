//! What several commands read from their arguments: properties, columns, kinds, numbers.

use admin::rows::Access;
use admin::{Assignments, PropertyError, PropertyName, RowText, Types, Value};

use crate::output::{Stop, cannot, usage};
use crate::render::GetField;

#[cfg(test)]
mod tests;

/// `name=value`, as typed.
pub(crate) fn split_assignment(text: &str) -> Result<(&str, &str), PropertyError> {
    text.split_once('=').ok_or(PropertyError::NoEquals)
}

/// Adds an assignment of a dataset property, refusing what cannot be set.
pub(crate) fn assign_dataset(
    assignments: &mut Assignments,
    text: &str,
    creating: bool,
) -> Result<(), PropertyError> {
    let (name, value) = split_assignment(text)?;
    let property = admin::find_dataset_property(name)
        .ok_or_else(|| PropertyError::Unknown(name.to_owned()))?;
    let value = match &property {
        PropertyName::Native(row) => {
            if creating && row.access == Access::ReadOnly {
                return Err(PropertyError::ReadOnly(name.to_owned()));
            }
            if !creating && row.access != Access::Settable {
                // It is refused where it is known on what it was to be set.
                Value::Text(value.to_owned())
            } else {
                row.parse(value)?
            }
        }
        PropertyName::User(_) if value.len() >= 8192 => return Err(PropertyError::TooLong),
        PropertyName::User(_) => Value::Text(value.to_owned()),
        PropertyName::Computed(family) if family.contains("quota@") => match value {
            "none" => Value::Number(0),
            number => Value::Number(admin::parse_size(number)?),
        },
        PropertyName::Computed(_) => return Err(PropertyError::ReadOnly(name.to_owned())),
    };
    push_once(assignments, property.name(), value)
}

/// Adds an assignment of a pool property (features go elsewhere).
pub(crate) fn assign_pool(assignments: &mut Assignments, text: &str) -> Result<(), PropertyError> {
    let (name, value) = split_assignment(text)?;
    let property =
        admin::find_pool_property(name).ok_or_else(|| PropertyError::Unknown(name.to_owned()))?;
    let value = match &property {
        PropertyName::Native(row) if row.access == Access::ReadOnly => {
            return Err(PropertyError::ReadOnly(name.to_owned()));
        }
        PropertyName::Native(row) => row.parse(value)?,
        PropertyName::User(_) if value.len() >= 8192 => return Err(PropertyError::TooLong),
        PropertyName::User(_) => Value::Text(value.to_owned()),
        PropertyName::Computed(feature) => {
            let feature = feature.strip_prefix("feature@").unwrap_or(feature);
            if !matches!(value, "enabled" | "disabled") {
                return Err(PropertyError::FeatureState(feature.to_owned()));
            }
            Value::Text(value.to_owned())
        }
    };
    push_once(assignments, property.name(), value)
}

/// What an assignment is refused with: a line that makes no sense, or `cannot VERB 'NAME': …`.
pub(crate) fn bad_assignment(verb: &str, name: &str, error: &PropertyError) -> Stop {
    match error {
        PropertyError::NoEquals | PropertyError::Twice(_) => usage(error.to_string()),
        PropertyError::Unknown(_)
        | PropertyError::ReadOnly(_)
        | PropertyError::AtCreation(_)
        | PropertyError::OtherType(_)
        | PropertyError::NotOneOf { .. }
        | PropertyError::Number(_)
        | PropertyError::PowerOfTwo { .. }
        | PropertyError::SmallBlocks(_)
        | PropertyError::Range { .. }
        | PropertyError::UseNone
        | PropertyError::NotAPath(_)
        | PropertyError::NotAbsolute(_)
        | PropertyError::TooLong
        | PropertyError::NameTooLong(_)
        | PropertyError::Unprintable
        | PropertyError::CommentTooLong
        | PropertyError::FeatureState(_) => cannot(verb, name, error).into(),
    }
}

fn push_once(assignments: &mut Assignments, name: &str, value: Value) -> Result<(), PropertyError> {
    if assignments.iter().any(|(present, _)| present == name) {
        return Err(PropertyError::Twice(name.to_owned()));
    }
    assignments.push((name.to_owned(), value));
    Ok(())
}

/// The columns of a dataset list.
pub(crate) fn dataset_columns(text: &str) -> Result<Vec<PropertyName>, Stop> {
    const SPACE: &str = "name,avail,used,usedsnap,usedds,usedrefreserv,usedchild";
    let mut columns = Vec::new();
    for word in text.split(',') {
        if word == "space" {
            columns.extend(SPACE.split(',').filter_map(admin::find_dataset_property));
        } else {
            columns.push(dataset_property(word)?);
        }
    }
    Ok(columns)
}

/// A dataset property by name.
pub(crate) fn dataset_property(word: &str) -> Result<PropertyName, Stop> {
    admin::find_dataset_property(word).ok_or_else(|| bad_property(word))
}

/// The columns of a pool list.
pub(crate) fn pool_columns(text: &str) -> Result<Vec<PropertyName>, Stop> {
    text.split(',')
        .map(|word| admin::find_pool_property(word).ok_or_else(|| bad_property(word)))
        .collect()
}

/// The columns of `get`.
pub(crate) fn get_fields(text: Option<&str>) -> Result<Vec<GetField>, Stop> {
    match text {
        None => Ok(GetField::USUAL.to_vec()),
        Some("all") => Ok(GetField::ALL.to_vec()),
        Some(words) => words
            .split(',')
            .map(|word| {
                GetField::parse(word).ok_or_else(|| usage(format!("invalid column name '{word}'")))
            })
            .collect(),
    }
}

fn bad_property(word: &str) -> Stop {
    usage(format!("bad property list: invalid property '{word}'"))
}

/// The kinds of `-t`, in one list or several.
pub(crate) fn types<'a>(texts: impl Iterator<Item = &'a str>) -> Result<Option<Types>, Stop> {
    let mut found = None;
    for word in texts.flat_map(|text| text.split(',')) {
        let kind = Types::parse(word).ok_or_else(|| usage(format!("invalid type '{word}'")))?;
        found = Some(found.unwrap_or(Types::empty()).union(kind));
    }
    Ok(found)
}

/// How deep `-r` and `-d` go; none if neither is given.
pub(crate) fn depth(recursive: bool, limit: Option<&str>) -> Result<Option<Option<u32>>, Stop> {
    match limit {
        Some(text) => match text.parse() {
            Ok(depth) => Ok(Some(Some(depth))),
            Err(_) => Err(usage(format!("{text} is not an integer"))),
        },
        None if recursive => Ok(Some(None)),
        None => Ok(None),
    }
}

/// A plain number.
pub(crate) fn number(text: &str, what: &str) -> Result<u64, Stop> {
    text.parse()
        .map_err(|_| usage(format!("invalid {what} '{text}'")))
}
