//! Limits of reading ahead.

use base::tunable::Tunable;

/// Runs of blocks that may wait for a thread; those of a new prefetcher.
pub(crate) static PREFETCH_RUNS: Tunable = Tunable::new("pipeline.prefetch_runs", 1024, 1, 1 << 16);
/// The part of the cache that blocks on their way may fill: more would push each other out.
pub(crate) static PREFETCH_CACHE_SHARE: Tunable =
    Tunable::new("pipeline.prefetch_cache_share", 8, 1, 1024);
/// The most bytes that are read ahead with one operation; a longer block has its own.
pub(crate) static RUN_BYTES: Tunable =
    Tunable::new("pipeline.prefetch_run_bytes", 2 << 20, 0, 16 << 20);
/// Blocks that may lie anywhere are read ahead together with what is between them if that is no more: a disk would have
/// to seek, or to wait for as long until it has come by.
pub(crate) static GAP_BYTES: Tunable =
    Tunable::new("pipeline.prefetch_gap_bytes", 1 << 20, 0, 16 << 20);
/// How many blocks that others led to are collected at most before they are read ahead.
pub(crate) static FOLLOWED_MAX: Tunable =
    Tunable::new("pipeline.prefetch_followed_max", 4096, 1, 1 << 16);

/// Bytes read over gaps that are kept, at most; nor more than the part of the cache for blocks on their way.
pub(crate) static KEPT_BYTES: Tunable = Tunable::new("pipeline.kept_bytes", 128 << 20, 0, 1 << 40);

/// They are let go when nothing was found in them for so long, in milliseconds, or up to twice as long.
pub(crate) static KEPT_IDLE_MS: Tunable =
    Tunable::new("pipeline.kept_idle_ms", 10_000, 1, 3_600_000);

/// Blocks read ahead that are counted until they are asked for: 2 GiB of the largest usual ones. A pool keeps the value
/// that held at its first one.
pub(crate) static PREFETCH_PLACES: Tunable =
    Tunable::new("pipeline.prefetch_places", 16384, 1, 1 << 20);

/// Memory that a thread keeps between blocks; more is freed at once.
pub(crate) static SCRATCH_BYTES_MAX: Tunable =
    Tunable::new("pipeline.scratch_bytes_max", 1 << 20, 0, 1 << 30);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &PREFETCH_RUNS,
    &PREFETCH_CACHE_SHARE,
    &RUN_BYTES,
    &PREFETCH_PLACES,
    &SCRATCH_BYTES_MAX,
    &GAP_BYTES,
    &FOLLOWED_MAX,
    &KEPT_BYTES,
    &KEPT_IDLE_MS,
];
