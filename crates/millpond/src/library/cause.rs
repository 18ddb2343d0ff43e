//! What an error is about and what is behind it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

/// What an error says: the text, the thing that it is about, and the errors behind it.
///
/// It prints as its text, which names the thing and the reason in one line. What a command line would advise is no part
/// of it.
#[derive(Clone)]
pub struct Cause(Arc<Parts>);

struct Parts {
    text: String,
    name: Option<String>,
    os_error: Option<i32>,
    behind: Option<Box<dyn Error + Send + Sync>>,
}

impl Cause {
    /// One with a text alone.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Arc::new(Parts {
            text: text.into(),
            name: None,
            os_error: None,
            behind: None,
        }))
    }

    /// `NAME: ERROR`, with what is behind the error.
    pub(crate) fn of(
        name: &str,
        os_error: Option<i32>,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self::because(
            format!("{name}: {error}"),
            Some(name.to_owned()),
            os_error,
            error,
        )
    }

    /// A text that says what the error says, too.
    pub(crate) fn because(
        text: String,
        name: Option<String>,
        os_error: Option<i32>,
        error: impl Error + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(Parts {
            text,
            name,
            os_error,
            behind: Some(Box::new(error)),
        }))
    }

    /// One about a pool, dataset or file.
    pub(crate) fn about(name: Option<String>, text: String) -> Self {
        Self(Arc::new(Parts {
            text,
            name,
            os_error: None,
            behind: None,
        }))
    }

    /// One about a pool, of which the host refused a file or disk.
    pub(crate) fn of_host(name: Option<String>, text: String, os_error: i32) -> Self {
        let refused = Refused(io::Error::from_raw_os_error(os_error));
        Self::because(text, name, Some(os_error), refused)
    }

    /// The pool, dataset or file that it is about, if it is one: `tank`, `tank/home@monday`, `tank/home:/etc/fstab`.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.0.name.as_deref()
    }

    /// The number that a system call would give for it, as `libc::ENOENT`, of an operation on files.
    #[must_use]
    pub fn raw_os_error(&self) -> Option<i32> {
        self.0.os_error
    }
}

/// The text says why already.
#[derive(Debug, thiserror::Error)]
#[error("refused by the host")]
struct Refused(#[source] io::Error);

impl Error for Cause {
    /// What is behind the reason that the text gives: for an unreadable block what its devices answered.
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.behind.as_deref().and_then(Error::source)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.text, f)
    }
}

/// Equal if they say the same of the same thing.
impl PartialEq for Cause {
    fn eq(&self, other: &Self) -> bool {
        self.0.text == other.0.text
            && self.0.name == other.0.name
            && self.0.os_error == other.0.os_error
    }
}

impl Eq for Cause {}

impl From<String> for Cause {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Cause {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot read it")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn what_is_behind_is_not_said_twice() {
        let cause = Cause::of(
            "tank:/f",
            Some(5),
            Outer(std::io::Error::other("the disk is gone")),
        );
        assert_eq!(cause.to_string(), "tank:/f: cannot read it");
        assert_eq!(cause.source().unwrap().to_string(), "the disk is gone");
        assert_eq!(
            (cause.name(), cause.raw_os_error()),
            (Some("tank:/f"), Some(5))
        );
        assert_ne!(cause, Cause::new("tank:/f: cannot read it"));
        assert!(Cause::from("x").source().is_none());
    }
}
