//! A connection to the kernel: who reads its requests, its notifications, its end.
//!
//! Life: [`Session::start`] answers INIT on the calling thread and has the connection read: by threads that all have in
//! common, and while it is in use by some of its own. They serve until the kernel says that the mount is gone; the last
//! one calls [`Tree::ended`].

mod awaiting;
mod busy_poll;
mod common;
mod counters;
mod dispatch;
mod durable;
mod monitor;
mod negotiate;
mod options;
mod parked;
mod reader_states;
mod readers;
mod send;
mod shared;
mod thread_pools;
mod weight;

use crate::errno;
use crate::tree::Tree;
use crate::wire::{
    Body, Dialect, InitFlags, Operation, ROOT_NODE, decode_request, inval_entry_notification,
    inval_inode_notification, invalidate_all_entries_notification,
};
use base::clock::real_now;
pub(crate) use negotiate::TRANSFER_LEN_MAX;
use negotiate::{Negotiation, Settled, negotiate};
pub use options::SessionOptions;
use send::{send, send_error};
use shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use sys::{Errno, FuseDevice};
pub use weight::session_is_own;

/// Why a connection could not be opened or used.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The kernel speaks a protocol older than 7.31.
    #[error("the kernel's FUSE protocol is too old: Linux 5.4 or later is needed")]
    KernelTooOld,
    /// The first message was no INIT.
    #[error("the FUSE connection does not begin as it should")]
    NoInit,
    /// The device failed.
    #[error("the FUSE device: {0}")]
    Device(#[source] Errno),
    /// Threads could not be started.
    #[error("threads: {0}")]
    Threads(#[source] std::io::Error),
}

/// A served connection.
#[derive(Clone)]
pub struct Session {
    shared: Arc<Shared>,
}

impl Session {
    /// Answers INIT and sees to it that requests are read.
    ///
    /// # Errors
    /// See [`SessionError`]; the mount is then useless and to be removed.
    pub fn start(
        device: FuseDevice,
        tree: Arc<dyn Tree>,
        options: &SessionOptions,
    ) -> Result<Self, SessionError> {
        let settled = initialise(&device, options)?;
        let cores = std::thread::available_parallelism().map_or(2, std::num::NonZero::get);
        let residents = if options.readers == 0 {
            cores.max(2)
        } else {
            options.readers
        };
        let shared = Arc::new(Shared::new(tree, device, settled, residents));
        let read = match common::watch(&shared) {
            true => Ok(()),
            // Its descriptor may be somebody else's as well: an ordinary user's, who has few mounts.
            false => readers::start_for_ever(&shared).map_err(SessionError::Threads),
        };
        shared.leave();
        read.map(|()| Self { shared })
    }

    /// What the kernel and we agreed on.
    #[must_use]
    pub fn flags(&self) -> InitFlags {
        self.shared.settled.flags
    }

    /// Whether the kernel gathers writes.
    #[must_use]
    pub fn gathers_writes(&self) -> bool {
        self.shared.gathers_writes()
    }

    pub(crate) fn nodes_maybe_dirty(&self) -> Vec<u64> {
        self.shared.tree.nodes_maybe_mapped()
    }

    pub(crate) fn path_of(&self, node: u64) -> Option<(Vec<u8>, u64)> {
        self.shared.tree.path_of(node)
    }

    /// Whether the kernel has said that the mount is gone and all requests are done.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.shared.has_ended()
    }

    /// Waits for the end; false when it did not come in time.
    #[must_use]
    pub fn wait_ended(&self, timeout: Duration) -> bool {
        let Some(deadline) = real_now().checked_add(timeout) else {
            return false;
        };
        self.shared.wait_ended(deadline)
    }

    /// Makes the kernel forget a node's attributes and cached data, writing dirty pages back
    /// first. Waits for that: never to be called from an operation of the tree, nor with a lock
    /// that one needs.
    pub fn invalidate_node(&self, node: u64) {
        self.notify(&inval_inode_notification(node, 0, 0));
    }

    /// Makes the kernel forget what a name means. The same restrictions hold.
    pub fn invalidate_name(&self, directory: u64, name: &[u8]) {
        self.notify(&inval_entry_notification(directory, name));
    }

    /// Makes the kernel ask again for every name, and forget what it cached of the root. False on
    /// kernels that cannot (protocols before 7.44): then each name it may know is to be
    /// invalidated by itself.
    #[must_use]
    pub fn invalidate_everything(&self) -> bool {
        self.invalidate_node(ROOT_NODE);
        self.shared.settled.has_epochs && self.notify(&invalidate_all_entries_notification())
    }

    fn notify(&self, message: &[u8]) -> bool {
        self.shared.notify(message)
    }
}

fn initialise(device: &FuseDevice, options: &SessionOptions) -> Result<Settled, SessionError> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let len = match device.read(&mut buffer) {
            Ok(len) => len,
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(error) => return Err(SessionError::Device(error)),
        };
        let message = buffer.get(..len).unwrap_or_default();
        let request = decode_request(message, Dialect::default());
        let request = request.map_err(|_| SessionError::NoInit)?;
        let unique = request.header.unique;
        let Operation::Init(init) = request.operation else {
            return Err(SessionError::NoInit);
        };
        match negotiate(&init, options) {
            Negotiation::Settled(settled, reply) => {
                send(device, unique, &[Body::init(&reply).as_bytes()]);
                return Ok(settled);
            }
            Negotiation::AskAgain(reply) => {
                send(device, unique, &[Body::init(&reply).as_bytes()]);
            }
            Negotiation::TooOld => {
                send_error(device, unique, errno::EPROTO);
                return Err(SessionError::KernelTooOld);
            }
        }
    }
}
