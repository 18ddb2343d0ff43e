//! Who is told how far long work is, and how.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use serde_json::{Value, json};

/// To whom long work says how far it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Audience {
    /// To nobody.
    #[default]
    Nobody,
    /// To whoever sits at the terminal: a line on the standard error, drawn again and again.
    Terminal,
    /// To a program: lines on the standard error, each a JSON object.
    Program,
}

impl Audience {
    /// A program where JSON was asked for, else whoever sits at the terminal, if there is one.
    #[must_use]
    pub fn of(json: bool) -> Self {
        match (json, io::stderr().is_terminal()) {
            (true, _) => Self::Program,
            (false, true) => Self::Terminal,
            (false, false) => Self::Nobody,
        }
    }

    /// How often it is told.
    #[must_use]
    pub const fn interval(self) -> Duration {
        match self {
            Self::Program => Duration::from_secs(1),
            Self::Terminal | Self::Nobody => Duration::from_millis(200),
        }
    }

    /// Tells it: `text` to people, `progress` to programs.
    pub fn tell(self, text: impl FnOnce() -> String, progress: impl FnOnce() -> Value) {
        match self {
            Self::Program => write(&format!("{}\n", json!({"progress": progress()}))),
            Self::Nobody | Self::Terminal => self.tell_people(text),
        }
    }

    /// Tells people `text`, and programs nothing.
    pub fn tell_people(self, text: impl FnOnce() -> String) {
        if self == Self::Terminal {
            write(&format!("\r{}\x1b[K", text()));
        }
    }

    /// Removes the line from a terminal.
    pub fn clear(self) {
        self.tell_people(String::new);
    }
}

fn write(line: &str) {
    // A reader who takes nothing stops no work.
    let _ = io::stderr().write_all(line.as_bytes());
}
