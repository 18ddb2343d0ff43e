//! A script from its text to its result.

use std::rc::Rc;

use mlua::{ChunkMode, Error, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, VmState};

use crate::interface::{self, Rights};
use crate::library;
use crate::limits::Limits;
use crate::meter::{Meter, STRIDE};
use crate::source::translate;
use crate::value::Unreturnable;
use crate::{Host, ProgramError, Value};

/// How the script is called in messages.
const CHUNK: &str = "channel program";

/// A program to run.
pub struct Script<'a> {
    /// Its text.
    pub text: &'a [u8],
    /// Its arguments.
    pub arguments: &'a [String],
    /// It may not change anything.
    pub read_only: bool,
}

/// Runs a script. Nothing if it returns nothing.
///
/// # Errors
/// Why it has no result; what it changed before stays.
pub fn run(
    script: &Script<'_>,
    limits: Limits,
    host: &dyn Host,
) -> Result<Option<Value>, ProgramError> {
    let memory = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
    if !limits.are_allowed() {
        return Err(ProgramError::Limits);
    }
    let text = translate(script.text).map_err(ProgramError::Syntax)?;
    let meter = Rc::new(Meter::new(limits, memory));
    let outcome = execute(script, &text, memory, &meter, host);
    // Where it had to end it may have caught that and gone on for a moment.
    if let Some(ended) = meter.ended() {
        return Err(ended);
    }
    outcome.map_err(|error| match error {
        Unreturnable::TooLarge => ProgramError::TooLarge,
        Unreturnable::Kind(text) => ProgramError::Failed(text),
        Unreturnable::Lua(error) => told(&error),
    })
}

fn execute(
    script: &Script<'_>,
    text: &[u8],
    memory: usize,
    meter: &Rc<Meter>,
    host: &dyn Host,
) -> Result<Option<Value>, Unreturnable> {
    let libraries = StdLib::COROUTINE | StdLib::STRING | StdLib::TABLE;
    let lua = Lua::new_with(libraries, LuaOptions::new())?;
    library::confine(&lua, meter)?;
    let counted = Rc::clone(meter);
    let triggers = HookTriggers::new().every_nth_instruction(STRIDE);
    lua.set_global_hook(triggers, move |_, _| {
        counted.instructions(u64::from(STRIDE))?;
        Ok(VmState::Continue)
    })?;
    let rights = match script.read_only {
        true => Rights::Look,
        false => Rights::Change,
    };
    let values = lua.scope(|scope| {
        interface::install(&lua, scope, host, rights)?;
        let arguments = interface::script_arguments(&lua, script.arguments)?;
        // What the interpreter itself takes is not the program's.
        lua.set_memory_limit(memory.saturating_add(lua.used_memory()))?;
        let chunk = lua.load(text).set_name(CHUNK).set_mode(ChunkMode::Text);
        chunk.into_function()?.call::<MultiValue>(arguments)
    })?;
    let value = interface::only(&values).map_err(|text| Unreturnable::Kind(text.to_owned()))?;
    let value = value.map(|value| Value::from_lua(value, memory));
    value.transpose()
}

/// What an error of the interpreter says.
fn told(error: &Error) -> ProgramError {
    let (mut error, mut traceback) = (error, None);
    loop {
        if let Error::CallbackError {
            traceback: from,
            cause,
        } = error
        {
            traceback = Some(from);
            error = cause;
        } else if let Error::BadArgument { cause, .. } = error {
            error = cause;
        } else {
            break;
        }
    }
    if let Error::MemoryError(_) = error {
        return ProgramError::Memory;
    }
    if let Error::SyntaxError { message, .. } = error {
        return ProgramError::Syntax(message.clone());
    }
    let Error::RuntimeError(message) = error else {
        return ProgramError::Failed(error.to_string());
    };
    // The interpreter says so of a string that it was putting together.
    if message.starts_with("not enough memory for buffer") {
        return ProgramError::Memory;
    }
    ProgramError::Failed(match traceback {
        Some(traceback) if !message.contains("\nstack traceback:") => {
            format!("{message}\n{traceback}")
        }
        Some(_) | None => message.clone(),
    })
}
