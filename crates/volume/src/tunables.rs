//! Limits of volumes.

use base::tunable::Tunable;

/// What one transaction writes at most.
pub(crate) static PIECE_BYTES: Tunable =
    Tunable::new("volume.piece_bytes", 1 << 20, 4096, 16 << 20);
/// Writes up to this many bytes that are committed at once are copied into their records.
pub(crate) static COPIED_BYTES_MAX: Tunable =
    Tunable::new("volume.copied_bytes_max", 7680, 0, 7680);
/// What is read ahead for a reader that goes on where it ended.
pub(crate) static READ_AHEAD_BYTES: Tunable =
    Tunable::new("volume.read_ahead_bytes", 4 << 20, 0, 64 << 20);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[&PIECE_BYTES, &COPIED_BYTES_MAX, &READ_AHEAD_BYTES];
