//! Why a connection ends.

use std::io;

/// Why a connection ends before the client says so.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// It broke.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The other side does not speak the protocol.
    #[error("the other side does not speak the protocol: {0}")]
    Protocol(&'static str),
    /// A server does not do what it was asked for.
    #[error("{0}")]
    Refused(String),
}
