//! Limits of the intent log.

use base::tunable::Tunable;

/// Writes shorter than this go into the log, unless the property `logbias` says throughput.
pub(crate) static DIRECT_BYTES_MIN: Tunable =
    Tunable::new("intent.direct_bytes_min", 32 << 10, 1, 1 << 40);
/// Data blocks written under one hold of a txg.
pub(crate) static BLOCKS_A_HOLD: Tunable = Tunable::new("intent.blocks_a_hold", 32, 1, 4096);
/// Threads of a new pool that lead batches for callers who have none.
pub(crate) static LEADERS_MAX: Tunable = Tunable::new("intent.leaders_max", 32, 1, 256);
/// Leads that may wait for a thread: there is at most one a log.
pub(crate) static LEADS_MAX: Tunable = Tunable::new("intent.leads_max", 1024, 1, 1 << 16);

/// Flushes of one vdev under way at once. Two, as with batches: the second does not wait out the first.
pub(crate) static FLUSHES_MAX: Tunable = Tunable::new("intent.flushes_max", 2, 1, 64);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &DIRECT_BYTES_MIN,
    &BLOCKS_A_HOLD,
    &LEADERS_MAX,
    &LEADS_MAX,
    &FLUSHES_MAX,
];
