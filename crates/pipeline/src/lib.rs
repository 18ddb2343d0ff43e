//! Reading, writing and freeing blocks by block pointer.
//!
//! Purpose: between objects, which know block pointers, and vdevs, which know sectors: compress,
//! checksum, allocate, gang, retry other copies, heal, cache. Invariants: no byte reaches a caller
//! whose checksum was not verified, unless its pointer says that there is none; no input makes it panic; memory asked
//! for is bounded by the block pointer's own validated sizes; no lock is held across I/O. Callers: `intent`,
//! `pool` (also for `dmu`, through its block store), `inspect`. It must not know what a block means, nor choose what
//! to write when.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod allocator;
mod blame;
mod dedup;
mod error;
mod free;
mod heal;
mod keeping;
mod kept;
mod keys;
mod log_block;
mod pipeline;
mod prefetch;
mod prefetched;
mod read;
mod recent_gangs;
mod request;
mod run;
mod scratch;
mod scrub;
#[cfg(test)]
mod testing;
mod tunables;
mod write;

pub use allocator::{Allocation, AllocationClass, AllocationError, AllocationRequest, Allocator};
pub use dedup::{DedupAnswer, DedupMode, DedupSource};
pub use error::{Attempt, AttemptFailure, FreeError, Mismatch, ReadError, Unreadable, WriteError};
pub use heal::{Healing, Offered};
pub use keeping::KeepSource;
pub use keys::{Key, KeySource};
pub use pipeline::{
    ErrorLog, Granularity, Pipeline, PipelineConfig, PipelineStatistics, RepairPermit, Repairs,
};
pub use prefetch::{Follow, PrefetchRequest, PrefetchStatistics, Prefetcher};
pub use request::{ReadRequest, WritePolicy, WriteRequest};
pub use scrub::Scrubbed;
pub use tunables::TUNABLES;
