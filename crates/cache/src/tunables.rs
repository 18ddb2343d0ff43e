//! Limits of the cache.

use base::tunable::Tunable;

/// Shards of a new cache are at least this large, so that a large block fits into one.
pub(crate) static SHARD_BYTES_MIN: Tunable =
    Tunable::new("cache.shard_bytes_min", 32 << 20, 1 << 20, 1 << 40);
/// What a new cache may hold when nobody says, however much memory there is.
pub(crate) static LIMIT_BYTES_CAP: Tunable =
    Tunable::new("cache.limit_bytes_cap", 1 << 40, 1 << 20, 1 << 50);
/// What blocks for a short stay may take of all shards together.
pub(crate) static PASSING_BYTES_MAX: Tunable =
    Tunable::new("cache.passing_bytes_max", 256 << 20, 0, 1 << 40);

/// What blocks that are not to be kept may take of all shards together: as much as is read ahead for a few readers.
pub(crate) static BRIEF_BYTES_MAX: Tunable =
    Tunable::new("cache.brief_bytes_max", 32 << 20, 0, 1 << 40);

/// Blocks that are not to be kept may take such a part of the limit.
pub(crate) static BRIEF_SHARE: Tunable = Tunable::new("cache.brief_share", 8, 1, 1 << 20);

/// Shards of a cache; a cache keeps the value that it was made with.
pub(crate) static SHARDS_MAX: Tunable = Tunable::new("cache.shards_max", 64, 1, 1024);

/// Blocks for a short stay may take such a part of the limit.
pub(crate) static PASSING_SHARE: Tunable = Tunable::new("cache.passing_share", 4, 1, 1 << 20);

/// Names of evicted blocks that a shard remembers.
pub(crate) static GHOSTS_MAX: Tunable = Tunable::new("cache.ghosts_max", 1 << 16, 0, 1 << 24);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &SHARD_BYTES_MIN,
    &LIMIT_BYTES_CAP,
    &PASSING_BYTES_MAX,
    &BRIEF_BYTES_MAX,
    &BRIEF_SHARE,
    &SHARDS_MAX,
    &PASSING_SHARE,
    &GHOSTS_MAX,
];
