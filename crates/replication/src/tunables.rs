//! Limits of streams.

use base::tunable::Tunable;

/// Ranges of a redaction list that are found before they go to the list.
pub(crate) static REDACTION_BATCH: Tunable =
    Tunable::new("replication.redaction_batch", 4096, 1, 8192);

/// Rest after each of these batches, for pools that others are to have.
pub(crate) static REDACTION_REST_MS: Tunable =
    Tunable::new("replication.redaction_rest_ms", 0, 0, 10_000);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[&REDACTION_BATCH];

/// Those that only make things slow: no random test draws them.
pub const RESTS: &[&Tunable] = &[&REDACTION_REST_MS];
