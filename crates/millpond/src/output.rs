//! What goes to the terminal, and how a command stops.

use std::fmt;
use std::io::{self, IsTerminal, StdoutLock, Write};

use admin::{Failure, FailureKind};
use inspect::printable_lines;

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

/// The status of those failures for which OpenZFS's programs return −1.
pub(crate) const MINUS_ONE: u8 = 255;

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
    let mut out = Output::standard();
    out.write_all(bytes)
        .and_then(|()| out.flush())
        .map_err(|error| {
            if error.kind() != io::ErrorKind::BrokenPipe {
                complain(&format!(
                    "cannot write the output: {}",
                    base::host_reason(&error)
                ));
            }
            Stop::Quiet(1)
        })
}

/// The standard output. A terminal gets no control characters but ends of lines and tabs: those in names, properties
/// and histories of an image could do anything there. Programs get what there is.
pub(crate) struct Output {
    out: StdoutLock<'static>,
    is_terminal: bool,
}

impl Output {
    pub(crate) fn standard() -> Self {
        let out = io::stdout().lock();
        let is_terminal = out.is_terminal();
        Self { out, is_terminal }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_terminal {
            return self.out.write(bytes);
        }
        let text = printable_lines(&String::from_utf8_lossy(bytes));
        self.out.write_all(text.as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Writes a line to the standard error, without control characters of names in it.
pub(crate) fn complain(text: &dyn fmt::Display) {
    let text = printable_lines(&text.to_string());
    // Nobody is left to tell if this fails.
    let _ = writeln!(io::stderr().lock(), "{text}");
}
