//! What could not be done, kept until the end.

use std::fmt;

/// More lines than anybody reads are only counted.
const LINES_MAX: usize = 10_000;

/// What could not be read or restored: a line each, for the end of the output. Anything in here
/// means exit status 1.
#[derive(Debug, Default)]
pub struct Problems {
    lines: Vec<String>,
    count: usize,
    remarks: Vec<String>,
}

impl Problems {
    /// Notes one.
    pub(crate) fn note(&mut self, subject: impl fmt::Display, problem: impl fmt::Display) {
        self.add(format_args!("{subject}: {problem}"));
    }

    /// Notes one that says itself what it is about.
    pub(crate) fn add(&mut self, problem: impl fmt::Display) {
        self.count += 1;
        if self.lines.len() < LINES_MAX {
            self.lines.push(problem.to_string());
        }
    }

    /// Says something that is no problem, once.
    pub(crate) fn remark(&mut self, remark: impl fmt::Display) {
        let remark = remark.to_string();
        if self.remarks.len() < LINES_MAX && !self.remarks.contains(&remark) {
            self.remarks.push(remark);
        }
    }

    /// What should be known although nothing went wrong.
    #[must_use]
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// How many there were.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Whether all went well.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The lines, oldest first; the last may say how many there were beyond the bound.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let more = self.count - self.lines.len();
        let last = (more > 0).then(|| format!("and {more} more"));
        self.lines.iter().cloned().chain(last)
    }
}
