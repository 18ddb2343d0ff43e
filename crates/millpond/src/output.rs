//! What goes to the terminal, and how a command stops.

use std::fmt;
use std::io::{self, Write};

use admin::{Failure, FailureKind};

/// Why a command ends without success.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A failure, to be printed.
    Failure(Failure),
    /// The command line makes no sense: this message, then how it is used.
    Usage(String),
    /// All is said; end with this status.
    Quiet(u8),
}

/// How a command ends.
pub(crate) type Outcome = Result<(), Stop>;

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

/// A wrong command line.
pub(crate) fn usage(message: impl Into<String>) -> Stop {
    Stop::Usage(message.into())
}

/// A failure because what was asked for makes no sense.
pub(crate) fn cannot(verb: &str, name: &str, reason: impl fmt::Display) -> Failure {
    Failure::cannot(FailureKind::Invalid, verb, name, reason)
}

/// Writes to the standard output. A reader that went away ends the command in silence.
pub(crate) fn print(text: &str) -> Result<(), Stop> {
    print_bytes(text.as_bytes())
}

/// The same for names of files, which may be no text.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<(), Stop> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| {
            if error.kind() != io::ErrorKind::BrokenPipe {
                complain(&format!("cannot write the output: {error}"));
            }
            Stop::Quiet(1)
        })
}

/// Writes a line to the standard error.
pub(crate) fn complain(text: &dyn fmt::Display) {
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
