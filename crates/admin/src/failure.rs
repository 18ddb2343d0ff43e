//! Why a request was refused or failed: one line with the cause, then what to do.
//!
//! Invariant: a [`Failure`] means that nothing was changed, unless its text says otherwise. It is
//! the error type of this crate, and what travels from the daemon to the command.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What a caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureKind {
    /// The request makes no sense as written.
    Usage,
    /// What it names is not there.
    Missing,
    /// What it would make is already there.
    Exists,
    /// Someone uses it.
    Busy,
    /// The caller may not.
    Permission,
    /// No space or over quota.
    Space,
    /// The pool or dataset is read-only.
    ReadOnly,
    /// The value or combination is not allowed.
    Invalid,
    /// A format, feature or operation that is not supported here.
    Unsupported,
    /// Devices are missing or broken.
    Medium,
    /// The daemon cannot be reached or broke off.
    Service,
}

/// A refused or failed request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// What a caller can do about it.
    pub kind: FailureKind,
    /// The line that names the thing and the cause.
    pub message: String,
    /// What the message is about, where it is one thing: a pool, a dataset, a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Further lines: more of the cause, the next step.
    pub advice: Vec<String>,
    /// Those of the further lines that tell the cause: programs are told them, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// What the host said of a file or disk, if that is behind it: a number of `errno`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub os_error: Option<i32>,
}

impl Failure {
    /// A failure with its whole line.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            name: None,
            advice: Vec::new(),
            reasons: Vec::new(),
            os_error: None,
        }
    }

    /// `cannot VERB 'NAME': REASON`.
    pub fn cannot(kind: FailureKind, verb: &str, name: &str, reason: impl fmt::Display) -> Self {
        Self {
            name: Some(name.to_owned()),
            ..Self::new(kind, format!("cannot {verb} '{name}': {reason}"))
        }
    }

    /// The same with a further line of advice.
    #[must_use]
    pub fn advise(mut self, line: impl Into<String>) -> Self {
        self.advice.push(line.into());
        self
    }

    /// The same with a further line that tells the cause.
    #[must_use]
    pub fn because(mut self, line: impl Into<String>) -> Self {
        let line = line.into();
        self.reasons.push(line.clone());
        self.advise(line)
    }

    /// A refusal of vdevs that `-f` overrides.
    #[must_use]
    pub fn unless_forced(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self::new(kind, "invalid vdev specification")
            .advise("use '-f' to override the following errors:")
            .because(reason)
    }

    /// The message and the cause in one line, without what a command line would be advised to do.
    #[must_use]
    pub fn whole_cause(&self) -> String {
        let reasons = self.reasons.iter().map(|reason| reason.trim());
        let reasons: Vec<&str> = reasons.filter(|reason| !reason.is_empty()).collect();
        if reasons.is_empty() {
            return self.message.clone();
        }
        let message = self.message.trim_end_matches(['.', ':']);
        format!("{message}: {}", reasons.join("; "))
    }

    /// The exit status of a command that ends with this.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self.kind {
            FailureKind::Usage => 2,
            FailureKind::Missing
            | FailureKind::Exists
            | FailureKind::Busy
            | FailureKind::Permission
            | FailureKind::Space
            | FailureKind::ReadOnly
            | FailureKind::Invalid
            | FailureKind::Unsupported
            | FailureKind::Medium
            | FailureKind::Service => 1,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        for line in &self.advice {
            write!(f, "\n{line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests;
