//! Properties that a program gives values, as the service takes them: sizes and words as `zfs set` takes them.

use admin::{Assignments, PropertyName, RowText, Value, find_dataset_property, find_pool_property};

use super::{Error, Result};

type Find = fn(&str) -> Option<PropertyName>;

/// A property and its value as the service takes them.
pub(super) fn assignment(name: &str, value: &str) -> Result<(String, Value)> {
    parsed(find_dataset_property, name, value)
}

/// The same for a property of a pool.
pub(super) fn pool_assignment(name: &str, value: &str) -> Result<(String, Value)> {
    parsed(find_pool_property, name, value)
}

/// Several.
pub(super) fn assignments(properties: &[(&str, &str)]) -> Result<Assignments> {
    let parsed = properties.iter();
    parsed
        .map(|(name, value)| assignment(name, value))
        .collect()
}

fn parsed(find: Find, name: &str, value: &str) -> Result<(String, Value)> {
    let invalid =
        |why: &dyn std::fmt::Display| Error::Invalid(format!("property '{name}': {why}").into());
    match find(name) {
        None => Err(invalid(&"there is none of that name")),
        Some(PropertyName::Native(row)) => {
            let parsed = row.parse(value).map_err(|error| invalid(&error))?;
            Ok((row.name.to_owned(), parsed))
        }
        Some(PropertyName::User(name) | PropertyName::Computed(name)) => {
            // Quotas of owners are numbers, what users name is text.
            let value = match name.contains("quota@") {
                true if value == "none" => Value::Number(0),
                true => Value::Number(admin::parse_size(value).map_err(|error| invalid(&error))?),
                false => Value::Text(value.to_owned()),
            };
            Ok((name, value))
        }
    }
}
