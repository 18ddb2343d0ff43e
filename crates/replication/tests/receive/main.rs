//! Streams that OpenZFS sent, received into a new pool: its files are those of the sender, and zdb finds nothing wrong.

#![expect(clippy::unwrap_used, reason = "a test")]

mod bench;
mod damaged;
mod golden_streams;
mod healed;
mod hostile;
mod resumed;

extern crate posix as millpond_posix;

#[path = "../../../posix/tests/golden/walk.rs"]
mod walk;
