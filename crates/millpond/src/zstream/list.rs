//! Lists of names and values as `zstream` prints them.

use std::fmt::{LowerHex, Write};

use format::NvList;
use format::nvlist::Value;

/// A list, so many tabs in.
pub(super) fn text(list: &NvList, depth: usize) -> String {
    let mut out = String::new();
    put(&mut out, list, depth);
    out
}

fn put(out: &mut String, list: &NvList, depth: usize) {
    let pad = "\t".repeat(depth);
    // Text takes all that is written to it.
    let _ = writeln!(out, "{pad}nvlist version: 0");
    for (name, value) in list.iter() {
        let name = String::from_utf8_lossy(name);
        if let Value::List(inner) = value {
            let _ = writeln!(out, "{pad}\t{name} = (embedded nvlist)");
            put(out, inner, depth + 1);
            let _ = writeln!(out, "{pad}\t(end {name})\n");
        } else if let Value::ListArray(inner) = value {
            let _ = writeln!(out, "{pad}\t{name} = (array of embedded nvlists)");
            for (index, inner) in inner.iter().enumerate() {
                let _ = writeln!(out, "{pad}\t(start {name}[{index}])");
                put(out, inner, depth + 1);
                let _ = writeln!(out, "{pad}\t(end {name}[{index}])\n");
            }
        } else {
            let _ = writeln!(out, "{pad}\t{name} = {}", plain(value));
        }
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Boolean => "1".to_owned(),
        Value::BooleanValue(value) => u8::from(*value).to_string(),
        Value::Byte(value) | Value::Uint8(value) => format!("{value:#x}"),
        Value::Int8(value) => value.to_string(),
        Value::Int16(value) => value.to_string(),
        Value::Int32(value) => value.to_string(),
        Value::Int64(value) | Value::HighResolutionTime(value) => value.to_string(),
        Value::Uint16(value) => format!("{value:#x}"),
        Value::Uint32(value) => format!("{value:#x}"),
        Value::Uint64(value) => format!("{value:#x}"),
        Value::String(text) => String::from_utf8_lossy(text).into_owned(),
        Value::ByteArray(all) | Value::Uint8Array(all) => hex(all),
        Value::Int8Array(all) => hex(all),
        Value::Int16Array(all) => hex(all),
        Value::Uint16Array(all) => hex(all),
        Value::Int32Array(all) => hex(all),
        Value::Uint32Array(all) => hex(all),
        Value::Int64Array(all) => hex(all),
        Value::Uint64Array(all) => hex(all),
        Value::BooleanArray(all) => {
            let all: Vec<u8> = all.iter().copied().map(u8::from).collect();
            hex(&all)
        }
        Value::StringArray(all) => {
            let all = all.iter().map(|text| String::from_utf8_lossy(text));
            all.collect::<Vec<_>>().join(" ")
        }
        // Told by whom asks.
        Value::List(_) | Value::ListArray(_) => String::new(),
    }
}

fn hex<T: LowerHex>(all: &[T]) -> String {
    let all: Vec<String> = all.iter().map(|one| format!("{one:#x}")).collect();
    all.join(" ")
}
