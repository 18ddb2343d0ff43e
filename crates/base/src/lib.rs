//! Ids and units as types, byte order, clocks, ranked locks, bounded queues, counters, tunables, invariants.
//!
//! The bottom of the house: no I/O, no policy, nothing that knows what a pool is.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod bookmark;
pub mod clock;
pub mod hand_over;
mod host;
mod ids;
pub mod invariant;
pub mod lock;
pub mod metrics;
pub mod notice;
mod order;
pub mod queue;
pub mod random;
pub mod schedule;
pub mod sync;
pub mod thread;
pub mod thread_pool;
pub mod tunable;

pub use bookmark::Bookmark;
pub use host::host_reason;
pub use ids::{Guid, ObjectId, ObjectSetId, Txg, VdevId};
pub use order::ByteOrder;
