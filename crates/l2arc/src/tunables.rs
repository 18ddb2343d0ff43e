//! Limits of cache devices.

use base::tunable::Tunable;

/// Bytes that may be offered, and so written, between two feeds.
pub(crate) static WRITE_BYTES_MAX: Tunable =
    Tunable::new("l2arc.write_bytes_max", 32 << 20, 1 << 20, 1 << 32);
/// How many more while a device was not filled once.
pub(crate) static WRITE_BOOST_BYTES: Tunable =
    Tunable::new("l2arc.write_boost_bytes", 32 << 20, 0, 1 << 32);
/// Offers may hold such a part of the memory that the cache of the first level may take.
pub(crate) static OFFERED_SHARE: Tunable = Tunable::new("l2arc.offered_share", 16, 1, 1 << 20);
/// Time between two feeds.
pub(crate) static FEED_MS: Tunable = Tunable::new("l2arc.feed_ms", 1000, 1, 60_000);
/// The memory for the index of the copies is at most such a part of what the cache of the first level may take.
pub(crate) static INDEX_SHARE: Tunable = Tunable::new("l2arc.index_share", 8, 1, 1 << 20);
/// Reads at once on a device: more are answered by the pool.
pub(crate) static READS_MAX: Tunable = Tunable::new("l2arc.reads_max", 64, 1, 1 << 16);
/// While a read takes longer than this, others are answered by the pool.
pub(crate) static SLOW_READ_MS: Tunable = Tunable::new("l2arc.slow_read_ms", 200, 1, 600_000);
/// So many errors take a device out of use, until `zpool clear`.
pub(crate) static ERRORS_MAX: Tunable = Tunable::new("l2arc.errors_max", 10, 1, 1 << 20);
/// Bytes of one write.
pub(crate) static WRITE_UNIT_BYTES: Tunable =
    Tunable::new("l2arc.write_unit_bytes", 1 << 20, 64 << 10, 16 << 20);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &WRITE_BYTES_MAX,
    &WRITE_BOOST_BYTES,
    &OFFERED_SHARE,
    &FEED_MS,
    &INDEX_SHARE,
    &READS_MAX,
    &SLOW_READ_MS,
    &ERRORS_MAX,
    &WRITE_UNIT_BYTES,
];
