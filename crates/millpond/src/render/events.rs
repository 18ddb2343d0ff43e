//! `zpool events`: each event a line, or with its particulars.

use admin::{EventField, EventRecord, EventValue, date};

#[cfg(test)]
mod tests;

/// The line above events.
pub(crate) const EVENTS_HEADER: &str = "TIME                           CLASS\n";

/// Events, each a line, or with all particulars under it (`verbose`); with a tab between the
/// columns for scripts.
#[must_use]
pub(crate) fn events(records: &[EventRecord], scripted: bool, verbose: bool) -> String {
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
