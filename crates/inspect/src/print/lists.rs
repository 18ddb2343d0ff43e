//! Name-value lists, indented.

use std::io::{self, Write};

use format::nvlist::{NvList, Value};

/// Prints a list, each level four columns deeper.
pub(crate) fn print_list(out: &mut dyn Write, list: &NvList, indent: usize) -> io::Result<()> {
    for (name, value) in list.iter() {
        let name = String::from_utf8_lossy(name);
        print_value(out, &name, value, indent)?;
    }
    Ok(())
}

fn print_value(out: &mut dyn Write, name: &str, value: &Value, indent: usize) -> io::Result<()> {
    let one = |out: &mut dyn Write, text: String| writeln!(out, "{:indent$}{name}: {text}", "");
    match value {
        Value::Boolean => writeln!(out, "{:indent$}{name}", ""),
        Value::BooleanValue(value) => one(out, value.to_string()),
        Value::Byte(value) | Value::Uint8(value) => one(out, value.to_string()),
        Value::Int8(value) => one(out, value.to_string()),
        Value::Int16(value) => one(out, value.to_string()),
        Value::Uint16(value) => one(out, value.to_string()),
        Value::Int32(value) => one(out, value.to_string()),
        Value::Uint32(value) => one(out, value.to_string()),
        Value::Int64(value) | Value::HighResolutionTime(value) => one(out, value.to_string()),
        Value::Uint64(value) => one(out, value.to_string()),
        Value::String(text) => one(out, format!("'{}'", String::from_utf8_lossy(text))),
        Value::List(list) => {
            writeln!(out, "{:indent$}{name}:", "")?;
            print_list(out, list, indent.saturating_add(4))
        }
        Value::ListArray(lists) => {
            for (index, list) in lists.iter().enumerate() {
                writeln!(out, "{:indent$}{name}[{index}]:", "")?;
                print_list(out, list, indent.saturating_add(4))?;
            }
            Ok(())
        }
        Value::StringArray(texts) => {
            let texts = texts
                .iter()
                .map(|text| format!("'{}'", String::from_utf8_lossy(text)));
            print_array(out, name, texts, indent)
        }
        Value::BooleanArray(values) => print_array(out, name, values.iter(), indent),
        Value::ByteArray(values) | Value::Uint8Array(values) => {
            print_array(out, name, values.iter(), indent)
        }
        Value::Int8Array(values) => print_array(out, name, values.iter(), indent),
        Value::Int16Array(values) => print_array(out, name, values.iter(), indent),
        Value::Uint16Array(values) => print_array(out, name, values.iter(), indent),
        Value::Int32Array(values) => print_array(out, name, values.iter(), indent),
        Value::Uint32Array(values) => print_array(out, name, values.iter(), indent),
        Value::Int64Array(values) => print_array(out, name, values.iter(), indent),
        Value::Uint64Array(values) => print_array(out, name, values.iter(), indent),
    }
}

fn print_array<T: std::fmt::Display>(
    out: &mut dyn Write,
    name: &str,
    values: impl Iterator<Item = T>,
    indent: usize,
) -> io::Result<()> {
    for (index, value) in values.enumerate() {
        writeln!(out, "{:indent$}{name}[{index}]: {value}", "")?;
    }
    Ok(())
}
