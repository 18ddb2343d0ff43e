//! `zpool history` and `zfs holds`.

use admin::{HistoryEvent, HistoryRecord, HoldRecord, date};

use super::Style;
use super::table::Column;

/// The records of one pool under their head line, with an empty line at the end.
#[must_use]
pub(crate) fn history(pool: &str, records: &[HistoryRecord], internal: bool, long: bool) -> String {
    let mut out = format!("History for '{pool}':\n");
    for record in records {
        line(&mut out, record, internal, long);
    }
    out.push('\n');
    out
}

fn line(out: &mut String, record: &HistoryRecord, internal: bool, long: bool) {
    let time = date::history(record.time);
    match &record.event {
        HistoryEvent::Command(command) => *out += &format!("{time} {command}"),
        HistoryEvent::Internal {
            name,
            txg,
            dataset,
            text,
        } if internal => {
            *out += &format!("{time} [txg:{txg}] {name}");
            if let Some((dataset, object)) = dataset {
                *out += &format!(" {dataset} ({object})");
            }
            *out += &format!(" {text}");
        }
        HistoryEvent::Call {
            name, elapsed_ns, ..
        } if internal => {
            *out += &time;
            if let Some(elapsed) = elapsed_ns {
                *out += &format!(" ({}ms)", elapsed / 1_000_000);
            }
            *out += &format!(" ioctl {name}");
        }
        HistoryEvent::Internal { .. } | HistoryEvent::Call { .. } => return,
    }
    if long {
        who(out, record);
    }
    out.push('\n');
    if let HistoryEvent::Call {
        input,
        output,
        error,
        ..
    } = &record.event
    {
        for (head, body) in [("input", input), ("output", output)] {
            if !body.is_empty() {
                *out += &format!("    {head}:\n");
                for entry in body {
                    *out += &format!("        {entry}\n");
                }
            }
        }
        if let Some(error) = error {
            *out += &format!("    errno: {error}\n");
        }
    }
}

fn who(out: &mut String, record: &HistoryRecord) {
    let mut parts = Vec::new();
    if let Some(user) = record.user {
        let name = if user == 0 { " (root)" } else { "" };
        parts.push(format!("user {user}{name}"));
    }
    if let Some(host) = &record.host {
        let zone = record
            .zone
            .as_deref()
            .map_or_else(String::new, |zone| format!(":{zone}"));
        parts.push(format!("on {host}{zone}"));
    }
    if !parts.is_empty() {
        *out += &format!(" [{}]", parts.join(" "));
    }
}

/// Holds: name, tag, time.
#[must_use]
pub(crate) fn holds(records: &[HoldRecord], style: Style) -> String {
    let columns = [
        Column::left("NAME"),
        Column::left("TAG"),
        Column::left("TIMESTAMP"),
    ];
    let rows: Vec<Vec<String>> = records
        .iter()
        .map(|record| {
            let time = if style.exact {
                record.time.to_string()
            } else {
                date::hold(record.time)
            };
            vec![record.snapshot.clone(), record.tag.clone(), time]
        })
        .collect();
    style.table(&columns, &rows)
}
