//! The FUSE protocol and the mounts.
//!
//! [`wire`] is the protocol as bytes; a [`Session`] reads requests from the kernel and serves them
//! from a [`Tree`]; a [`Mount`] is a session at a place. [`DatasetTree`] is the tree of a mounted
//! dataset: its live file system, and its snapshots under `.zfs`; a [`Forest`] shows several in one mount.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod dataset;
mod departed;
mod errno;
mod forest;
mod handle;
mod mount;
mod node;
mod session;
mod sharing;
mod tree;
mod tunables;
pub mod wire;

pub use dataset::{DatasetTree, SUSPEND_WAIT, SnapshotDirectory, SnapshotEntry, SnapshotSource};
pub use forest::{Forest, TreeTag};
pub use mount::{Mount, MountFailure, MountOptions, MountState, remove_dead_mounts, while_busy};
pub use session::{Session, SessionError, SessionOptions};
pub use tree::{
    Caller, Creation, Opened, Opening, Piece, ReadReply, Reply, Tree, Writing, Written,
};
pub use tunables::{
    BUSY_WAIT_MS, LOOKS_LOSS_PARTS, LOOKS_SAVED_NS_MAX, PARKED_REQUESTS_MAX, PARKED_THREADS_MAX,
    READERS_MAX, TUNABLES,
};
