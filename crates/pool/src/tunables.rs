//! The limits of this layer that operators and random tests may change.

use base::tunable::Tunable;

/// Clean objects of a dataset that stay in memory. A dataset keeps the value that it was opened with.
pub static OBJECTS_MAX: Tunable = Tunable::new("pool.objects_max", 65_536, 1, 1 << 24);

/// Clean objects of the MOS that stay in memory, at most, however much memory there is. A pool keeps the value that it
/// was opened with.
pub static MOS_OBJECTS_MAX: Tunable = Tunable::new("pool.mos_objects_max", 262_144, 1, 1 << 24);

/// Entries that a txg takes out of dedup tables when they are pruned.
pub static PRUNED_AT_ONCE: Tunable = Tunable::new("pool.pruned_at_once", 20_000, 1, 1 << 24);

/// Entries in a log of a dedup table with which it is the next to be brought into the ZAPs, …
pub static DEDUP_LOG_ENTRIES: Tunable = Tunable::new("pool.dedup_log_entries", 50_000, 1, 1 << 24);
/// … and blocks of it (128 KiB), of which each txg that changes the table takes at least one.
pub static DEDUP_LOG_BLOCKS: Tunable = Tunable::new("pool.dedup_log_blocks", 200, 1, 1 << 20);
/// Both are so for each so many bytes that the cache may hold, and if that is less. An entry takes some 180 bytes.
pub static DEDUP_LOG_CACHE_BYTES: Tunable =
    Tunable::new("pool.dedup_log_cache_bytes", 512 << 20, 1 << 20, 1 << 50);
/// Entries that a txg that changes a dedup table brings from a log into the ZAPs, at least.
pub static DEDUP_FLUSHED_MIN: Tunable = Tunable::new("pool.dedup_flushed_min", 1000, 1, 1 << 24);

/// Entries of logs of dedup tables that an import for writing keeps in memory, at most, however much memory there is.
pub static DEDUP_LOG_READ_MAX: Tunable =
    Tunable::new("pool.dedup_log_read_max", 1 << 24, 1 << 16, 1 << 32);

/// Leaves of a dedup table that are read ahead at once when entries are brought into it.
pub static DEDUP_FLUSH_AHEAD: Tunable = Tunable::new("pool.dedup_flush_ahead", 32, 0, 4096);

/// What is known of the keys of dedup tables without their leaves may take such a part of what the cache may hold.
pub static DEDUP_KEYS_SHARE: Tunable = Tunable::new("pool.dedup_keys_share", 4, 1, 1 << 20);

/// Bytes of blocks of the pool's own object set that stay in memory for its syncs: half of it for dnodes and indirect
/// blocks, half for data.
pub static MOS_KEPT_BYTES: Tunable = Tunable::new("pool.mos_kept_bytes", 32 << 20, 0, 1 << 32);

/// Threads of a new pool that read ahead.
pub static PREFETCH_THREADS: Tunable = Tunable::new("pool.prefetch_threads", 4, 1, 64);

/// Bytes that may be on their way on account of reading ahead, in a new pool.
pub static PREFETCH_BYTES: Tunable = Tunable::new("pool.prefetch_bytes", 64 << 20, 0, 1 << 32);

/// Blocks that a slice of a scan's walk collects: few enough for a slice to be short.
pub static SCRUB_SLICE_BLOCKS: Tunable = Tunable::new("pool.scrub_slice_blocks", 1024, 1, 1 << 16);

/// How often the state of a scan is stored.
pub static SCRUB_STORE_NS: Tunable =
    Tunable::new("pool.scrub_store_ns", 5_000_000_000, 0, 600_000_000_000);

/// A device that comes while a resilver runs waits for its end, unless that has looked at less than so many percent of
/// what it is to look at: then it begins anew (`zfs_resilver_defer_percent`).
pub static RESILVER_DEFER_PERCENT: Tunable =
    Tunable::new("pool.resilver_defer_percent", 10, 0, 100);

/// Bytes that the removal of a device copies with a txg.
pub static REMOVAL_BYTES: Tunable = Tunable::new("pool.removal_bytes", 32 << 20, 512, 1 << 32);
/// The longest piece that the removal of a device copies to one place (`zfs_remove_max_segment`).
pub static REMOVAL_SEGMENT_BYTES: Tunable =
    Tunable::new("pool.removal_segment_bytes", 16 << 20, 512, 1 << 30);

/// How much of what a mapping maps must have become obsolete for it to be shortened, in percent
/// (`zfs_condense_indirect_obsolete_pct`).
pub static CONDENSE_OBSOLETE_PERCENT: Tunable =
    Tunable::new("pool.condense_obsolete_percent", 25, 0, 100);
/// A mapping that is no longer than this stays as it is (`zfs_condense_min_mapping_bytes`).
pub static CONDENSE_MAPPING_BYTES_MIN: Tunable =
    Tunable::new("pool.condense_mapping_bytes_min", 128 << 10, 0, 1 << 40);
/// A mapping is shortened, too, when the map of what of it is obsolete is so long
/// (`zfs_condense_max_obsolete_bytes`).
pub static CONDENSE_MAP_BYTES_MAX: Tunable =
    Tunable::new("pool.condense_map_bytes_max", 1 << 30, 8, 1 << 40);
/// Entries of a mapping that is being shortened, or of its map, that are looked at with a txg.
pub static CONDENSED_ENTRIES: Tunable =
    Tunable::new("pool.condensed_entries", 32 << 10, 1, 1 << 24);

/// What became free is trimmed in batches, one in so many txgs (`zfs_trim_txg_batch`).
pub static TRIM_BATCH_TXGS: Tunable = Tunable::new("pool.trim_batch_txgs", 32, 1, 1 << 16);

/// Intent logs that an import claims at once.
pub static CLAIMS_COUNT: Tunable = Tunable::new("pool.claims_count", 16, 1, 256);

/// Memory for blocks that a scan has found and not looked at yet, in bytes. The more, the longer the stretches in which
/// the devices are read, and the more is done again after a crash.
pub static SCAN_MEMORY_BYTES: Tunable =
    Tunable::new("pool.scan_memory_bytes", 256 << 20, 1 << 10, 1 << 40);
/// Memory for metadata that a scan has read ahead of its walk, in bytes as they are stored; 0: none is read ahead.
pub static SCAN_AHEAD_BYTES: Tunable = Tunable::new("pool.scan_ahead_bytes", 32 << 20, 0, 1 << 40);
/// The most bytes that a scan reads with one operation.
pub static SCAN_RUN_BYTES: Tunable = Tunable::new("pool.scan_run_bytes", 2 << 20, 512, 16 << 20);
/// Up to how many bytes between two blocks a scan reads along. In all it reads along no more than it was to read. A
/// disk passes over so much in no less time, for it turns no faster.
pub static SCAN_GAP_BYTES: Tunable = Tunable::new("pool.scan_gap_bytes", 1 << 20, 0, 16 << 20);
/// How many operations of a scan are under way on each device.
pub static SCAN_READERS: Tunable = Tunable::new("pool.scan_readers", 3, 1, 64);
/// The most blocks of a vdev that a scan looks at at once where a block lies on several devices.
pub static SCAN_STRIPE_READERS: Tunable = Tunable::new("pool.scan_stripe_readers", 16, 1, 256);
/// How long a scan looks at blocks before it lets the txgs that wait go on, in milliseconds.
pub static SCAN_SLICE_MS: Tunable = Tunable::new("pool.scan_slice_ms", 250, 1, 5_000);

/// Bytes in use that a txg copies at most while a RAID-Z vdev is expanded.
pub static REFLOW_SLICE_BYTES: Tunable =
    Tunable::new("pool.reflow_slice_bytes", 64 << 20, 1 << 20, 1 << 32);

/// Bytes in use that a rebuild has under way: so much is read while as much is being written.
pub static REBUILD_STEP_BYTES: Tunable =
    Tunable::new("pool.rebuild_step_bytes", 16 << 20, 1 << 20, 1 << 30);
/// The most bytes of a vdev that a rebuild copies at once.
pub static REBUILD_SEGMENT_BYTES: Tunable =
    Tunable::new("pool.rebuild_segment_bytes", 4 << 20, 64 << 10, 64 << 20);
/// Up to how many bytes between what is in use a rebuild copies along: a disk would have to seek.
pub static REBUILD_GAP_BYTES: Tunable =
    Tunable::new("pool.rebuild_gap_bytes", 512 << 10, 0, 16 << 20);
/// Whether a scrub follows the last rebuild (`zfs_rebuild_scrub_enabled`).
pub static REBUILD_SCRUB: Tunable = Tunable::new("pool.rebuild_scrub", 1, 0, 1);

/// Blocks that cannot be read and wait to be stored in the error log; what is beyond is found by the next scrub.
pub static ERRORS_PENDING_MAX: Tunable =
    Tunable::new("pool.errors_pending_max", 10_000, 1, 1 << 20);

/// Runs that the fastest side of a scrub is ahead of the slowest, beyond those that its readers have.
pub static SCAN_RUNS_AHEAD: Tunable = Tunable::new("pool.scan_runs_ahead", 4, 0, 1024);

/// With less space left than this, or than what was freed, frees are hastened.
pub static SPACE_SHORT_BYTES: Tunable =
    Tunable::new("pool.space_short_bytes", 16 << 20, 0, 1 << 40);

/// With at least so many freed bytes resting, a txg without changes writes an uberblock, for them to be usable soon
/// also in a pool that nobody changes any more.
pub static AGEING_BYTES: Tunable = Tunable::new("pool.ageing_bytes", 1 << 20, 0, 1 << 40);

/// Milliseconds in which a host that has a pool with `multihost=on` writes to each leaf, on average
/// (`zfs_multihost_interval`).
pub static MULTIHOST_INTERVAL_MS: Tunable =
    Tunable::new("pool.multihost_interval_ms", 1000, 100, 1 << 20);
/// After how many such intervals without a write it suspends the pool; 0: never, 1 counts as 2
/// (`zfs_multihost_fail_intervals`).
pub static MULTIHOST_FAIL_INTERVALS: Tunable =
    Tunable::new("pool.multihost_fail_intervals", 10, 0, 0xffff);
/// How many intervals an import waits where the host that had the pool never suspends it
/// (`zfs_multihost_import_intervals`).
pub static MULTIHOST_IMPORT_INTERVALS: Tunable =
    Tunable::new("pool.multihost_import_intervals", 20, 1, 1000);

/// Milliseconds that an import waits at most for the host that had a pool; one that asks for more is not believed.
pub static MULTIHOST_WAIT_MAX_MS: Tunable =
    Tunable::new("pool.multihost_wait_max_ms", 3_600_000, 1000, 86_400_000);

/// Milliseconds after which the server of a device that went away is asked again; twice as long after each time, …
pub static RECONNECT_MIN_MS: Tunable = Tunable::new("pool.reconnect_min_ms", 500, 10, 600_000);
/// … up to this.
pub static RECONNECT_MAX_MS: Tunable = Tunable::new("pool.reconnect_max_ms", 30_000, 10, 600_000);

/// Events that are kept, as many as OpenZFS keeps.
pub static EVENTS_MAX: Tunable = Tunable::new("pool.events_max", 512, 1, 1 << 16);

/// Error reports of a second that become events.
pub static REPORTS_MAX: Tunable = Tunable::new("pool.reports_max", 20, 1, 1 << 20);

/// A fault to be made, for tests of what comes after one: the sync of this txg, or of a later one, fails half-way. 0 is
/// none.
pub static FAULT_TXG: Tunable = Tunable::new("pool.fault_txg", 0, 0, u64::MAX);
/// What the fault is: 0 an error, 1 a failed assertion, 2 a broken invariant that another thread finds.
pub static FAULT_KIND: Tunable = Tunable::new("pool.fault_kind", 0, 0, 2);

/// No limits, and never drawn.
pub const FAULTS: &[&Tunable] = &[&FAULT_TXG, &FAULT_KIND, &device::LOCKED];

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &OBJECTS_MAX,
    &MOS_OBJECTS_MAX,
    &PRUNED_AT_ONCE,
    &DEDUP_LOG_ENTRIES,
    &DEDUP_LOG_BLOCKS,
    &DEDUP_LOG_CACHE_BYTES,
    &DEDUP_FLUSHED_MIN,
    &DEDUP_LOG_READ_MAX,
    &DEDUP_FLUSH_AHEAD,
    &DEDUP_KEYS_SHARE,
    &MOS_KEPT_BYTES,
    &PREFETCH_THREADS,
    &PREFETCH_BYTES,
    &SCRUB_SLICE_BLOCKS,
    &SCRUB_STORE_NS,
    &RESILVER_DEFER_PERCENT,
    &TRIM_BATCH_TXGS,
    &REMOVAL_BYTES,
    &REMOVAL_SEGMENT_BYTES,
    &CONDENSE_OBSOLETE_PERCENT,
    &CONDENSE_MAPPING_BYTES_MIN,
    &CONDENSE_MAP_BYTES_MAX,
    &CONDENSED_ENTRIES,
    &CLAIMS_COUNT,
    &SCAN_MEMORY_BYTES,
    &SCAN_AHEAD_BYTES,
    &SCAN_RUN_BYTES,
    &SCAN_GAP_BYTES,
    &SCAN_READERS,
    &SCAN_STRIPE_READERS,
    &SCAN_SLICE_MS,
    &REFLOW_SLICE_BYTES,
    &REBUILD_STEP_BYTES,
    &REBUILD_SEGMENT_BYTES,
    &REBUILD_GAP_BYTES,
    &REBUILD_SCRUB,
    &ERRORS_PENDING_MAX,
    &SCAN_RUNS_AHEAD,
    &SPACE_SHORT_BYTES,
    &AGEING_BYTES,
    &EVENTS_MAX,
    &MULTIHOST_INTERVAL_MS,
    &MULTIHOST_FAIL_INTERVALS,
    &MULTIHOST_IMPORT_INTERVALS,
    &MULTIHOST_WAIT_MAX_MS,
    &REPORTS_MAX,
    &RECONNECT_MIN_MS,
    &RECONNECT_MAX_MS,
];

/// Those of this crate and of all below it.
#[must_use]
pub fn all() -> Vec<&'static Tunable> {
    let crates = [
        device::TUNABLES,
        cache::TUNABLES,
        l2arc::TUNABLES,
        vdev::TUNABLES,
        space::tunables::TUNABLES,
        pipeline::TUNABLES,
        txg::TUNABLES,
        dmu::TUNABLES,
        intent::TUNABLES,
        dsl::TUNABLES,
        TUNABLES,
    ];
    crates.concat()
}
