//! `zfs program`: runs a channel program in the daemon of its pool.

use std::fs::File;
use std::io::{self, Read};

use admin::changes::Program;
use admin::{Change, Failure, FailureKind, Request, Said};
use base::host_reason;
use serde_json::Value as JsonValue;

#[cfg(test)]
mod tests;

use crate::grammar::{Command, Invocation, Operands, option, switch};
use crate::output::{Outcome, Stop, complain, print, usage};

/// `zfs program`.
pub(super) const COMMAND: Command = Command {
    name: "program",
    aliases: &[],
    summary: "Run a Lua script that changes datasets; no other change comes between. What it did stays if it fails.",
    forms: &["pool script [arguments ...]"],
    flags: &[
        switch("j", "print the result as JSON").or("json"),
        switch("n", "do not let the program change anything"),
        option(
            "t",
            "instruction-limit",
            "end it after so many Lua instructions (10,000,000; at most 100,000,000)",
        ),
        option(
            "m",
            "memory-limit",
            "bytes of memory that it may have (10 MiB; at most 100 MiB)",
        ),
    ],
    operands: Operands::at_least(2, "missing pool or script argument"),
    run: program,
};

/// The longest script.
const SCRIPT_BYTES_MAX: u64 = 1 << 20;
const INSTRUCTIONS_DEFAULT: u64 = 10_000_000;
const MEMORY_BYTES_DEFAULT: u64 = 10 << 20;

fn program(call: &Invocation) -> Outcome {
    let [pool, path, arguments @ ..] = call.operands() else {
        return Err(usage("missing pool or script argument"));
    };
    let limit = |flag: &str, what: &str, default: u64| match call.value(flag) {
        None => Ok(default),
        Some(text) => match admin::parse_size(text) {
            Ok(number) if number != 0 => Ok(number),
            Ok(_) | Err(_) => Err(usage(format!("invalid {what} '{text}'"))),
        },
    };
    let instructions = limit("t", "instruction limit", INSTRUCTIONS_DEFAULT)?;
    let memory_bytes = limit("m", "memory limit", MEMORY_BYTES_DEFAULT)?;
    let mut connection = crate::daemons::pool(pool)?;
    let change = Change::Program(Program {
        script: read(path)?,
        arguments: arguments.to_vec(),
        read_only: call.has("n"),
        instructions,
        memory_bytes,
    });
    let request = Request::Change {
        change,
        command: call.line.clone(),
    };
    let mut result = String::new();
    connection.call(&request, &mut |part| {
        match part.said() {
            Said::Line(line) => result = line,
            Said::Warning(failure) => complain(&failure),
            Said::Notice(text) => complain(&text),
            Said::Answer(_) | Said::Done | Said::Failed(_) => {}
        }
        Ok(())
    })?;
    match call.has("j") {
        true => print(&(result + "\n")),
        false => print(&shown(&result)),
    }
}

/// The text of a script; `-` is the standard input.
fn read(path: &str) -> Result<String, Stop> {
    let cannot = |reason: &dyn std::fmt::Display| {
        Stop::from(Failure::cannot(FailureKind::Invalid, "open", path, reason))
    };
    let mut text = Vec::new();
    let read = match path {
        "-" => io::stdin()
            .lock()
            .take(SCRIPT_BYTES_MAX + 1)
            .read_to_end(&mut text),
        _ => {
            File::open(path).and_then(|file| file.take(SCRIPT_BYTES_MAX + 1).read_to_end(&mut text))
        }
    };
    read.map_err(|error| cannot(&host_reason(&error)))?;
    if text.len() as u64 > SCRIPT_BYTES_MAX {
        return Err(cannot(&"scripts have at most 1 MiB"));
    }
    String::from_utf8(text).map_err(|_| cannot(&"it is not text in UTF-8"))
}

/// The result as people read it.
fn shown(result: &str) -> String {
    let value = serde_json::from_str(result).unwrap_or(JsonValue::Null);
    match value.get("return") {
        None => "Channel program fully executed with no return value.\n".to_owned(),
        Some(value) => {
            let mut out = "Channel program fully executed and produced output:\n".to_owned();
            show("return", value, 4, &mut out);
            out
        }
    }
}

fn show(key: &str, value: &JsonValue, indent: usize, out: &mut String) {
    let text = match value {
        JsonValue::Null => String::new(),
        JsonValue::String(text) => format!(": '{text}'"),
        JsonValue::Bool(_) | JsonValue::Number(_) => format!(": {value}"),
        JsonValue::Object(_) | JsonValue::Array(_) => ":".to_owned(),
    };
    *out += &format!("{:indent$}{key}{text}\n", "");
    for (key, value) in value.as_object().into_iter().flatten() {
        show(key, value, indent + 4, out);
    }
}
