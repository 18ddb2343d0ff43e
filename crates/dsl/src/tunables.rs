//! The limits of this layer that operators and random tests may change.

use base::tunable::Tunable;

/// Dropped blocks of one kind that the sync of a head keeps in memory before it writes them to their list.
pub static KEPT_BLOCKS: Tunable = Tunable::new("dsl.kept_blocks", 4096, 1, 1 << 20);

/// Pointers of a list read at once.
pub static POINTERS_AT_ONCE: Tunable = Tunable::new("dsl.pointers_at_once", 512, 1, 1 << 16);

/// Entries of the newest part of a livelist after which a new part is begun.
pub static PART_ENTRIES: Tunable = Tunable::new("dsl.livelist_part_entries", 500_000, 1, 1 << 32);

/// Keys of deadlists that are kept in memory, of all lists together.
pub static DEAD_KEYS: Tunable = Tunable::new("dsl.dead_keys", 1 << 20, 0, 1 << 26);

/// Blocks that a txg frees in the background at most: of destroyed datasets and snapshots.
pub static BACKGROUND_BLOCKS: Tunable = Tunable::new("dsl.background_blocks", 100_000, 1, 1 << 24);

/// For how long a txg frees in the background, in milliseconds.
pub static BACKGROUND_MS: Tunable = Tunable::new("dsl.background_ms", 1000, 1, 60_000);

/// Snapshots that one task destroys in one txg at most; the rest follow in the next.
pub static DESTROY_SNAPSHOTS_TXG: Tunable =
    Tunable::new("dsl.destroy_snapshots_txg", 1000, 1, 1 << 20);

/// For how long a txg destroys snapshots, in milliseconds; each task destroys one at least.
pub static DESTROY_MS: Tunable = Tunable::new("dsl.destroy_ms", 500, 0, 60_000);

/// Entries of a livelist's part that are kept in memory at once while it is freed.
pub static LIVELIST_KEPT_ENTRIES: Tunable =
    Tunable::new("dsl.livelist_kept_entries", 65_536, 1, 1 << 22);

/// Blocks that are freed in the background between two looks at the clock.
pub static BACKGROUND_STRIDE: Tunable = Tunable::new("dsl.background_stride", 256, 1, 1 << 20);

/// Dead entries of a table of open datasets are swept when it has grown by so many.
pub static REGISTRY_SWEEP: Tunable = Tunable::new("dsl.registry_sweep", 256, 1, 1 << 20);

/// What of a pool's available bytes may be promised to writers. The rest is left to log blocks, which nobody promises.
pub static ROOM_PERCENT: Tunable = Tunable::new("dsl.room_percent", 75, 50, 75);

/// With less to promise than this, a txg closes at once when somebody asks: what is freed is wanted soon.
pub static ROOM_SHORT_BYTES: Tunable = Tunable::new("dsl.room_short_bytes", 16 << 20, 0, 1 << 40);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &KEPT_BLOCKS,
    &DEAD_KEYS,
    &BACKGROUND_BLOCKS,
    &BACKGROUND_MS,
    &DESTROY_SNAPSHOTS_TXG,
    &DESTROY_MS,
    &POINTERS_AT_ONCE,
    &PART_ENTRIES,
    &LIVELIST_KEPT_ENTRIES,
    &BACKGROUND_STRIDE,
    &REGISTRY_SWEEP,
    &ROOM_PERCENT,
    &ROOM_SHORT_BYTES,
];
