//! Events of the pool as they travel.

use admin::{EventField, EventRecord, EventValue};

/// An event of the pool, as it travels.
pub(super) fn record(event: pool::Event) -> EventRecord {
    EventRecord {
        id: event.id,
        time_ns: event.time_ns,
        class: event.class,
        fields: fields(event.fields),
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
