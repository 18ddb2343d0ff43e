//! The NBD protocol, as a server and as a client speak it: fixed newstyle negotiation, simple and structured replies.
//!
//! Purpose: requests of a client become calls of a [`Disk`], several at once, and their answers replies. Invariants: a
//! client is not trusted: no input panics, nothing is allocated for more than the protocol allows, and no more than a
//! bounded number of bytes is under way for one connection. What a flush was answered for covers all that was answered
//! before it, on any connection to the disk, if the disk's own flush does. A server is not trusted either ([`Client`]).
//! Called by `control`, which has the disks, by `millpond`, which does what TLS needs first ([`start_tls`]), and by
//! `device`, whose disks others have. Must not know pools, sockets, ciphers or who may
//! do what.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]
// Decoders: no input may panic, no number be cut or change its sign unseen.
#![cfg_attr(
    not(test),
    warn(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::as_conversions,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

mod client;
mod disk;
mod error;
mod extents;
mod negotiation;
mod reply;
mod securing;
mod server;
mod wire;

#[cfg(test)]
mod tests;

pub use client::{Client, Export, Limits, MaySend, Refusal, ask_for_tls, choose, greet_server};
pub use disk::{Disk, Exports, Fault};
pub use error::NbdError;
pub use negotiation::Beginning;
pub use securing::start_tls;
pub use server::{MEMORY_MAX, serve};
