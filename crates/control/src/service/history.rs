//! Records of the pool's history, from their lists to what lists show.

use admin::{HistoryEvent, HistoryRecord};
use format::NvList;
use format::history::keys;
use format::nvlist::Value;

#[cfg(test)]
mod tests;

/// A record; nothing if it is of no known form.
pub(crate) fn record(list: &NvList) -> Option<HistoryRecord> {
    let text = |key: &str| list.str(key).map(str::to_owned);
    let event = if let Some(command) = text(keys::COMMAND) {
        HistoryEvent::Command(command)
    } else if let Some(name) = text(keys::INTERNAL_NAME) {
        HistoryEvent::Internal {
            name,
            txg: list.u64(keys::TXG).unwrap_or(0),
            dataset: text(keys::DATASET_NAME)
                .map(|name| (name, list.u64(keys::DATASET_ID).unwrap_or(0))),
            text: text(keys::INTERNAL_TEXT).unwrap_or_default(),
        }
    } else if let Some(name) = text(keys::REQUEST) {
        HistoryEvent::Call {
            name,
            elapsed_ns: number(list, keys::ELAPSED_NS),
            input: nested(list, keys::REQUEST_INPUT),
            output: nested(list, keys::REQUEST_OUTPUT),
            error: number(list, keys::ERROR).and_then(|error| i64::try_from(error).ok()),
        }
    } else {
        return None;
    };
    Some(HistoryRecord {
        time: list.u64(keys::TIME).unwrap_or(0),
        event,
        user: list.u64(keys::WHO),
        host: text(keys::HOST),
        zone: text(keys::ZONE),
    })
}

/// A value of a list, as far as records have such.
enum Shown<'a> {
    Present,
    Number(i128),
    Flag(bool),
    Text(&'a [u8]),
    List(&'a NvList),
    Lists(&'a [NvList]),
    /// Of a type that no record is known to have.
    Other(&'a Value),
}

impl<'a> From<&'a Value> for Shown<'a> {
    fn from(value: &'a Value) -> Self {
        match value {
            Value::Boolean => Self::Present,
            Value::Uint64(number) => Self::Number((*number).into()),
            Value::Int64(number) => Self::Number((*number).into()),
            Value::Int32(number) => Self::Number((*number).into()),
            Value::BooleanValue(flag) => Self::Flag(*flag),
            Value::String(text) => Self::Text(text),
            Value::List(inner) => Self::List(inner),
            Value::ListArray(all) => Self::Lists(all),
            Value::Byte(_)
            | Value::Int16(_)
            | Value::Uint16(_)
            | Value::Uint32(_)
            | Value::HighResolutionTime(_)
            | Value::Int8(_)
            | Value::Uint8(_)
            | Value::ByteArray(_)
            | Value::Int8Array(_)
            | Value::Uint8Array(_)
            | Value::Int16Array(_)
            | Value::Uint16Array(_)
            | Value::Int32Array(_)
            | Value::Uint32Array(_)
            | Value::Int64Array(_)
            | Value::Uint64Array(_)
            | Value::BooleanArray(_)
            | Value::StringArray(_) => Self::Other(value),
        }
    }
}

fn number(list: &NvList, key: &str) -> Option<u64> {
    match Shown::from(list.get(key)?) {
        Shown::Number(number) => u64::try_from(number).ok(),
        Shown::Present
        | Shown::Flag(_)
        | Shown::Text(_)
        | Shown::List(_)
        | Shown::Lists(_)
        | Shown::Other(_) => None,
    }
}

fn nested(list: &NvList, key: &str) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(list) = list.list(key) {
        describe(list, 0, &mut lines);
    }
    lines
}

/// The pairs of a list, one a line, nested ones indented by four.
fn describe(list: &NvList, indent: usize, lines: &mut Vec<String>) {
    let pad = " ".repeat(indent);
    for (name, value) in list.iter() {
        let name = String::from_utf8_lossy(name);
        match Shown::from(value) {
            Shown::Present => lines.push(format!("{pad}{name}")),
            Shown::Number(number) => lines.push(format!("{pad}{name}: {number}")),
            Shown::Flag(flag) => lines.push(format!("{pad}{name}: {flag}")),
            Shown::Text(text) => {
                lines.push(format!("{pad}{name}: '{}'", String::from_utf8_lossy(text)));
            }
            Shown::List(inner) => {
                lines.push(format!("{pad}{name}:"));
                describe(inner, indent + 4, lines);
            }
            Shown::Lists(all) => {
                for (at, inner) in all.iter().enumerate() {
                    lines.push(format!("{pad}{name}[{at}]:"));
                    describe(inner, indent + 4, lines);
                }
            }
            Shown::Other(value) => lines.push(format!("{pad}{name}: {value:?}")),
        }
    }
}
