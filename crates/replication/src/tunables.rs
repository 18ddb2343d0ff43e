//! Limits of streams.

use base::tunable::Tunable;

/// Ranges of a redaction list that are found before they go to the list.
pub(crate) static REDACTION_BATCH: Tunable =
    Tunable::new("replication.redaction_batch", 4096, 1, 8192);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[&REDACTION_BATCH];
