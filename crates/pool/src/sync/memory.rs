//! How much memory a pool that is written to may take.

use base::Txg;
use txg::EngineConfig;

use crate::tunables;

/// More memory than this lets no more be dirty: what is dirty is what a crash loses, and what a sync waits for.
const MEMORY_MAX: u64 = 8 << 30;

/// The engine's figures for the memory that this process may use, a control group's limit included.
pub(crate) fn engine_config(first: Txg) -> EngineConfig {
    EngineConfig::for_memory(first, sys::system::memory_bytes().min(MEMORY_MAX))
}

/// Clean objects of the MOS that stay in memory: one for each 64 KiB of memory, of which it takes one or two KiB. A
/// list of all snapshots opens an object for each, so with fewer than there are snapshots each list loads all of them
/// again.
pub(crate) fn mos_objects_max() -> usize {
    const MEMORY_PER_OBJECT: u64 = 64 << 10;
    let wanted = sys::system::memory_bytes() / MEMORY_PER_OBJECT;
    usize::try_from(wanted)
        .unwrap_or(usize::MAX)
        .max(8_192)
        .min(tunables::MOS_OBJECTS_MAX.count())
}
