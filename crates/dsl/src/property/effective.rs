//! Effective values, and where they come from.

use super::row::Row;
use super::typed::PropertyType;
use super::value::PropertyValue;

/// Where an effective value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Set here.
    Local,
    /// Received here in a stream.
    Received,
    /// Set or received at a dataset above.
    Inherited(String),
}

/// An effective value and where it comes from. Without one, the default holds.
pub type Effective = Option<(PropertyValue, Source)>;

/// A typed value and where it comes from: nowhere, when it is the default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got<T> {
    /// The effective value.
    pub value: T,
    /// Who has set it.
    pub source: Option<Source>,
}

impl<T: PropertyType> Got<T> {
    /// What is stored, read as the row's type; the default where that cannot be.
    #[must_use]
    pub fn of(effective: Effective, row: &Row) -> Self {
        match effective {
            None => Self {
                value: T::from_default(row.default),
                source: None,
            },
            Some((value, source)) => Self {
                value: T::from_stored(&value).unwrap_or_else(|| T::from_default(row.default)),
                source: Some(source),
            },
        }
    }
}
