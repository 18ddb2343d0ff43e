//! Limits of file systems.

use base::tunable::Tunable;

/// Writes up to this many bytes that are committed at once are copied into their records: that is cheaper than to look
/// for them again.
pub(crate) static COPIED_BYTES_MAX: Tunable = Tunable::new("posix.copied_bytes_max", 7680, 0, 7680);
/// What is read ahead for a reader at first.
pub(crate) static READ_AHEAD_BYTES_MIN: Tunable =
    Tunable::new("posix.read_ahead_bytes_min", 256 << 10, 1, 64 << 20);
/// The most that is read ahead for a reader.
pub(crate) static READ_AHEAD_BYTES_MAX: Tunable =
    Tunable::new("posix.read_ahead_bytes_max", 8 << 20, 1, 1 << 30);
/// So many reads that continue nothing does a stream outlive.
pub(crate) static READ_AHEAD_PATIENCE: Tunable =
    Tunable::new("posix.read_ahead_patience", 16, 0, 1 << 16);
/// How many files' access times are stored in one transaction.
pub(crate) static TOUCHED_MAX: Tunable = Tunable::new("posix.touched_max", 256, 1, 1024);
/// Files of a newly mounted file system that stay in memory though nobody uses them, about.
pub(crate) static FILES_MAX: Tunable = Tunable::new("posix.files_max", 65_536, 64, 1 << 24);

/// Long files that are known to wait to be freed; beyond, the unlinked set is asked.
pub(crate) static LONG_FREES_MAX: Tunable = Tunable::new("posix.long_frees_max", 1024, 0, 1 << 20);

/// Blocks that are freed with the name of a file; a longer one goes to the unlinked set first.
pub(crate) static FREED_AT_ONCE: Tunable = Tunable::new("posix.freed_at_once", 1024, 1, 1 << 20);

/// Files of a directory of attributes that one transaction frees.
pub(crate) static XATTR_FILES_TXG: Tunable = Tunable::new("posix.xattr_files_txg", 32, 1, 64);

/// Files that the table looks at for one to forget when another is entered.
pub(crate) static SWEEP: Tunable = Tunable::new("posix.sweep", 8, 1, 1 << 16);

/// The most entries of a listing that are remembered, to read their dnodes ahead once some are looked at.
pub(crate) static LISTED_MAX: Tunable = Tunable::new("posix.listed_max", 32_768, 0, 1 << 24);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &COPIED_BYTES_MAX,
    &READ_AHEAD_BYTES_MIN,
    &READ_AHEAD_BYTES_MAX,
    &READ_AHEAD_PATIENCE,
    &TOUCHED_MAX,
    &FILES_MAX,
    &LONG_FREES_MAX,
    &FREED_AT_ONCE,
    &XATTR_FILES_TXG,
    &SWEEP,
    &LISTED_MAX,
];
