//! Why there is no TLS.

use std::io;
use std::path::PathBuf;

/// Why an identity or an authority cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// This host believes nobody.
    #[error("this host has no certificate authorities")]
    NoAuthorities,
    /// A file cannot be read.
    #[error("cannot read '{}': {}", path.display(), base::host_reason(error))]
    File {
        /// Which one.
        path: PathBuf,
        /// What the host said.
        error: io::Error,
    },
    /// A file has something else.
    #[error("'{}' has no {wanted} in PEM form", path.display())]
    Absent {
        /// Which one.
        path: PathBuf,
        /// What it should have.
        wanted: &'static str,
    },
    /// A file's contents make no sense, or not with those of another.
    #[error("'{}' cannot be used: {reason}", path.display())]
    Unusable {
        /// Which one.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// What is connected to has no name that a certificate could have.
    #[error("'{0}' is no name of a host")]
    Name(String),
}
