//! Invariants that are checked in every build: statements about state that only our own code makes.
//!
//! A violation is noted for its pool, by whichever thread finds it, and that thread goes on: it may hold locks, and
//! others wait for it. Who writes the pool's next uberblock asks for a note before, and writes none if there is one.
//! What comes from a disk, a user or a network is never subject of an invariant: that is an error of what it belongs
//! to.

use std::fmt::{self, Arguments, Display, Formatter};
use std::sync::OnceLock;

/// What was found to be wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which invariant: `crate.subject`.
    pub name: &'static str,
    /// What was found in its place.
    pub finding: String,
}

impl Display for Violation {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let Self { name, finding } = self;
        write!(out, "an invariant is broken: {name}: {finding}")
    }
}

impl std::error::Error for Violation {}

/// The first violation of a pool. Every part of the pool that checks something has a reference to it.
#[derive(Debug, Default)]
pub struct Findings {
    /// No lock of ours: a violation is found under any lock.
    first: OnceLock<Violation>,
}

impl Findings {
    /// Notes a violation, unless there is one already: what follows from the first one helps nobody.
    #[cold]
    #[inline(never)]
    pub fn note(&self, name: &'static str, finding: Arguments<'_>) {
        self.first.get_or_init(|| Violation {
            name,
            finding: finding.to_string(),
        });
    }

    /// The first violation, if there was any.
    #[must_use]
    pub fn first(&self) -> Option<&Violation> {
        self.first.get()
    }

    /// Whether all invariants hold so far.
    ///
    /// # Errors
    /// The first violation.
    pub fn check(&self) -> Result<(), Violation> {
        self.first.get().map_or(Ok(()), |first| Err(first.clone()))
    }
}

/// `invariant!(findings, holds, name, text…)` notes a violation under a static name if `holds` is false; the text is
/// formatted only then. Its value is `holds`, for who has to choose what to go on with.
#[macro_export]
macro_rules! invariant {
    ($findings:expr, $holds:expr, $name:expr, $($text:tt)+) => {{
        let holds: bool = $holds;
        if !holds {
            $findings.note($name, ::std::format_args!($($text)+));
        }
        holds
    }};
}

#[cfg(test)]
mod tests;
