//! Why a value is refused, and the checks that are not a matter of its kind.

use dsl::property::{Range, TextRule};
use thiserror::Error;

use crate::number::NumberError;

/// Why a property or its value is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PropertyError {
    /// No such property.
    #[error("invalid property '{0}'")]
    Unknown(String),
    /// It is measured, not set.
    #[error("'{0}' is readonly")]
    ReadOnly(String),
    /// It is fixed when the object is made.
    #[error("'{0}' is readonly")]
    AtCreation(String),
    /// This kind of dataset has no such property.
    #[error("'{0}' does not apply to datasets of this type")]
    OtherType(String),
    /// Not one of the words.
    #[error("'{property}' must be one of '{words}'")]
    NotOneOf {
        /// The property.
        property: &'static str,
        /// The words, with bars between them.
        words: String,
    },
    /// Not a number.
    #[error(transparent)]
    Number(#[from] NumberError),
    /// Not a power of two in the range.
    #[error("'{property}' must be power of 2 from {range}")]
    PowerOfTwo {
        /// The property.
        property: &'static str,
        /// The range, as text.
        range: &'static str,
    },
    /// Not a size of blocks.
    #[error(
        "invalid 'special_small_blocks={0}' property: must be zero or a power of 2 from 512B to 16M"
    )]
    SmallBlocks(u64),
    /// Outside the range.
    #[error("'{property}' must be {range}")]
    Range {
        /// The property.
        property: &'static str,
        /// The range, as text.
        range: String,
    },
    /// A quota of 0.
    #[error("use 'none' to disable quota/refquota")]
    UseNone,
    /// A mount point that is no absolute path.
    #[error("'{0}' must be an absolute path, 'none', or 'legacy'")]
    NotAPath(&'static str),
    /// A path that is not absolute.
    #[error("'{0}' must be an absolute path")]
    NotAbsolute(&'static str),
    /// Longer than may be stored.
    #[error("property value too long")]
    TooLong,
    /// A user property's name longer than may be stored.
    #[error("property name '{0}' is too long")]
    NameTooLong(String),
    /// A comment with control characters.
    #[error("comment may only have printable characters")]
    Unprintable,
    /// A comment beyond its limit.
    #[error("comment must not exceed 32 characters")]
    CommentTooLong,
    /// A feature state that cannot be set.
    #[error("property 'feature@{0}' can only be set to 'enabled' or 'disabled'")]
    FeatureState(String),
    /// The same property twice.
    #[error("property '{0}' specified multiple times")]
    Twice(String),
    /// Something other than NAME=VALUE.
    #[error("missing '=' for property=value argument")]
    NoEquals,
}

/// The longest value of any text property, its terminator included.
const VALUE_LENGTH_MAX: usize = 8192;
/// The longest name of a user property, its terminator included.
const USER_NAME_LENGTH_MAX: usize = 256;

/// Checks the name of a user property (`module:name`).
pub fn check_user_property(name: &str) -> Result<(), PropertyError> {
    let allowed = |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.' | ':')
    };
    if !name.contains(':') || !name.chars().all(allowed) {
        return Err(PropertyError::Unknown(name.to_owned()));
    }
    if name.len() >= USER_NAME_LENGTH_MAX {
        return Err(PropertyError::NameTooLong(name.to_owned()));
    }
    Ok(())
}

/// Checks the value of a text property of the tables.
pub(super) fn check_text(
    property: &'static str,
    rule: TextRule,
    text: &str,
) -> Result<(), PropertyError> {
    if text.len() >= VALUE_LENGTH_MAX {
        return Err(PropertyError::TooLong);
    }
    let absolute = text.starts_with('/');
    match rule {
        TextRule::MountPoint if !matches!(text, "none" | "legacy") && !absolute => {
            Err(PropertyError::NotAPath(property))
        }
        TextRule::AbsolutePath if !absolute => Err(PropertyError::NotAbsolute(property)),
        TextRule::FileOrNone if !matches!(text, "" | "none") && !absolute => {
            Err(PropertyError::NotAbsolute(property))
        }
        TextRule::Comment if text.chars().any(|c| !(' '..='~').contains(&c)) => {
            Err(PropertyError::Unprintable)
        }
        TextRule::Comment if text.len() > 32 => Err(PropertyError::CommentTooLong),
        TextRule::Any
        | TextRule::MountPoint
        | TextRule::AbsolutePath
        | TextRule::FileOrNone
        | TextRule::Comment => Ok(()),
    }
}

/// Why a number outside its range is refused.
pub(super) fn out_of_range(property: &'static str, range: Range, number: u64) -> PropertyError {
    let text = match range {
        Range::BlockSize => {
            let range = "512B to 16M";
            return PropertyError::PowerOfTwo { property, range };
        }
        Range::BlockSizeOrZero => return PropertyError::SmallBlocks(number),
        Range::ZeroOrWithin(from, to) => format!("0 or between {from} and {to}"),
        Range::AtLeast(min) => format!("at least {min}"),
        Range::Any => "a number".to_owned(),
    };
    let range = text;
    PropertyError::Range { property, range }
}
