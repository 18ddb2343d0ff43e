//! Cache devices (L2ARC): copies of blocks that were read, on a device that is faster than those of the pool.
//!
//! Who reads a block from the pool offers it; a thread writes what was offered, at a bounded rate, round and round over
//! each device. Who misses a block in memory asks here before the pool. Nothing depends on what is here: a copy is
//! believed only if the block's own checksum says so, and a device that fails or hangs is left alone. What the devices
//! hold outlives an import, by the log blocks between the copies.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod device;
mod error;
mod index;
mod meters;
mod offers;
mod rebuild;
mod second_level;
mod sweep;
#[cfg(test)]
mod tests;
mod tunables;

pub use device::{CacheDeviceState, CacheDeviceStatistics};
pub use error::L2ArcError;
pub use index::CopyKey;
pub use offers::Offer;
pub use second_level::{Admission, SecondLevel};
pub use tunables::TUNABLES;
