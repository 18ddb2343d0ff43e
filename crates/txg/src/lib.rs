//! Transaction groups: open, quiesce, sync; dirty credits and the write throttle.
//!
//! Purpose: batch changes into numbered groups that reach the disk as a whole. Invariants: at most
//! three groups are in flight (open, quiescing or quiesced, syncing); groups sync in order, one at
//! a time; a group closes because of bytes, age, an explicit request or memory, nothing else.
//! Called by `dmu` (holds, credits) and `pool` (the sync target). Must not know what is synced.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod config;
mod credit;
mod engine;
mod error;
mod frees;
mod holds;
mod manner;
mod meters;
mod state;
mod throttle;
mod tunables;

pub use config::EngineConfig;
pub use credit::{Credit, DirtyCounts};
pub use engine::{Engine, SyncContext, SyncTarget, catches_panics};
pub use error::{SyncFailure, TxgError};
pub use holds::{TxgHold, thread_index};
pub use manner::{Admitted, Postponed, without_waiting};
pub use tunables::TUNABLES;
