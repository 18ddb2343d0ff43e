//! Events of a pool as they travel, and as `zpool events` shows them.

use serde::{Deserialize, Serialize};

use crate::date;

#[cfg(test)]
mod tests;

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

impl EventRecord {
    pub(crate) fn new(event: pool::Event) -> Self {
        Self {
            id: event.id,
            time_ns: event.time_ns,
            class: event.class,
            fields: fields(event.fields),
        }
    }
}

fn fields(all: Vec<(&'static str, pool::EventValue)>) -> Vec<EventField> {
    let field = |(name, value): (&str, pool::EventValue)| EventField {
        name: name.to_owned(),
        value: match value {
            pool::EventValue::Number(number) => EventValue::Number(number),
            pool::EventValue::Named(name, number) => EventValue::Named(name.to_owned(), number),
            pool::EventValue::Time(seconds, ns) => EventValue::Time(seconds, ns),
            pool::EventValue::Text(text) => EventValue::Text(text),
            pool::EventValue::List(inner) => EventValue::List(fields(inner)),
        },
    };
    all.into_iter().map(field).collect()
}

/// The line above events.
pub const EVENTS_HEADER: &str = "TIME                           CLASS\n";

/// Events, each a line, or with all particulars under it (`verbose`); with a tab between the
/// columns for scripts.
#[must_use]
pub fn events(records: &[EventRecord], scripted: bool, verbose: bool) -> String {
    let separator = if scripted { '\t' } else { ' ' };
    let mut out = String::new();
    for record in records {
        let time = date::event(record.time_ns);
        out += &format!("{time}{separator}{}\n", record.class);
        if verbose {
            describe(&mut out, &record.fields, 8);
            out.push('\n');
        }
    }
    out
}

fn describe(out: &mut String, fields: &[EventField], indent: usize) {
    let pad = " ".repeat(indent);
    for EventField { name, value } in fields {
        match value {
            EventValue::Number(number) => *out += &format!("{pad}{name} = {number:#x}\n"),
            EventValue::Named(word, number) => {
                *out += &format!("{pad}{name} = \"{word}\" ({number:#x})\n");
            }
            EventValue::Time(seconds, ns) => {
                *out += &format!("{pad}{name} = {seconds:#x} {ns:#x} \n");
            }
            EventValue::Text(text) => *out += &format!("{pad}{name} = \"{text}\"\n"),
            EventValue::List(inner) => {
                *out += &format!("{pad}{name} = (embedded nvlist)\n");
                describe(out, inner, indent + 8);
                *out += &format!("{pad}(end {name})\n");
            }
        }
    }
}
