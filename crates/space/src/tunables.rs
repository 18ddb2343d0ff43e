//! Limits of the allocator.

use base::tunable::Tunable;

/// Bytes of memory that the free segments of a pool's loaded metaslabs may take. What allocators work on, and what was
/// used in the txg that syncs, stays loaded beyond that.
pub static LOADED_BYTES: Tunable = Tunable::new("space.loaded_bytes", 128 << 20, 0, 1 << 40);

/// Metaslabs of a pool that may be loaded, under the same reserve.
pub static LOADED_COUNT: Tunable = Tunable::new("space.loaded_count", 1 << 20, 0, 1 << 30);

/// Metaslabs a vdev that are kept loaded ahead of the allocators' need: the next that they would choose.
pub static LOADED_AHEAD_COUNT: Tunable = Tunable::new("space.loaded_ahead_count", 2, 0, 64);

/// Metaslabs that one allocation of one copy may load, at most. An allocation that finds nothing with so many fails,
/// and its block goes into pieces.
pub static LOADS_PER_ALLOCATION_COUNT: Tunable =
    Tunable::new("space.loads_per_allocation_count", 1, 1, 1024);

/// Allocators of a pool that is opened; 0: by the number of CPUs.
pub static ALLOCATORS_COUNT: Tunable = Tunable::new("space.allocators_count", 0, 0, 64);

/// Metaslabs with changes in the logs whose own maps are brought up to date in a txg, at least.
pub static FLUSHED_PER_TXG_COUNT: Tunable =
    Tunable::new("space.flushed_per_txg_count", 2, 1, 1 << 20);

/// Ranges of logged changes in memory beyond which a txg brings more maps up to date.
pub static UNFLUSHED_RANGES_COUNT: Tunable =
    Tunable::new("space.unflushed_ranges_count", 1 << 20, 0, 1 << 40);

/// Free segments that a search from the cursor looks at before it takes the shortest that fits.
pub static SEARCH_STEPS: Tunable = Tunable::new("space.search_steps", 32, 0, 1 << 16);

/// Metaslabs of a new vdev that is small, about; with one, a rounded size might leave no whole one.
pub static METASLABS_MIN_COUNT: Tunable = Tunable::new("space.metaslabs_min_count", 16, 2, 1 << 12);

/// Metaslabs of a new vdev that is large, about.
pub static METASLABS_USUAL_COUNT: Tunable =
    Tunable::new("space.metaslabs_usual_count", 200, 16, 1 << 16);

/// Bytes after which an allocator moves to the next vdev.
pub static ROTOR_BYTES: Tunable = Tunable::new("space.rotor_bytes", 1 << 20, 1, 1 << 40);

/// The part of a vdev's metaslabs, counted from its front, that data leave to metadata while they find room elsewhere;
/// those of a vdev that is opened. No more than metadata can work on at once.
pub static METADATA_SHARE: Tunable = Tunable::new("space.metadata_share", 8, 1, 1 << 20);

/// Metadata are written in runs of so many bytes, each into the lowest free segment of at least an eighth of that;
/// without one into the lowest that fits. In shorter ones they lie closer together, but a disk seeks for each of them.
pub static METADATA_RUN_BYTES: Tunable =
    Tunable::new("space.metadata_run_bytes", 1 << 20, 0, 1 << 30);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &LOADED_BYTES,
    &LOADED_COUNT,
    &LOADED_AHEAD_COUNT,
    &LOADS_PER_ALLOCATION_COUNT,
    &ALLOCATORS_COUNT,
    &FLUSHED_PER_TXG_COUNT,
    &UNFLUSHED_RANGES_COUNT,
    &SEARCH_STEPS,
    &METASLABS_MIN_COUNT,
    &METASLABS_USUAL_COUNT,
    &ROTOR_BYTES,
    &METADATA_SHARE,
    &METADATA_RUN_BYTES,
];
