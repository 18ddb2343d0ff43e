//! Properties as people read and write them, and as they travel.
//!
//! What a property is, its row says ([`dsl::property`]). Here rows parse, check and print, and are
//! found by name. Values travel as stored numbers or text ([`Value`]); only here do they become
//! what a person reads. No I/O.

pub mod describe;
mod text;
pub(crate) mod types_as_number;

#[cfg(test)]
mod tests;

use dsl::property::{Access, Default, Home, Kind, Number, Row};
use serde::{Deserialize, Serialize};

use crate::number::{human, human_bytes, parse_size, ratio};

pub use dsl::property::{DATASET_PROPERTIES, POOL_PROPERTIES, Types, VDEV_PROPERTIES};
pub use text::{PropertyError, check_user_property};

/// A property's value as it is stored and travels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Value {
    /// There is none: `-`.
    Absent,
    /// A number, or the number of a word.
    Number(u64),
    /// Text.
    Text(String),
}

impl Value {
    /// A number's number.
    #[must_use]
    pub const fn number(&self) -> Option<u64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(_) | Self::Absent => None,
        }
    }

    /// A text's text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Number(_) | Self::Absent => None,
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Source {
    /// It is measured, not set.
    None,
    /// Nobody has set it.
    Default,
    /// Set here.
    Local,
    /// For this mount or import only.
    Temporary,
    /// From a send stream.
    Received,
    /// Set on the named ancestor.
    Inherited(String),
}

impl Source {
    /// The text of the SOURCE column.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::None => "-".to_owned(),
            Self::Default => "default".to_owned(),
            Self::Local => "local".to_owned(),
            Self::Temporary => "temporary".to_owned(),
            Self::Received => "received".to_owned(),
            Self::Inherited(from) => format!("inherited from {from}"),
        }
    }

    /// The word by which `-s` selects it.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Default => "default",
            Self::Local => "local",
            Self::Temporary => "temporary",
            Self::Received => "received",
            Self::Inherited(_) => "inherited",
        }
    }
}

/// A value with its source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// The effective value.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
    /// The received value, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<Value>,
}

impl Setting {
    /// A measured value.
    #[must_use]
    pub const fn measured(value: Value) -> Self {
        Self {
            value,
            source: Source::None,
            received: None,
        }
    }

    /// A value from the given source.
    #[must_use]
    pub const fn from(value: Value, source: Source) -> Self {
        Self {
            value,
            source,
            received: None,
        }
    }
}

/// A property as a request names it.
#[derive(Debug, Clone)]
pub enum PropertyName {
    /// One of the table.
    Native(&'static Row),
    /// `module:name`.
    User(String),
    /// `userused@…`, `written@…`, `feature@…` and their like: computed by name.
    Computed(String),
}

impl PropertyName {
    /// The name under which the value is asked for.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Native(property) => property.name,
            Self::User(name) | Self::Computed(name) => name,
        }
    }

    /// The header of its column.
    #[must_use]
    pub fn column(&self) -> String {
        match self {
            Self::Native(property) => property.column.to_owned(),
            Self::User(name) | Self::Computed(name) => name.to_uppercase(),
        }
    }

    /// The value as text: by the table, or as it is.
    #[must_use]
    pub fn format(&self, value: &Value, exact: bool) -> String {
        match (self, value) {
            (Self::Native(property), value) => property.format(value, exact),
            (_, Value::Absent) => "-".to_owned(),
            (_, Value::Text(text)) => text.clone(),
            (Self::Computed(name), Value::Number(0)) if name.contains("quota@") && !exact => {
                "none".to_owned()
            }
            (Self::Computed(name), Value::Number(number)) if !exact => {
                if name.contains("obj") {
                    human(*number)
                } else {
                    human_bytes(*number)
                }
            }
            (_, Value::Number(number)) => number.to_string(),
        }
    }
}

const DATASET_FAMILIES: [&str; 14] = [
    "userused@",
    "userquota@",
    "groupused@",
    "groupquota@",
    "userobjused@",
    "userobjquota@",
    "groupobjused@",
    "groupobjquota@",
    "projectused@",
    "projectquota@",
    "projectobjused@",
    "projectobjquota@",
    "written@",
    "written#",
];

/// Finds a dataset property by its name or its column's header in lower case.
#[must_use]
pub fn find_dataset_property(name: &str) -> Option<PropertyName> {
    find(DATASET_PROPERTIES, name).or_else(|| {
        DATASET_FAMILIES
            .iter()
            .any(|family| name.len() > family.len() && name.starts_with(family))
            .then(|| PropertyName::Computed(name.to_owned()))
    })
}

/// Finds a pool property by its name or its column's header in lower case.
#[must_use]
pub fn find_pool_property(name: &str) -> Option<PropertyName> {
    let computed = name.starts_with("feature@") || name.starts_with("unsupported@");
    if computed {
        return Some(PropertyName::Computed(name.to_owned()));
    }
    find(POOL_PROPERTIES, name)
}

fn find(table: &[&'static Row], name: &str) -> Option<PropertyName> {
    if let Some(property) = table.iter().find(|row| row.is(name)) {
        return Some(PropertyName::Native(property));
    }
    if name.contains(':') {
        return check_user_property(name)
            .ok()
            .map(|()| PropertyName::User(name.to_owned()));
    }
    let wanted = name.to_ascii_uppercase();
    let lower = name.bytes().all(|byte| !byte.is_ascii_uppercase());
    let named = table.iter().find(|row| lower && row.column == wanted);
    named.map(|row| PropertyName::Native(row))
}

/// Finds a vdev property by its name.
#[must_use]
pub fn find_vdev_property(name: &str) -> Option<PropertyName> {
    find(VDEV_PROPERTIES, name)
}

/// Rows as people read and write their values.
pub trait RowText {
    /// The value when nobody has set it.
    fn default_value(&self) -> Value;

    /// True if lists right-align it.
    fn right_aligned(&self) -> bool;

    /// The value as text, in full if `exact`.
    fn format(&self, value: &Value, exact: bool) -> String;

    /// Reads what a person wrote.
    ///
    /// # Errors
    /// It is not a value of the property.
    fn parse(&self, text: &str) -> Result<Value, PropertyError>;

    /// Whether a value that comes from elsewhere is one that the property can have.
    fn accepts(&self, value: &Value) -> bool;

    /// Whether the value is fixed when the dataset is made, or measured, or kept where it is no
    /// matter of sources.
    fn is_fixed(&self) -> bool;
}

impl RowText for Row {
    fn default_value(&self) -> Value {
        match self.default {
            Default::Nothing => Value::Absent,
            Default::Number(number) => Value::Number(number),
            Default::Text(text) => Value::Text(text.to_owned()),
        }
    }

    fn right_aligned(&self) -> bool {
        match self.kind {
            Kind::Number(format, _) => !matches!(format, Number::Date | Number::Moment),
            Kind::Index(_) => false,
            // The one state that lists align as if it were a number.
            Kind::Text(_) => dsl::property::pool::HEALTH.is(self.name),
        }
    }

    fn format(&self, value: &Value, exact: bool) -> String {
        match (value, self.kind) {
            (Value::Absent, _) => "-".to_owned(),
            (Value::Text(text), _) => text.clone(),
            (Value::Number(number), Kind::Number(format, _)) => number_text(format, *number, exact),
            (Value::Number(number), Kind::Index(words)) => words
                .iter()
                .find(|(_, stored)| stored == number)
                .map_or_else(|| number.to_string(), |(word, _)| (*word).to_owned()),
            (Value::Number(number), Kind::Text(_)) => number.to_string(),
        }
    }

    fn parse(&self, text: &str) -> Result<Value, PropertyError> {
        match self.kind {
            Kind::Index(words) => words
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(_, stored)| Value::Number(*stored))
                .ok_or_else(|| PropertyError::NotOneOf {
                    property: self.name,
                    words: words_of(self, words),
                }),
            Kind::Number(format, range) => {
                let value = parse_number(format, text)?;
                match value {
                    Parsed::Word(value) => Ok(value),
                    Parsed::Plain(number) if range.contains(number) => Ok(Value::Number(number)),
                    Parsed::Plain(number) => Err(text::out_of_range(self.name, range, number)),
                }
            }
            Kind::Text(rule) => {
                text::check_text(self.name, rule, text)?;
                Ok(Value::Text(text.to_owned()))
            }
        }
    }

    fn accepts(&self, value: &Value) -> bool {
        match (self.kind, value) {
            (Kind::Number(_, range), Value::Number(number)) => range.contains(*number),
            (Kind::Index(words), Value::Number(number)) => {
                words.iter().any(|(_, stored)| stored == number)
            }
            (Kind::Text(rule), Value::Text(text)) => {
                text::check_text(self.name, rule, text).is_ok()
            }
            (Kind::Number(..) | Kind::Index(_), Value::Text(_) | Value::Absent)
            | (Kind::Text(_), Value::Number(_) | Value::Absent) => false,
        }
    }

    fn is_fixed(&self) -> bool {
        self.access != Access::Settable || self.home == Home::FileSystem
    }
}

/// What may be written, as people are told.
fn words_of(row: &Row, words: &[(&str, u64)]) -> String {
    if !row.values.is_empty() {
        return row.values.to_owned();
    }
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    words.join(" | ")
}

/// What a person wrote for a number.
enum Parsed {
    /// A word that stands for a value, whatever the range.
    Word(Value),
    /// A number.
    Plain(u64),
}

fn parse_number(format: Number, text: &str) -> Result<Parsed, PropertyError> {
    let (none, auto) = match format {
        Number::Quota | Number::Reservation => (Some(Value::Number(0)), None),
        Number::AutoReservation => {
            let auto = Value::Text("auto".to_owned());
            (Some(Value::Number(0)), Some(auto))
        }
        Number::AutoQuota => (Some(Value::Number(0)), Some(Value::Number(u64::MAX))),
        Number::Limit => (Some(Value::Number(u64::MAX)), None),
        Number::Bytes
        | Number::Count
        | Number::Exact
        | Number::Ratio
        | Number::Date
        | Number::Moment
        | Number::Percent
        | Number::State
        | Number::Share
        | Number::BytesOrDash => (None, None),
    };
    let word = match text {
        "none" => none,
        "auto" => auto,
        _ => None,
    };
    if let Some(value) = word {
        return Ok(Parsed::Word(value));
    }
    let number = parse_size(text)?;
    if number == 0 && format == Number::Quota {
        return Err(PropertyError::UseNone);
    }
    Ok(Parsed::Plain(number))
}

/// The word for the stored number of a vdev's state.
const fn state_word(number: u64) -> &'static str {
    match number {
        0 => "UNKNOWN",
        7 => "ONLINE",
        6 => "DEGRADED",
        5 => "FAULTED",
        3 => "REMOVED",
        // Closed, and taken offline.
        1 | 2 => "OFFLINE",
        _ => "UNAVAIL",
    }
}

/// The number as text, in full if `exact`.
fn number_text(format: Number, number: u64, exact: bool) -> String {
    let none = number == 0;
    let all = number == u64::MAX;
    match format {
        Number::Limit if all => "none".to_owned(),
        Number::AutoQuota if all => "auto".to_owned(),
        Number::BytesOrDash if none => "-".to_owned(),
        Number::Percent if all => "-".to_owned(),
        Number::Ratio => ratio(number, exact),
        Number::Share => format!("{number}%"),
        _ if exact => number.to_string(),
        Number::State => state_word(number).to_owned(),
        Number::Quota | Number::Reservation | Number::AutoReservation | Number::AutoQuota
            if none =>
        {
            "none".to_owned()
        }
        Number::Bytes | Number::Quota | Number::Reservation | Number::AutoReservation => {
            human_bytes(number)
        }
        Number::Count | Number::BytesOrDash | Number::AutoQuota | Number::Limit => human(number),
        Number::Exact => number.to_string(),
        Number::Date => crate::date::creation(number),
        Number::Moment => crate::date::moment(number),
        Number::Percent => format!("{number}%"),
    }
}
