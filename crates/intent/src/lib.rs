//! The intent log: what makes single operations durable before their txg is.
//!
//! Purpose: each writable head has a [`Log`]. Operations append what they did, in memory; a commit
//! writes the records that its caller needs into a chain of log blocks and waits until they are
//! on the medium. After a crash the pool claims the chains, and each is replayed when its dataset
//! is next used. Invariants: no lock is held across I/O or the filling of a block; a waiter is
//! released only when its block and all before it are durable; a block is freed only when all its
//! records have synced. Called by `pool`, which makes logs, syncs and claims them, and by the
//! layers above through their adapters. Must not know what records mean.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod batch;
mod chain;
mod claim;
mod commit;
mod commit_queue;
mod entry;
mod error;
mod flusher;
mod in_flight;
mod layout;
mod lists;
mod log;
mod meters;
mod part;
mod replay;
mod sync;
mod tunables;
mod waiter;
mod walk;
mod write_out;

pub use claim::{Ages, Claim, claim};
pub use entry::{Contents, Data, Entry, LogBias, Scope, SyncPolicy, WriteEntry};
pub use error::IntentError;
pub use flusher::Flusher;
pub use log::{Log, OpenLog};
pub use meters::LogStatistics;
pub use part::{LogBlock, LogPart, Resume, part};
pub use replay::{Cause, Replay, Replayed, Unapplied};
pub use sync::LogSync;
pub use tunables::TUNABLES;
pub use waiter::Completion;
pub use walk::{Chain, owned_blocks, walk};
pub use write_out::DataWriter;
