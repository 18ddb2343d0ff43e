//! A place of its own for every test: directory, sockets, mounts; all gone when it is dropped.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// How a command ended and what it printed.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Its exit status; -1 if a signal ended it.
    pub(crate) status: i32,
    /// Its standard output.
    pub(crate) output: String,
    /// Its standard error.
    pub(crate) errors: String,
}

/// Runs the binary with sockets and files of the test's own.
pub(crate) struct Sandbox {
    directory: TempDir,
}

impl Sandbox {
    /// An empty place.
    pub(crate) fn new() -> Self {
        Self {
            directory: TempDir::new().unwrap(),
        }
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs `millpond` with the words of the line.
    pub(crate) fn run(&self, line: &str) -> Ran {
        let words: Vec<&str> = line.split_whitespace().collect();
        self.run_program(Path::new(env!("CARGO_BIN_EXE_millpond")), &words)
    }

    /// Runs a program with the given words.
    pub(crate) fn run_program(&self, program: &Path, words: &[&str]) -> Ran {
        let output = Command::new(program)
            .args(words)
            .env("MILLPOND_RUN", self.path("run"))
            .env("TZ", "UTC")
            .current_dir(self.directory.path())
            .output()
            .unwrap();
        Ran {
            status: output.status.code().unwrap_or(-1),
            output: String::from_utf8_lossy(&output.stdout).into_owned(),
            errors: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}
