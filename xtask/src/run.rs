//! Running commands and speaking to the person who asked for them.

use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// What can go wrong in a task.
#[derive(Debug)]
pub(crate) enum TaskError {
    /// A command could not be started.
    Start(String, std::io::Error),
    /// A command ended badly.
    Status(String, ExitStatus),
    /// A file or folder could not be read or written.
    File(PathBuf, std::io::Error),
    /// Cargo does not say what the workspace consists of.
    Metadata(cargo_metadata::Error),
    /// The checks found faults, which were printed.
    Faults(usize),
    /// Test programs failed; what they printed was shown.
    Tests(Vec<String>),
    /// There is no such level.
    Level(String),
    /// There is no such target to fuzz; these are there.
    Target(String, Vec<String>),
}

impl fmt::Display for TaskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start(command, error) => write!(f, "cannot start `{command}`: {error}"),
            Self::Status(command, status) => write!(f, "`{command}` failed: {status}"),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Metadata(error) => write!(f, "cargo metadata: {error}"),
            Self::Faults(count) => write!(f, "{count} fault(s) found"),
            Self::Tests(programs) => write!(f, "failed: {}", programs.join(", ")),
            Self::Level(level) => write!(f, "no such level: {level}"),
            Self::Target(name, names) => {
                write!(f, "no such target: {name}; there are {}", names.join(", "))
            }
        }
    }
}

/// The result of a task.
pub(crate) type TaskResult<T = ()> = Result<T, TaskError>;

/// Prints a line for the person.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Prints a line about something that went wrong.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Runs a command with its output shown, and says how long it took.
pub(crate) fn step(name: &str, command: &mut Command) -> TaskResult {
    say(&format!("== {name}"));
    let line = describe(command);
    let begin = Instant::now();
    let status = command
        .status()
        .map_err(|error| TaskError::Start(line.clone(), error))?;
    say(&format!(
        "== {name}: {status}, {} s",
        begin.elapsed().as_secs()
    ));
    if status.success() {
        Ok(())
    } else {
        Err(TaskError::Status(line, status))
    }
}

/// How often it is looked whether a command has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Waits for the end of a command, but no longer than the limit: none if it goes on.
pub(crate) fn wait_at_most(
    child: &mut Child,
    limit: Duration,
) -> std::io::Result<Option<ExitStatus>> {
    let begin = Instant::now();
    while begin.elapsed() < limit {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        std::thread::sleep(LOOK_AGAIN);
    }
    Ok(None)
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// A command as it would be typed.
pub(crate) fn describe(command: &Command) -> String {
    let mut line = command.get_program().to_string_lossy().into_owned();
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}
