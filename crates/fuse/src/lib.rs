//! The FUSE protocol and the mounts.
//!
//! [`wire`] is the protocol as bytes; a [`Session`] reads requests from the kernel and serves them
//! from a [`Tree`]; a [`Mount`] is a session at a place. [`DatasetTree`] is the tree of a mounted
//! dataset: its live file system, and its snapshots under `.zfs`; a [`MountMultiplexer`] shows several in one mount.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod dataset;
mod dead_mounts;
mod errno;
mod handle;
mod mount;
mod mount_multiplexer;
mod node;
mod open_tracker;
mod session;
mod tree;
mod tunables;
mod unlinked;
pub mod wire;

pub use dataset::{DatasetTree, SUSPEND_WAIT, SnapshotDirectory, SnapshotEntry, SnapshotSource};
pub use dead_mounts::{remove_dead_mounts, remove_dead_mounts_of};
pub use mount::{
    MOUNT_KIND, Mount, MountFailure, MountOptions, MountState, NotWrittenBack, while_busy,
};
pub use mount_multiplexer::{MountMultiplexer, TreeTag};
pub use session::{Session, SessionError, SessionOptions, session_is_own};
pub use tree::{
    BeforeWrite, Caller, Creation, Opened, Opening, Piece, ReadReply, Reply, Tree, Writing, Written,
};
pub use tunables::{
    BUSY_IDLE_MS, BUSY_MOUNTS_MAX, BUSY_WAIT_MS, PARKED_REQUESTS_MAX, PARKED_THREADS_MAX,
    POLLS_LOSS_PARTS, POLLS_SAVED_NS_MAX, READERS_MAX, SESSION_WEIGHT, TUNABLES, WRITE_BACK,
    WRITE_BACK_WAIT_MS,
};
