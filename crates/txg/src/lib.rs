//! Transaction groups: open, quiesce, sync; dirty credits and the write throttle.
//!
//! Purpose: batch changes into numbered groups that reach the disk as a whole. Invariants: at most
//! three groups are in flight (open, quiescing or quiesced, syncing); groups sync in order, one at
//! a time; a group closes because of bytes, age, an explicit request or memory, nothing else.
//! Called by `dmu` (holds, credits) and `pool` (the sync target). Must not know what is synced.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod config;
mod context;
mod credit;
mod dirty;
mod engine;
mod error;
mod frees;
mod holds;
mod manner;
mod meters;
mod patience;
mod repetition;
mod state;
mod throttle;
mod tunables;

pub use config::EngineConfig;
pub use context::SyncContext;
pub use credit::Credit;
pub use dirty::DirtyCounts;
pub use engine::{Engine, SyncTarget, TXGS_UNDER_WAY, TxgHold, catches_panics};
pub use error::{SyncFailure, TxgError};
pub use holds::thread_index;
pub use manner::{Admitted, Postponed, without_waiting};
pub use repetition::{Absence, AwaitedDevices, is_repeatable, repeatable};
pub use tunables::TUNABLES;
