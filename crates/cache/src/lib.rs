//! The cache of verified blocks.
//!
//! Purpose: keep decompressed blocks in host order by their address and birth, up to a limit in
//! bytes. Invariants: a hit waits for no lock; the thread that inserts does the evicting; concurrent
//! misses of one block read it once; there is no queue to fill up.
//! Callers: `pipeline`. It must not read or write devices, nor know what is in a block.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod cache;
mod index;
mod limit;
mod shard;
mod tunables;

pub use cache::{BlockKey, Cache, CacheStatistics, Reservation, Stay};
pub use limit::default_limit_bytes;
pub use tunables::TUNABLES;
