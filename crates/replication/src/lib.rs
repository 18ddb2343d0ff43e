//! Sending and receiving datasets as streams.
//!
//! Purpose: object sets as the records of a stream, and records as object sets. Called by `control`, which knows who
//! may do that, what is mounted, and where a stream goes. Must not know files, commands or mounts.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod blocks;
mod features;
pub mod receive;
mod redaction;
pub mod send;
mod tunables;

pub use blocks::FindError;
pub use redaction::{Taker, redact};
pub use tunables::{RESTS, TUNABLES};
