//! The limits of this layer that operators and random tests may change.

use base::tunable::Tunable;
use format::zap::micro;

/// Numbers in a run, rounded up to whole blocks of dnodes. An object set keeps the value that it was opened with.
pub static RUN_NUMBERS: Tunable = Tunable::new("dmu.run_numbers", 128, 32, 128);

/// Shards among which threads that create objects are spread, each with a run of its own; 0: one a CPU, at most
/// 64. An object set keeps the value that it was opened with.
pub static NUMBER_SHARDS: Tunable = Tunable::new("dmu.number_shards", 0, 0, 64);

/// Objects freed after which the search for free numbers may begin again at the start.
pub static FREED_FOR_RESTART: Tunable = Tunable::new("dmu.freed_for_restart", 1024, 1, 1 << 20);

/// Which part of the numbers passed by the search must have been freed for it to begin again: one in so many. Then the
/// runs on the way have room enough to pay for the look, and an object set in which objects come and go stays as large
/// as what it holds at once.
pub static FREED_SHARE: Tunable = Tunable::new("dmu.freed_share", 4, 1, 1 << 16);

/// What one transaction frees at most, in blocks; see [`crate::Object::last_free_piece`].
pub static FREE_BLOCKS_PIECE: Tunable = Tunable::new("dmu.free_blocks_piece", 16_384, 1, 1 << 20);

/// What one txg frees at most, in blocks, as far as it is said beforehand ([`crate::Reservation::freed_blocks`]).
pub static FREE_BLOCKS_TXG: Tunable = Tunable::new("dmu.free_blocks_txg", 131_072, 1, 1 << 24);

/// An object with more dirty data than this is split among the threads of a sync.
pub static SYNC_LARGE_BYTES: Tunable = Tunable::new("dmu.sync_large_bytes", 2 << 20, 0, 1 << 40);

/// Data of a split object that one job of a sync writes.
pub static SYNC_JOB_BYTES: Tunable = Tunable::new("dmu.sync_job_bytes", 1 << 20, 1, 1 << 40);

/// Blocks of dnodes that one job of a sync writes.
pub static SYNC_JOB_BLOCKS: Tunable = Tunable::new("dmu.sync_job_blocks", 8, 1, 4096);

/// Dirty bytes for which a sync has several threads.
pub static SYNC_HEAVY_BYTES: Tunable = Tunable::new("dmu.sync_heavy_bytes", 1 << 20, 0, 1 << 40);

/// Dirty objects for which a sync has several threads.
pub static SYNC_HEAVY_OBJECTS: Tunable = Tunable::new("dmu.sync_heavy_objects", 256, 1, 1 << 20);

/// The size at which a micro ZAP that is full becomes fat; above 128 KiB where the object set may hold such
/// ([`crate::ObjectSet::allow_large_micro_zaps`]). A large one is copied in each txg that changes one of its names.
pub static MICRO_ZAP_BYTES_MAX: Tunable = Tunable::new(
    "dmu.micro_zap_bytes_max",
    micro::SIZE_MAX as u64,
    512,
    micro::SIZE_MAX_LARGE as u64,
);

/// Entries of a small directory that a listing takes at once.
pub static CURSOR_ENTRIES: Tunable = Tunable::new("dmu.cursor_entries", 256, 1, 1 << 16);

/// Blocks of an object that are asked for at once when it is read ahead.
pub static PREFETCH_REQUESTS: Tunable = Tunable::new("dmu.prefetch_requests", 8, 1, 1024);

/// Entries of an indirect block that a walk which frees or rewrites reads ahead.
pub static EDITOR_AHEAD: Tunable = Tunable::new("dmu.editor_ahead", 16, 1, 512);

/// Who walks through directories has the blocks of dnodes below so many indirect blocks read ahead at once.
pub static WALK_PARTS: Tunable = Tunable::new("dmu.walk_parts", 16, 0, 4096);

/// What lies below one indirect block of dnodes is read as a whole when a walk has missed one in so many of its blocks.
pub static SWEEP_SHARE: Tunable = Tunable::new("dmu.sweep_share", 32, 1, 1 << 20);

/// The least number of blocks that a walk must have missed for that.
pub static SWEEP_MISSING_MIN: Tunable = Tunable::new("dmu.sweep_missing_min", 4, 1, 1 << 20);

/// Of a directory that has indirect blocks, so many blocks below one of them are read ahead for a walk.
pub static WALK_DIRECTORY_BLOCKS: Tunable = Tunable::new("dmu.walk_directory_blocks", 64, 0, 1024);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &RUN_NUMBERS,
    &NUMBER_SHARDS,
    &FREED_FOR_RESTART,
    &FREED_SHARE,
    &FREE_BLOCKS_PIECE,
    &FREE_BLOCKS_TXG,
    &SYNC_LARGE_BYTES,
    &SYNC_JOB_BYTES,
    &SYNC_JOB_BLOCKS,
    &SYNC_HEAVY_BYTES,
    &SYNC_HEAVY_OBJECTS,
    &MICRO_ZAP_BYTES_MAX,
    &CURSOR_ENTRIES,
    &PREFETCH_REQUESTS,
    &EDITOR_AHEAD,
    &WALK_PARTS,
    &SWEEP_SHARE,
    &SWEEP_MISSING_MIN,
    &WALK_DIRECTORY_BLOCKS,
];
