//! What a property is: one table a kind of object, which parses, checks, prints and lists.
//!
//! Invariant: the order of a table is the order of `get all`. Values travel as stored numbers or
//! text ([`Value`]); only here do they become what a person reads. No I/O.

mod dataset;
mod index;
mod pool;
mod text;
mod vdev;

#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::number::{human, human_bytes, parse_size, ratio};

pub use dataset::DATASET_PROPERTIES;
pub use pool::POOL_PROPERTIES;
pub use text::{PropertyError, check_user_property};
pub use vdev::VDEV_PROPERTIES;

/// Kinds of dataset, as a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Types(pub u8);

impl Types {
    /// No kind at all.
    pub const NONE: Self = Self(0);
    /// File systems.
    pub const FILESYSTEM: Self = Self(1);
    /// Volumes.
    pub const VOLUME: Self = Self(2);
    /// Snapshots.
    pub const SNAPSHOT: Self = Self(4);
    /// Bookmarks.
    pub const BOOKMARK: Self = Self(8);
    /// File systems and volumes.
    pub const HEADS: Self = Self(3);
    /// Everything.
    pub const ALL: Self = Self(15);

    /// Both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if the sets share a kind.
    #[must_use]
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The kind that a word of `-t` names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "filesystem" | "fs" => Self::FILESYSTEM,
            "volume" | "vol" => Self::VOLUME,
            "snapshot" | "snap" => Self::SNAPSHOT,
            "bookmark" => Self::BOOKMARK,
            "all" => Self::ALL,
            _ => return None,
        })
    }

    /// The word for a single kind, as the `type` property shows it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FILESYSTEM => "filesystem",
            Self::VOLUME => "volume",
            Self::SNAPSHOT => "snapshot",
            Self::BOOKMARK => "bookmark",
            _ => "dataset",
        }
    }
}

/// How a number is shown and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Bytes: `24K`, `0B`.
    Bytes,
    /// Bytes in the style of pool properties: `24K`, `0`.
    Count,
    /// Always in full.
    Exact,
    /// Hundredths: `1.69x`.
    Ratio,
    /// Seconds since 1970, shown to the minute.
    Date,
    /// Seconds since 1970, shown to the second.
    Moment,
    /// Bytes, 0 meaning `none`.
    Quota,
    /// A count, all ones meaning `none`.
    Limit,
    /// `13%`; all ones means unknown.
    Percent,
    /// The state of a vdev: a word, in full a number.
    State,
    /// `13%`, in full as well.
    Share,
    /// Bytes, shown as `-` when 0.
    BytesOrDash,
    /// Bytes, or `auto` (all ones), or `none` (0).
    AutoQuota,
}

/// What values a property has.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A number.
    Number(Number),
    /// One of a list of words; the first word of a number is the one shown.
    Index(&'static [(&'static str, u64)]),
    /// Text.
    Text,
}

/// Who may give a property its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody: it is measured.
    ReadOnly,
    /// At any time.
    Settable,
    /// Only when the object is made.
    AtCreation,
}

/// What a property is when nobody has set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// Nothing: shown as `-` or left out.
    Nothing,
    /// A stored number.
    Number(u64),
    /// Text.
    Text(&'static str),
}

/// A row of a property table.
#[derive(Debug)]
pub struct Property {
    /// The name.
    pub name: &'static str,
    /// The header of its column; in lower case also accepted as a name.
    pub column: &'static str,
    /// What values it has.
    pub kind: Kind,
    /// Who sets it.
    pub access: Access,
    /// True if children have their parent's value.
    pub inherits: bool,
    /// The value when nobody has set it.
    pub default: Default,
    /// What may be written, for usage texts.
    pub values: &'static str,
    /// The kinds of dataset that have it (pools: all).
    pub types: Types,
    /// False for names that only lists ask for, not `get all`.
    pub visible: bool,
}

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
    Native(&'static Property),
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

fn find(table: &'static [Property], name: &str) -> Option<PropertyName> {
    if let Some(property) = table.iter().find(|p| p.name == name) {
        return Some(PropertyName::Native(property));
    }
    if name.contains(':') {
        return check_user_property(name)
            .ok()
            .map(|()| PropertyName::User(name.to_owned()));
    }
    let wanted = name.to_ascii_uppercase();
    let lower = name.bytes().all(|byte| !byte.is_ascii_uppercase());
    table
        .iter()
        .find(|p| lower && p.column == wanted)
        .map(PropertyName::Native)
}

/// The row of a dataset property that exists by construction of the callers' names.
#[must_use]
pub fn dataset_property(name: &str) -> Option<&'static Property> {
    DATASET_PROPERTIES
        .iter()
        .find(|property| property.name == name)
}

/// The row of a pool property.
#[must_use]
pub fn pool_property(name: &str) -> Option<&'static Property> {
    POOL_PROPERTIES
        .iter()
        .find(|property| property.name == name)
}

/// The row of a vdev property.
#[must_use]
pub fn vdev_property(name: &str) -> Option<&'static Property> {
    VDEV_PROPERTIES
        .iter()
        .find(|property| property.name == name)
}

/// Finds a vdev property by its name.
#[must_use]
pub fn find_vdev_property(name: &str) -> Option<PropertyName> {
    find(VDEV_PROPERTIES, name)
}

impl Property {
    /// The value when nobody has set it.
    #[must_use]
    pub fn default_value(&self) -> Value {
        match self.default {
            Default::Nothing => Value::Absent,
            Default::Number(number) => Value::Number(number),
            Default::Text(text) => Value::Text(text.to_owned()),
        }
    }

    /// True if lists right-align it.
    #[must_use]
    pub const fn right_aligned(&self) -> bool {
        match self.kind {
            Kind::Number(format) => !matches!(format, Number::Date | Number::Moment),
            Kind::Index(_) => false,
            // The one state that lists align as if it were a number.
            Kind::Text => matches!(self.name.as_bytes(), b"health"),
        }
    }

    /// The value as text, in full if `exact`.
    #[must_use]
    pub fn format(&self, value: &Value, exact: bool) -> String {
        match (value, self.kind) {
            (Value::Absent, _) => "-".to_owned(),
            (Value::Text(text), _) => text.clone(),
            (Value::Number(number), Kind::Number(format)) => format.text(*number, exact),
            (Value::Number(number), Kind::Index(words)) => words
                .iter()
                .find(|(_, stored)| stored == number)
                .map_or_else(|| number.to_string(), |(word, _)| (*word).to_owned()),
            (Value::Number(number), Kind::Text) => number.to_string(),
        }
    }

    /// Reads what a person wrote.
    pub fn parse(&self, text: &str) -> Result<Value, PropertyError> {
        match self.kind {
            Kind::Index(words) => words
                .iter()
                .find(|(word, _)| *word == text)
                .map(|(_, stored)| Value::Number(*stored))
                .ok_or_else(|| PropertyError::NotOneOf {
                    property: self.name,
                    words: self.words(words),
                }),
            Kind::Number(format) => self.parse_number(format, text),
            Kind::Text => {
                text::check_text(self.name, text)?;
                Ok(Value::Text(text.to_owned()))
            }
        }
    }

    /// What may be written, as people are told.
    fn words(&self, words: &[(&str, u64)]) -> String {
        if !self.values.is_empty() {
            return self.values.to_owned();
        }
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        words.join(" | ")
    }

    fn parse_number(&self, format: Number, text: &str) -> Result<Value, PropertyError> {
        let none = text == "none";
        match format {
            Number::Quota if none => return Ok(Value::Number(0)),
            Number::Quota if self.name == "refreservation" && text == "auto" => {
                return Ok(Value::Text("auto".to_owned()));
            }
            Number::Limit if none => return Ok(Value::Number(u64::MAX)),
            Number::AutoQuota if none => return Ok(Value::Number(0)),
            Number::AutoQuota if text == "auto" => return Ok(Value::Number(u64::MAX)),
            _ => {}
        }
        let number = parse_size(text)?;
        if number == 0 && matches!(self.name, "quota" | "refquota") {
            return Err(PropertyError::UseNone);
        }
        text::check_range(self.name, number)?;
        Ok(Value::Number(number))
    }
}

/// The word for the stored number of a vdev's state.
const fn state_word(number: u64) -> &'static str {
    match number {
        7 => "ONLINE",
        6 => "DEGRADED",
        5 => "FAULTED",
        3 => "REMOVED",
        2 => "OFFLINE",
        _ => "UNAVAIL",
    }
}

impl Number {
    /// The number as text, in full if `exact`.
    #[must_use]
    pub fn text(self, number: u64, exact: bool) -> String {
        match self {
            Self::Limit if number == u64::MAX => "none".to_owned(),
            Self::AutoQuota if number == u64::MAX => "auto".to_owned(),
            Self::BytesOrDash if number == 0 => "-".to_owned(),
            Self::Percent if number == u64::MAX => "-".to_owned(),
            Self::Ratio => ratio(number, exact),
            Self::Share => format!("{number}%"),
            _ if exact => number.to_string(),
            Self::State => state_word(number).to_owned(),
            Self::Quota | Self::AutoQuota if number == 0 => "none".to_owned(),
            Self::Bytes | Self::Quota => human_bytes(number),
            Self::Count | Self::BytesOrDash | Self::AutoQuota | Self::Limit => human(number),
            Self::Exact => number.to_string(),
            Self::Date => crate::date::creation(number),
            Self::Moment => crate::date::moment(number),
            Self::Percent => format!("{number}%"),
        }
    }
}
