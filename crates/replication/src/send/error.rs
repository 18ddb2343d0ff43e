//! Why a snapshot could not be sent.

use dsl::DslError;
use format::FormatError;
use pipeline::ReadError;
use stream::StreamError;

/// Why a snapshot could not be sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// A block cannot be read.
    #[error("{0}")]
    Read(#[from] ReadError),
    /// A block is not what it should be.
    #[error("{0}")]
    Format(#[from] FormatError),
    /// The dataset cannot be read.
    #[error("{0}")]
    Dsl(#[from] DslError),
    /// The object set cannot be read.
    #[error("{0}")]
    Dmu(#[from] dmu::DmuError),
    /// The stream cannot be written.
    #[error("{0}")]
    Stream(#[from] StreamError),
    /// What the stream would need that was not asked for.
    #[error("the dataset has {0}, which need option {1}")]
    Needs(&'static str, &'static str),
    /// A block of an encrypted dataset that is not encrypted.
    #[error("a block of an encrypted dataset is not encrypted")]
    NotEncrypted,
    /// A block that a machine of the other byte order encrypted.
    #[error("blocks that a machine of the other byte order encrypted cannot be sent raw")]
    OtherOrder,
    /// Parts of the dataset are missing, and others are to be.
    #[error("the dataset is redacted, and cannot be redacted further")]
    Redacted,
    /// What is left out would be missed by what proves the rest.
    #[error("raw streams of encrypted datasets cannot be redacted")]
    RawRedacted,
}
