//! What can be wrong with a stream.

use std::io;

use format::FormatError;

/// Why a stream cannot be read or written on.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The descriptor that it comes from or goes to.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It ends before its end.
    #[error("the stream is cut short")]
    Truncated,
    /// It does not begin as a stream does.
    #[error("invalid stream (bad magic number)")]
    BadMagic,
    /// A checksum is not that of the bytes before it.
    #[error("checksum mismatch in the record that ends at byte {0}")]
    BadChecksum(u64),
    /// There is no such record.
    #[error("there is no record of kind {0}")]
    UnknownRecord(u32),
    /// A record where it may not stand.
    #[error("{0} where it may not stand")]
    Misplaced(&'static str),
    /// A payload longer than any sender makes.
    #[error("{0}: a payload of {1} bytes is not valid")]
    BadLength(&'static str, u64),
    /// What should be a list of names and values is none.
    #[error("{0}")]
    Format(#[from] FormatError),
    /// The list at the head of a package is not as a sender makes it.
    #[error("the head of the package is not valid: {0}")]
    BadPackage(&'static str),
    /// A resume token that no receiver made.
    #[error("resume token is corrupt")]
    BadToken,
}
