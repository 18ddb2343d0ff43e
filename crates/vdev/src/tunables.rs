//! Limits of the devices' queues.

use base::tunable::Tunable;

/// Top-level vdevs of a pool that are flushed at once.
pub static FLUSHES_COUNT: Tunable = Tunable::new("vdev.flushes_count", 32, 1, 1024);

/// The most pieces of one write.
pub static RUN_PIECES_MAX: Tunable = Tunable::new("vdev.run_pieces_max", 512, 1, 1024);

/// The most bytes that are gathered for one write; a longer block is written at once.
pub static WRITE_BYTES_MAX: Tunable = Tunable::new("vdev.write_bytes_max", 1 << 20, 4096, 16 << 20);

/// How many bytes of writes may be waiting for a flush; beyond, the device is flushed at once, so that what must be
/// kept against a failing flush stays bounded.
pub static UNFLUSHED_BYTES_MAX: Tunable =
    Tunable::new("vdev.unflushed_bytes_max", 32 << 20, 0, 1 << 30);

/// Writes that no leaf took are kept, at least so many, before those of groups that nobody has any more are looked for.
pub static KEPT_WRITES_MIN: Tunable = Tunable::new("vdev.kept_writes_min", 64, 1, 1 << 20);

/// Threads that read pieces of blocks, at most, of each top-level vdev. With 0, who reads a block reads one piece after
/// the other.
pub static READ_THREADS_MAX: Tunable = Tunable::new("vdev.read_threads_max", 64, 0, 4096);

/// Pieces of blocks on devices of which reads take less than so many microseconds, most of the time, are read by who
/// waits for them: to wake a thread takes longer.
pub static PROMPT_READ_US: Tunable = Tunable::new("vdev.prompt_read_us", 30, 0, 1_000_000);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &FLUSHES_COUNT,
    &RUN_PIECES_MAX,
    &WRITE_BYTES_MAX,
    &UNFLUSHED_BYTES_MAX,
    &KEPT_WRITES_MIN,
    &READ_THREADS_MAX,
    &PROMPT_READ_US,
];
