//! A fuzz target for every decoder that takes bytes from disk, the kernel, the network or people, and what drives them.
//!
//! `cargo xtask fuzz TARGET --seconds N` runs a target under libFuzzer, which mutates inputs and keeps those that reach
//! new code. The smallest inputs that together reach as much are in the file `corpus/TARGET`; the test `replay` gives
//! each of them to every target. [`seeds`] are what else fuzzing begins with: pieces of pools, and messages.

pub mod corpus;
pub mod limits;
pub mod seeds;
mod target;
pub mod targets;

pub use limits::execute;
pub use target::Target;
pub use targets::{all, find};

/// Counts what decoders allocate.
#[global_allocator]
static ALLOCATOR: &stats_alloc::StatsAlloc<std::alloc::System> = &stats_alloc::INSTRUMENTED_SYSTEM;
