//! TLS over any reader and writer, by `rustls` with `ring`.
//!
//! Purpose: who we are and whom we believe, from files ([`Server`], [`Client`]); the handshake; then a reader and a
//! writer that two threads use at the same time. Invariants: no byte is given to the caller that was not
//! authenticated; an end without a notice of it is an error; a peer that is refused is told so. TLS 1.2 and 1.3 with
//! the ciphers that `rustls` takes for safe, and nothing older. Called by `millpond` and `device`, which have the
//! sockets. Must not know what is said over it, nor sockets and their time-outs.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod error;
mod files;
mod peers;
mod stream;

#[cfg(test)]
mod tests;

pub use error::TlsError;
pub use peers::{Client, Server};
pub use stream::{SecureReader, SecureWriter};
