//! Running channel programs.

mod actions;
mod questions;

use admin::changes::Program;
use admin::{Failure, FailureKind, ProgramValue};
use dsl::Actor;
use program::{Limits, ProgramError, Script, Value};

use super::pool_change::{PoolChange, Recorded, Turn, WhileSuspended};
use crate::service::Service;
use crate::service::reporter::Reporter;
use questions::PoolHost;

/// A larger result does not travel: what it is put in may make it twice as long.
const RESULT_BYTES_MAX: usize = 7 << 20;

impl PoolChange for Program {
    /// What a program asks and changes is not looked at one by one: it takes who may do all.
    fn authorize(&self, _service: &Service, _actor: &Actor) -> Result<(), Failure> {
        let text = "Permission denied. Channel programs must be run as root.";
        Err(failed(FailureKind::Permission, text))
    }

    fn while_suspended(&self) -> WhileSuspended<'_> {
        WhileSuspended::refused("run a program on")
    }

    fn turn(&self) -> Turn {
        Turn::Alone
    }

    fn recorded(&self) -> Recorded {
        Recorded::unless(self.read_only)
    }

    fn apply(&self, service: &Service, reporter: &mut Reporter<'_>) -> Result<(), Failure> {
        let client = reporter.client().map_err(|error| {
            let text = format!("there are no more descriptors: {error}");
            failed(FailureKind::Medium, &text)
        })?;
        let script = Script {
            text: self.script.as_bytes(),
            arguments: &self.arguments,
            read_only: self.read_only,
        };
        let limits = Limits {
            instructions: self.instructions,
            memory_bytes: self.memory_bytes,
            cpu_ns: Box::new(sys::thread_cpu_ns),
            interrupted: Box::new(move || client.check().is_err()),
        };
        let host = PoolHost::new(service);
        let outcome = program::run(&script, limits, &host);
        let value = outcome.map_err(|error| failed(kind_of(&error), &error.to_string()))?;
        let value = value.map(travelling);
        let line = admin::program_result(value.as_ref());
        let Some(line) = line.ok().filter(|line| line.len() <= RESULT_BYTES_MAX) else {
            let error = ProgramError::TooLarge;
            return Err(failed(kind_of(&error), &error.to_string()));
        };
        reporter.line(line);
        Ok(())
    }
}

fn failed(kind: FailureKind, why: &str) -> Failure {
    let text = format!("Channel program execution failed:\n{why}");
    Failure::new(kind, text)
}

const fn kind_of(error: &ProgramError) -> FailureKind {
    match error {
        ProgramError::Syntax(_)
        | ProgramError::Failed(_)
        | ProgramError::Instructions
        | ProgramError::Limits => FailureKind::Invalid,
        ProgramError::Memory | ProgramError::TooLarge => FailureKind::Space,
        ProgramError::Interrupted => FailureKind::Busy,
    }
}

fn travelling(value: Value) -> ProgramValue {
    match value {
        Value::Nil => ProgramValue::Nil,
        Value::Boolean(boolean) => ProgramValue::Boolean(boolean),
        Value::Number(number) => ProgramValue::Number(number),
        Value::Text(text) => ProgramValue::Text(text),
        Value::Table(entries) => {
            let entries = entries.into_iter();
            ProgramValue::Table(
                entries
                    .map(|(key, value)| (key, travelling(value)))
                    .collect(),
            )
        }
    }
}
