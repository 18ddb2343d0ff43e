//! The one crate for system calls: files, aligned buffers, mounts, sockets.
//!
//! `unsafe` lives here, each block with its argument. No policy: what to call and when is decided
//! above.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod buffer;
mod client;
mod cpu_time;
mod dirty_pages;
mod file;
mod file_project;
mod file_rewrite;
mod fuse_abort;
mod fuse_device;
mod fuse_watch;
mod interrupt;
mod lock_holder;
mod locked;
mod mount_directory;
mod mount_holders;
mod mount_table;
mod mount_users;
mod mounts_inside;
mod passed;
mod process;
mod process_title;
mod random;
mod session_weight;
pub mod system;
mod terminal;
pub mod thread;
mod wiping;

pub use buffer::{Buffer, BufferMut, BufferPoolStats, buffer_pool_stats, set_buffer_pool_limit};
pub use client::Client;
pub use cpu_time::thread_cpu_ns;
pub use dirty_pages::{MountRoot, limit_dirty};
pub use file::{Backing, Create, File, FileKind, OpenMode, backing_file, file_kind, may_write};
pub use file_project::{FileProject, file_project, set_file_project};
pub use file_rewrite::{RewriteBirths, rewrite_file};
pub use fuse_abort::abort_fuse;
pub use fuse_device::{
    FuseDevice, FuseMountOptions, MountError, MountedEntry, MountedFlags, UnmountMode,
    change_mount_flags, is_dead_mount, mount_fuse, mount_fuse_on, mounted_entries, unmount_fuse,
};
pub use fuse_watch::FuseWatch;
pub use interrupt::{ThreadNumber, interrupt_thread};
pub use lock_holder::{LockHolder, is_locked, lock_holder};
pub use locked::Locked;
pub use mount_directory::{MountDirectory, MountWayError};
pub use mount_holders::{mount_holders, mounted_over};
pub use mount_table::MountTableWatch;
pub use mount_users::{MountUser, mount_copies, mount_device, mount_users};
pub use mounts_inside::MountsInside;
pub use passed::{PassedDescriptor, receive_descriptor, send_descriptor};
pub use process::{
    AskedSignal, PeerCredentials, SignalDescriptor, TerminationSignal, close_inherited, group_id,
    is_reader_gone, new_session, peer_credentials, raise_file_limit, replace_standard_streams,
    user_id,
};
pub use process_title::ProcessTitle;
pub use random::SystemRng;
pub use rustix::io::Errno;
pub use session_weight::{CpuUse, cpu_use, runnable_threads, session_nice, set_session_nice};
pub use terminal::HiddenInput;
pub use wiping::{WipingAllocator, with_freed_memory_wiped};
