//! Values of properties, as they are stored.

use format::zap::Value;

/// The value of a property as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PropertyValue {
    /// A number, a boolean or an index.
    Number(u64),
    /// A text.
    Text(String),
}

impl PropertyValue {
    pub(super) fn from_stored(value: &Value) -> Option<Self> {
        match value.as_word() {
            Some(word) => Some(Self::Number(word)),
            None => value.as_text().map(|text| Self::Text(text.to_owned())),
        }
    }

    pub(super) fn to_stored(&self) -> Value {
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
