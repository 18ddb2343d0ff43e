//! The types that values of properties are read as.

use super::PropertyValue;
use super::facts::{Default, Word};

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
    const WORDS: &'static [Word] = super::words::SWITCH;

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

/// Declares an enumerated property's type: each value with its stored number and its words, the
/// one that is shown first. The first value is the one of numbers that are none of these, where
/// the property has no default.
macro_rules! enumerated {
    ($($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$value_doc:meta])* $value:ident = $number:literal: $($word:literal)|+,)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$value_doc])* $value = $number,)*
        }

        impl $name {
            /// The number that is stored for it.
            #[must_use]
            pub const fn stored(self) -> u64 {
                self as u64
            }

            const fn all() -> &'static [Self] {
                &[$(Self::$value),*]
            }

            /// The row of a property of this type that anybody may set and children inherit.
            pub(in crate::property) const fn row(
                name: &'static str,
                column: &'static str,
                default: Self,
            ) -> $crate::property::row::Row {
                $crate::property::table::index(
                    name,
                    column,
                    <Self as $crate::property::PropertyType>::WORDS,
                    default.stored(),
                )
            }
        }

        impl $crate::property::PropertyType for $name {
            const SHAPE: $crate::property::Shape = $crate::property::Shape::Index;
            const WORDS: &'static [$crate::property::Word] = &[$($(($word, $number),)+)*];

            fn from_stored(value: &$crate::property::PropertyValue) -> Option<Self> {
                let number = value.number()?;
                let found = Self::all().iter().find(|one| one.stored() == number);
                found.copied()
            }

            fn nothing() -> Self {
                Self::all()[0]
            }
        }
    )* };
}

pub(super) use enumerated;
