//! How much memory a pool that is written to may take.

use base::Txg;
use txg::EngineConfig;

/// More memory than this lets no more be dirty: what is dirty is what a crash loses, and what a sync waits for.
const MEMORY_MAX: u64 = 8 << 30;

/// The engine's figures for the memory that this process may use, a control group's limit included.
pub(crate) fn engine_config(first: Txg) -> EngineConfig {
    EngineConfig::for_memory(first, sys::system::memory_bytes().min(MEMORY_MAX))
}
