//! The limits of this crate.

use base::tunable::Tunable;

/// Threads of a mount that wait for the disk on behalf of callers.
pub(crate) static DURABLE_THREADS_MAX: Tunable =
    Tunable::new("fuse.durable_threads_max", 64, 1, 1024);

/// Requests of a mount that may wait for those threads; a reader does what is beyond.
pub(crate) static DURABLE_QUEUED_MAX: Tunable =
    Tunable::new("fuse.durable_queued_max", 4096, 1, 1 << 16);

/// Files without an object of their own that are remembered after their removal, in each shard: past that, the kernel
/// keeps more than anybody looks at, and others are stale.
pub(crate) static UNLINKED_MAX: Tunable = Tunable::new("fuse.unlinked_max", 4096, 64, 1 << 20);

/// Snapshots that a mount keeps open; the least recently used one is closed for another.
pub(crate) static SNAPSHOTS_MAX: Tunable = Tunable::new("fuse.snapshots_max", 32, 1, 4096);

/// Mounts that are not told otherwise have the kernel gather writes: 0 or 1.
pub static WRITE_BACK: Tunable = Tunable::new("fuse.write_back", 0, 0, 1);

/// So many bytes of gathered writes the kernel keeps for a mount; more than that only lengthens what has to be promised
/// and to be waited for.
pub(crate) static WRITE_BACK_BYTES: Tunable =
    Tunable::new("fuse.write_back_bytes", 4 << 20, 64 << 10, 1 << 30);

/// How long the kernel may take to write back what a snapshot, a rollback, a sync or an export needs.
pub static WRITE_BACK_WAIT_MS: Tunable =
    Tunable::new("fuse.write_back_wait_ms", 60_000, 30_000, 600_000);

/// Where the kernel can do that (since Linux 6.16), one notification has it ask again for every name: 0 or 1.
pub(crate) static NAME_EPOCHS: Tunable = Tunable::new("fuse.name_epochs", 1, 0, 1);

/// All of them.
pub const TUNABLES: &[&Tunable] = &[
    &READERS_MAX,
    &BUSY_MOUNTS_MAX,
    &BUSY_REQUESTS_MIN,
    &BUSY_IDLE_MS,
    &COMMON_READERS_PER_MOUNT,
    &PARKED_THREADS_MAX,
    &PARKED_REQUESTS_MAX,
    &POLLS_LOSS_PARTS,
    &POLLS_SAVED_NS_MAX,
    &SESSION_WEIGHT,
    &BUSY_WAIT_MS,
    &DURABLE_THREADS_MAX,
    &DURABLE_QUEUED_MAX,
    &UNLINKED_MAX,
    &SNAPSHOTS_MAX,
    &WRITE_BACK,
    &WRITE_BACK_BYTES,
    &WRITE_BACK_WAIT_MS,
    &NAME_EPOCHS,
];

/// Mounts of a process that may have readers of their own; the requests of others are read by those that all have in
/// common.
pub static BUSY_MOUNTS_MAX: Tunable = Tunable::new("fuse.busy_mounts_max", 16, 0, 1024);

/// A mount with so many requests in a tenth of a second gets readers of its own.
pub(crate) static BUSY_REQUESTS_MIN: Tunable =
    Tunable::new("fuse.busy_requests_min", 16, 1, 1 << 20);

/// A mount that has had no request for so long gives its readers back.
pub static BUSY_IDLE_MS: Tunable = Tunable::new("fuse.busy_idle_ms", 2_000, 1, 600_000);

/// So many common readers may be at requests of one mount; others are served by threads of that mount.
pub(crate) static COMMON_READERS_PER_MOUNT: Tunable =
    Tunable::new("fuse.common_readers_per_mount", 8, 1, 32);

/// Threads of a set of readers, helpers included. The last one that is free takes nothing that may wait.
pub static READERS_MAX: Tunable = Tunable::new("fuse.readers_max", 32, 2, 32);

/// Threads of a mount on which requests go on that had to wait.
pub static PARKED_THREADS_MAX: Tunable = Tunable::new("fuse.parked_threads_max", 32, 1, 1024);

/// Requests of a mount that may go on and wait for a thread. The kernel's callers are the natural bound.
pub static PARKED_REQUESTS_MAX: Tunable =
    Tunable::new("fuse.parked_requests_max", 1 << 16, 1, 1 << 20);

/// Readers that look for requests, instead of sleeping, lose at most one part in so many of the time to others who
/// compute.
pub static POLLS_LOSS_PARTS: Tunable = Tunable::new("fuse.polls_loss_parts", 64, 1, 1 << 20);

/// So much of what looking has saved counts against what it costs.
pub static POLLS_SAVED_NS_MAX: Tunable =
    Tunable::new("fuse.polls_saved_ns_max", 10_000_000, 0, 1_000_000_000);

/// While requests are read and others compute, the daemon's session has a nice value of less by so much, if it may: 0
/// for never.
pub static SESSION_WEIGHT: Tunable = Tunable::new("fuse.session_weight", 10, 0, 20);

/// How long an unmount is tried again while the mount is in use: processes in passing hold one for a moment.
pub static BUSY_WAIT_MS: Tunable = Tunable::new("fuse.busy_wait_ms", 1_000, 0, 60_000);
