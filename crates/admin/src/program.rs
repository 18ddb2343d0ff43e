//! What a channel program returned, as it travels: a line of JSON.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A value that a program returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramValue {
    /// There is none.
    Nil,
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Number(i64),
    /// Text.
    Text(String),
    /// A table, in the order in which it is shown.
    Table(Vec<(String, Self)>),
}

impl Serialize for ProgramValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Nil => serializer.serialize_unit(),
            Self::Boolean(boolean) => serializer.serialize_bool(*boolean),
            Self::Number(number) => serializer.serialize_i64(*number),
            Self::Text(text) => serializer.serialize_str(text),
            Self::Table(entries) => {
                let mut map = serializer.serialize_map(Some(entries.len()))?;
                for (key, value) in entries {
                    map.serialize_entry(key, value)?;
                }
                map.end()
            }
        }
    }
}

/// The line: an object with `return` if there is a value.
///
/// # Errors
/// Never by itself.
pub fn program_result(value: Option<&ProgramValue>) -> serde_json::Result<String> {
    let entries = value.map(|value| ("return".to_owned(), value.clone()));
    serde_json::to_string(&ProgramValue::Table(entries.into_iter().collect()))
}
