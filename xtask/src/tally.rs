//! What became of the tests: read from cargo's output while it passes by, summed over every run.

use crate::run::{TaskError, TaskResult, describe, say};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Instant;

#[cfg(test)]
mod tests;

/// The sums over the test runs so far.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    passed: u64,
    failed: u64,
    /// Tests marked `#[ignore]` that no run has asked for so far.
    ignored: u64,
    /// Tests that ended well because what they need is not there: they printed `skipped: …`.
    skipped: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let skipped = self.skipped + self.ignored;
        write!(
            f,
            "{} passed, {} failed, {skipped} skipped",
            self.passed, self.failed
        )
    }
}

impl Tally {
    /// Runs a `cargo test` command with its output shown as it comes.
    pub(crate) fn step(&mut self, name: &str, command: &mut Command) -> TaskResult {
        say(&format!("== {name}"));
        let line = describe(command);
        let begin = Instant::now();
        let start_failed = |error| TaskError::Start(line.clone(), error);
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .map_err(start_failed)?;
        let mut run = Run::default();
        if let Some(output) = child.stdout.take() {
            let show = |shown: &str| say(shown);
            run.read(output, show).map_err(start_failed)?;
        }
        let status = child.wait().map_err(start_failed)?;
        let outcome = Outcome {
            run,
            shown: Vec::new(),
            status: Some(status),
        };
        say(&format!(
            "== {name}: {status}, {} s",
            begin.elapsed().as_secs()
        ));
        if self.take(&outcome, false) {
            return Ok(());
        }
        Err(TaskError::Status(line, status))
    }

    /// Counts what became of a run that is over; whether it ended well.
    /// `of_ignored`: it ran tests that an earlier run counted as ignored.
    pub(crate) fn take(&mut self, outcome: &Outcome, of_ignored: bool) -> bool {
        self.add(&outcome.run, of_ignored);
        if outcome.status.is_some_and(|status| status.success()) {
            return true;
        }
        if outcome.run.failed == 0 {
            // It did not build, or a test brought its process down: no result line tells.
            self.failed += 1;
        }
        false
    }

    fn add(&mut self, run: &Run, of_ignored: bool) {
        self.passed += run.passed;
        self.failed += run.failed;
        self.skipped += run.skipped;
        self.ignored += run.ignored;
        if of_ignored {
            let done = run.passed + run.failed + run.skipped;
            self.ignored = self.ignored.saturating_sub(done);
        }
    }
}

/// A test program that ran, asked for `--show-output`.
#[derive(Debug)]
pub(crate) struct Outcome {
    run: Run,
    /// The lines that are to be shown.
    shown: Vec<String>,
    /// None: it never ran.
    status: Option<ExitStatus>,
}

impl Outcome {
    /// Of a program that could not be started.
    pub(crate) fn never_ran() -> Self {
        Self {
            run: Run::default(),
            shown: Vec::new(),
            status: None,
        }
    }

    /// Reads what a program prints, to its end.
    pub(crate) fn read(output: impl Read) -> std::io::Result<Self> {
        let mut outcome = Self::never_ran();
        let (run, shown) = (&mut outcome.run, &mut outcome.shown);
        run.read(output, |line| shown.push(line.to_owned()))?;
        Ok(outcome)
    }

    /// How the program ended.
    pub(crate) const fn ended(&mut self, status: ExitStatus) {
        self.status = Some(status);
    }

    /// What of its output is to be shown, and its status when that is not plain success.
    pub(crate) fn show(&self) {
        for line in &self.shown {
            say(line);
        }
        if let Some(status) = self.status.filter(|status| !status.success()) {
            say(&format!("it ended with {status}"));
        }
    }
}

/// One `cargo test`: several test programs one after the other.
#[derive(Debug, Default)]
struct Run {
    passed: u64,
    failed: u64,
    ignored: u64,
    skipped: u64,
    /// In the part where libtest repeats what passing tests printed.
    in_successes: bool,
    /// The test whose output is being repeated.
    test: String,
    /// The tests of the present program that said they were skipped.
    said_skipped: BTreeSet<String>,
}

impl Run {
    /// Takes all lines of an output.
    fn read(&mut self, output: impl Read, mut show: impl FnMut(&str)) -> std::io::Result<()> {
        for text in BufReader::new(output).split(b'\n') {
            if let Some(shown) = self.line(&String::from_utf8_lossy(&text?)) {
                show(shown);
            }
        }
        Ok(())
    }

    /// Takes a line; what of it is to be shown.
    fn line<'a>(&mut self, line: &'a str) -> Option<&'a str> {
        if let Some(counts) = line.strip_prefix("test result: ") {
            self.result(counts);
            return Some(line);
        }
        match line {
            "successes:" => self.in_successes = true,
            "failures:" => self.in_successes = false,
            _ => {}
        }
        if !self.in_successes {
            return Some(line);
        }
        if let Some(name) = line.strip_prefix("---- ") {
            name.trim_end_matches(" stdout ----")
                .clone_into(&mut self.test);
        }
        if line.starts_with("skipped: ") && self.said_skipped.insert(self.test.clone()) {
            return Some(line);
        }
        None
    }

    /// `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 2 filtered out; finished in 0.02s`
    fn result(&mut self, counts: &str) {
        let count = |what: &str| {
            let before = counts.split(&format!(" {what}")).next().unwrap_or_default();
            let word = before.rsplit([' ', ';']).next().unwrap_or_default();
            word.parse::<u64>().unwrap_or(0)
        };
        let skipped = self.said_skipped.len() as u64;
        self.passed += count("passed").saturating_sub(skipped);
        self.failed += count("failed");
        self.ignored += count("ignored");
        self.skipped += skipped;
        self.in_successes = false;
        self.said_skipped.clear();
    }
}
