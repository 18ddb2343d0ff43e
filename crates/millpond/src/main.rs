//! The one binary: `millpond`, also answering to `zpool`, `zfs`, `zstream`, `zdb` and
//! `mount.zfs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod arguments;
mod bench;
mod daemons;
mod flags;
mod grammar;
mod key_material;
mod output;
mod own;
mod progress;
mod render;
mod repeat;
mod streams;
mod version;
mod waiting;
mod zfs;
mod zpool;
mod zstream;

use std::ffi::OsString;
use std::process::ExitCode;

use grammar::{Command, GrammarError, Parsed, Program};
use output::{Stop, complain, print};

/// Libraries that fetch keys leave copies of them on the heap.
#[cfg(feature = "https")]
#[global_allocator]
static ALLOCATOR: sys::WipingAllocator<mimalloc::MiMalloc> =
    sys::WipingAllocator::new(mimalloc::MiMalloc);

#[cfg(not(feature = "https"))]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // A daemon's standard error is its log.
    base::notice::listen(complain);
    // A daemon has no other threads, no terminal and no command line: it is decided first.
    if let Some(status) = daemon::child() {
        return status;
    }
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let text = |word: &OsString| word.to_string_lossy().into_owned();
    let mut words: Vec<String> = arguments.iter().map(text).collect();
    let called = if words.is_empty() {
        String::new()
    } else {
        words.remove(0)
    };
    let called = called.rsplit('/').next().unwrap_or_default().to_owned();
    // The inspector has a command line of its own.
    let inspected = match (called.as_str(), words.first().map(String::as_str)) {
        ("zdb", _) => Some(1),
        (_, Some("inspect" | "zdb")) if program_named(&called).is_none() => Some(2),
        _ => None,
    };
    if let Some(at) = inspected {
        return own::inspect::run(at);
    }
    if let Some(word) = arguments.iter().find(|word| word.to_str().is_none()) {
        complain(&format_args!(
            "{word:?} is not UTF-8, and a name that is nearly so would be another one\n\
             use a link with another name, or what it is in"
        ));
        return ExitCode::from(2);
    }
    if called == "mount.zfs" {
        return zfs::mount_helper::run(&words);
    }
    // `millpond help zpool …` is `zpool help …`.
    if program_named(&called).is_none()
        && let [help, topic, ..] = words.as_slice()
        && help == "help"
        && program_below(topic).is_some()
    {
        words.swap(0, 1);
    }
    // `millpond zpool …` is `zpool …`.
    let program = match program_named(&called) {
        Some(program) => program,
        None => match words.first().and_then(|word| program_below(word)) {
            Some(program) => {
                words.remove(0);
                program
            }
            None => &own::PROGRAM,
        },
    };
    ExitCode::from(run(program, &words))
}

/// All programs that this one answers to.
static PROGRAMS: [&Program; 5] = [
    &zpool::PROGRAM,
    &zfs::PROGRAM,
    &zstream::PROGRAM,
    &streams::PROGRAM,
    &own::PROGRAM,
];

fn program_named(name: &str) -> Option<&'static Program> {
    match name {
        "zpool" => Some(&zpool::PROGRAM),
        "zfs" => Some(&zfs::PROGRAM),
        "zstream" => Some(&zstream::PROGRAM),
        _ => None,
    }
}

/// A program by the word behind `millpond`.
fn program_below(word: &str) -> Option<&'static Program> {
    match word {
        "stream" => Some(&streams::PROGRAM),
        other => program_named(other),
    }
}

fn run(program: &'static Program, words: &[String]) -> u8 {
    let (command, outcome) = match program.parse(words) {
        Err((error, command)) => return refuse(program, command, &error),
        Ok(Parsed::Overview) => (None, print(&program.overview())),
        Ok(Parsed::Version) => (None, print(&version::text())),
        Ok(Parsed::Help(command)) => (Some(command), print(&command.help())),
        Ok(Parsed::Run(command, mut invocation)) => {
            invocation.programs = &PROGRAMS;
            (Some(command), (command.run)(&invocation))
        }
    };
    match outcome {
        Ok(()) => 0,
        Err(Stop::Quiet(status)) => status,
        Err(Stop::Failure(failure)) => {
            complain(&failure);
            failure.status()
        }
        Err(Stop::Usage(message)) => {
            complain(&message);
            explain(program, command);
            2
        }
    }
}

fn refuse(program: &Program, command: Option<&Command>, error: &GrammarError) -> u8 {
    complain(error);
    // Of two programs with words like these, it is the other one that was meant.
    if let GrammarError::NoSuchCommand(name) = error
        && let Some(other) = PROGRAMS.iter().find(|other| other.command(name).is_some())
    {
        complain(&format_args!("did you mean '{} {name}'?", other.name));
        return 2;
    }
    if let GrammarError::NoSuchCommand(name) = error
        && program.name == own::PROGRAM.name
        && let Some(meant) = grammar::meant(name, PROGRAMS.iter().map(|other| other.name))
    {
        complain(&format_args!("did you mean '{meant}'?"));
        return 2;
    }
    match error {
        // All is said.
        GrammarError::Mistyped(..) | GrammarError::Absent(..) => {}
        GrammarError::NoCommand
        | GrammarError::NoSuchCommand(_)
        | GrammarError::NoSuchFlag(_)
        | GrammarError::NoValue(_)
        | GrammarError::UnwantedValue(_)
        | GrammarError::TooFew(_)
        | GrammarError::TooMany => explain(program, command),
    }
    2
}

fn explain(program: &Program, command: Option<&Command>) {
    match command {
        Some(command) => complain(&format!("usage:\n{}", command.usage().trim_end())),
        None => complain(&program.overview().trim_end()),
    }
}
