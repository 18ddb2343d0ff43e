//! Records by their declarations: a line for each field, with the name that OpenZFS has for it.

use std::io::Write;

use format::record::{Field, Shown};

use crate::error::Result;
use crate::print::{Numbers, calendar};

/// How a value is printed that is not just a number or a block pointer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// As it is.
    Plain,
    /// Bytes, for people.
    Space,
    /// Seconds since 1970.
    Time,
    /// Flags.
    Hex,
    /// An array of bytes for people, a line each, with these names.
    Parts(&'static [&'static str]),
}

/// A record's fields with their values.
pub(super) type Values = Vec<(&'static Field, Shown)>;

/// Prints `values`, whose names in OpenZFS start with `prefix`: `line` gives the name to print for such a name without
/// its prefix, and how the value is printed.
pub(super) fn print_fields(
    out: &mut dyn Write,
    values: &Values,
    prefix: &str,
    numbers: Numbers,
    line: fn(&'static str) -> (&'static str, Form),
) -> Result<()> {
    for (field, value) in values {
        let usual = field.usual.strip_prefix(prefix).unwrap_or(field.name);
        let (name, form) = line(usual);
        match (form, value) {
            (Form::Space, Shown::Number(bytes)) => {
                writeln!(out, "\t\t{name} = {}", numbers.show(*bytes))?;
            }
            (Form::Time, Shown::Number(seconds)) => {
                writeln!(out, "\t\t{name} = {}", calendar(*seconds))?;
            }
            (Form::Hex, Shown::Number(flags)) => writeln!(out, "\t\t{name} = {flags:x}")?,
            (Form::Parts(parts), Shown::List(values)) => {
                for (part, value) in parts.iter().zip(values) {
                    let shown = match value {
                        Shown::Number(bytes) => numbers.show(*bytes),
                        Shown::Signed(_) | Shown::Text(_) | Shown::List(_) | Shown::Record(_) => {
                            value.to_string()
                        }
                    };
                    writeln!(out, "\t\t{name}[{part}] = {shown}")?;
                }
            }
            (Form::Plain | Form::Space | Form::Time | Form::Hex | Form::Parts(_), value) => {
                writeln!(out, "\t\t{name} = {value}")?;
            }
        }
    }
    Ok(())
}
