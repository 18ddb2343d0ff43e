//! The table of open files: handles are numbers that the kernel returns.
//!
//! Sharded, so that two files' operations rarely meet; a lock is held for a look-up, never for an
//! operation.

use crate::dataset::Live;
use crate::open_tracker::Share;
use base::lock::{LockClass, Mutex, rank};
use posix::OpenFile;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

static HANDLES_CLASS: LockClass = LockClass::new("fuse.handles", rank::FRONT_END + 20);

const SHARDS: usize = 16;

/// An open file.
pub(crate) struct Handle {
    /// The file.
    pub(crate) file: OpenFile,
    /// The node it was opened by.
    pub(crate) node: u64,
    /// The kernel may have dirty pages of it: opened for reading and writing it may be mapped.
    pub(crate) maybe_mapped: bool,
    /// The live file system that it belongs to; none for a snapshot.
    pub(crate) live: Option<Arc<Live>>,
    /// Its part in the page cache; none for a snapshot, of which nothing is written.
    pub(crate) share: Option<Share>,
}

#[derive(Default)]
struct Shard {
    handles: Vec<Option<Arc<Handle>>>,
    free: Vec<usize>,
}

/// All open files of a mount.
pub(crate) struct Handles {
    shards: [Mutex<Shard>; SHARDS],
    next_shard: AtomicUsize,
}

impl Handles {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(&HANDLES_CLASS, Shard::default())),
            next_shard: AtomicUsize::new(0),
        }
    }

    /// Keeps `handle`; returns its number.
    pub(crate) fn insert(&self, handle: Handle) -> u64 {
        let shard_index = self.next_shard.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let handle = Some(Arc::new(handle));
        let Some(shard) = self.shards.get(shard_index) else {
            return 0;
        };
        let mut shard = shard.lock();
        let index = match shard.free.pop() {
            Some(index) => {
                if let Some(place) = shard.handles.get_mut(index) {
                    *place = handle;
                }
                index
            }
            None => {
                shard.handles.push(handle);
                shard.handles.len() - 1
            }
        };
        (index * SHARDS + shard_index) as u64
    }

    fn place(&self, number: u64) -> Option<(&Mutex<Shard>, usize)> {
        let number = usize::try_from(number).ok()?;
        Some((self.shards.get(number % SHARDS)?, number / SHARDS))
    }

    /// The open file of this number.
    pub(crate) fn get(&self, number: u64) -> Option<Arc<Handle>> {
        let (shard, index) = self.place(number)?;
        shard.lock().handles.get(index)?.clone()
    }

    /// Ends an open. The file is closed when operations under way are done.
    pub(crate) fn remove(&self, number: u64) -> Option<Arc<Handle>> {
        let (shard, index) = self.place(number)?;
        let mut shard = shard.lock();
        let handle = shard.handles.get_mut(index)?.take();
        // A number whose file was closed by `close_all` is still the kernel's until now.
        shard.free.push(index);
        handle
    }

    /// Closes the files that `which` chooses; their numbers stay taken until the kernel gives them
    /// back.
    pub(crate) fn close_all(&self, which: impl Fn(&Handle) -> bool) {
        for shard in &self.shards {
            let mut closed = Vec::new();
            for place in &mut shard.lock().handles {
                if place.as_ref().is_some_and(|handle| which(handle)) {
                    closed.extend(place.take());
                }
            }
            // Closing may free an unlinked file: not under the lock.
            drop(closed);
        }
    }

    /// What `choose` says of each open file.
    pub(crate) fn collect<T>(&self, choose: impl Fn(&Handle) -> Option<T>) -> Vec<T> {
        let mut chosen = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            chosen.extend(
                shard
                    .handles
                    .iter()
                    .flatten()
                    .filter_map(|handle| choose(handle)),
            );
        }
        chosen
    }
}
