//! Limits of new engines.

use base::tunable::Tunable;

/// Dirty bytes at which reservations park, however much memory there is.
pub(crate) static DIRTY_BYTES_CAP: Tunable =
    Tunable::new("txg.dirty_bytes_cap", 4 << 30, 1 << 20, 1 << 40);
/// Age at which an open txg closes.
pub(crate) static AGE_NS: Tunable =
    Tunable::new("txg.age_ns", 5_000_000_000, 1_000_000, 600_000_000_000);
/// Dirty bytes of one txg, in percent of the limit, at which it closes.
pub(crate) static SYNC_PERCENT: Tunable = Tunable::new("txg.sync_percent", 20, 1, 100);
/// Dirty bytes, in percent of the limit, from which reservations are delayed.
pub(crate) static DELAY_MIN_PERCENT: Tunable = Tunable::new("txg.delay_min_percent", 60, 1, 99);
/// The longest delay of one reservation.
pub(crate) static DELAY_MAX_NS: Tunable =
    Tunable::new("txg.delay_max_ns", 100_000_000, 0, 1_000_000_000);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &DIRTY_BYTES_CAP,
    &AGE_NS,
    &SYNC_PERCENT,
    &DELAY_MIN_PERCENT,
    &DELAY_MAX_NS,
];
