//! Events of a pool as they travel.

use serde::{Deserialize, Serialize};

/// Something that happened to a pool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventRecord {
    /// Its number, from 1 on, since the pool was imported.
    pub id: u64,
    /// When: nanoseconds since 1970.
    pub time_ns: u64,
    /// What, as `sysevent.fs.zfs.pool_import`.
    pub class: String,
    /// The particulars.
    pub fields: Vec<EventField>,
}

/// A particular of an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventField {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: EventValue,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventValue {
    /// A number.
    Number(u64),
    /// A number with its name.
    Named(String, u64),
    /// A moment: seconds since 1970, and nanoseconds.
    Time(u64, u64),
    /// A text.
    Text(String),
    /// Fields of its own.
    List(Vec<EventField>),
}
