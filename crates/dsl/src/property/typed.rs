//! The types that values of properties are read as.

use super::facts::{Default, Word};
use super::value::PropertyValue;

/// `off` and `on`.
pub(super) const SWITCH: &[Word] = &[("on", 1), ("off", 0)];

/// What kind of value a type is read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// A number.
    Number,
    /// One of a list of words, stored as its number.
    Index,
    /// Text.
    Text,
}

impl Shape {
    /// Whether values of this shape can be read as a type of the other: a word also as its number.
    pub(super) const fn holds(self, other: Self) -> bool {
        matches!(
            (self, other),
            (Self::Number | Self::Index, Self::Number)
                | (Self::Index, Self::Index)
                | (Self::Text, Self::Text)
        )
    }
}

/// A type of values.
pub trait PropertyType: Sized + 'static {
    /// What it is read from.
    const SHAPE: Shape;
    /// The words of an index.
    const WORDS: &'static [Word] = &[];

    /// The value, if it is stored as this.
    fn from_stored(value: &PropertyValue) -> Option<Self>;

    /// The value when nothing is stored that can be read, and there is no such default either.
    fn nothing() -> Self;

    /// The value when nothing is stored.
    #[must_use]
    fn from_default(default: Default) -> Self {
        let value = match default {
            Default::Nothing => None,
            Default::Number(number) => Self::from_stored(&PropertyValue::Number(number)),
            Default::Text(text) => Self::from_stored(&PropertyValue::Text(text.to_owned())),
        };
        value.unwrap_or_else(Self::nothing)
    }
}

impl PropertyType for u64 {
    const SHAPE: Shape = Shape::Number;

    fn from_stored(value: &PropertyValue) -> Option<Self> {
        value.number()
    }

    fn nothing() -> Self {
        0
    }
}

impl PropertyType for bool {
    const SHAPE: Shape = Shape::Index;
    const WORDS: &'static [Word] = SWITCH;

    fn from_stored(value: &PropertyValue) -> Option<Self> {
        value.number().map(|number| number != 0)
    }

    fn nothing() -> Self {
        false
    }
}

impl PropertyType for String {
    const SHAPE: Shape = Shape::Text;

    fn from_stored(value: &PropertyValue) -> Option<Self> {
        match value {
            PropertyValue::Text(text) => Some(text.clone()),
            PropertyValue::Number(_) => None,
        }
    }

    fn nothing() -> Self {
        Self::new()
    }
}
