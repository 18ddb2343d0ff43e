//! Volumes: datasets that are one long row of bytes, as a disk is.
//!
//! Purpose: a [`Volume`] is an open one, the head of a dataset or a snapshot of it: read, write, write zeroes, discard,
//! flush, resize, by any number of threads at once. Invariants: what [`Volume::flush`] answered for is there after a
//! crash; no transaction is begun under a lock; records of the intent log are in the order of their effects. Called by
//! `control`, for whoever serves volumes and for programs. Must not know protocols, names or properties.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod error;
mod replay;
mod sequence;
mod tunables;
mod volume;
mod writing;

pub use error::{Result, VolumeError};
pub use replay::{Replayed, replay};
pub use tunables::TUNABLES;
pub use volume::{Durability, Source, Volume};
