//! Which opens of a file go past the kernel's page cache.
//!
//! A file that is only written gains nothing from cached pages, and costs two copies, memory twice
//! and a request for `security.capability`: such an open is direct. It must not leave old pages
//! with the others that have the file open, who read through the cache. The kernel drops the
//! pages of a direct write before it asks us to write; a reader may fetch them again before the
//! write is done, and be gone again. So once another open has used the cache, a direct write ends only
//! when the kernel has dropped them once more; and no open becomes direct while others use the cache, because it
//! would be slower for it.

use base::lock::{LockClass, Mutex, rank};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

static OPEN_TRACKER_CLASS: LockClass = LockClass::new("fuse.open_tracker", rank::FRONT_END + 21);

const SHARDS: usize = 16;

/// The opens of one file. Changed only under the lock of its shard.
#[derive(Debug, Default)]
struct Opens {
    /// Those that use the page cache.
    cached: AtomicU32,
    /// Those that do not.
    direct: AtomicU32,
    /// Of the first, those for reading and writing: through them pages become dirty unseen.
    mappable: AtomicU32,
    /// Those of programs that run.
    executing: AtomicU32,
    /// One of the first was without `O_DIRECT`, while somebody has had the file open: pages may have
    /// come into the cache after the kernel dropped them for a write that we have not seen yet. Who
    /// brought them may be gone.
    was_buffered: AtomicBool,
}

type Shard = Mutex<HashMap<u64, Arc<Opens>>>;

/// The files of a mount that are open.
#[derive(Debug)]
pub(crate) struct OpenTracker {
    shards: Arc<[Shard; SHARDS]>,
}

/// One open's part; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    shards: Arc<[Shard; SHARDS]>,
    node: u64,
    opens: Arc<Opens>,
    is_direct: bool,
    is_mappable: bool,
    is_executing: bool,
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenMode {
    /// Past the page cache, if nobody uses it.
    pub(crate) direct: bool,
    /// For reading and writing: it may be mapped, and its pages dirty.
    pub(crate) mappable: bool,
    /// Without `O_DIRECT`.
    pub(crate) buffered: bool,
    /// To run it.
    pub(crate) executing: bool,
}

fn shard_of(shards: &[Shard; SHARDS], node: u64) -> &Shard {
    let index = usize::try_from(node % SHARDS as u64).unwrap_or(0);
    shards.get(index).unwrap_or(&shards[0])
}

impl OpenTracker {
    pub(crate) fn new() -> Self {
        Self {
            shards: Arc::new(std::array::from_fn(|_| {
                Mutex::new(&OPEN_TRACKER_CLASS, HashMap::new())
            })),
        }
    }

    /// Takes part in a file.
    pub(crate) fn open(&self, node: u64, mode: OpenMode) -> Share {
        let mut shard = shard_of(&self.shards, node).lock();
        let opens = Arc::clone(shard.entry(node).or_default());
        let is_direct = mode.direct && opens.cached.load(Ordering::SeqCst) == 0;
        let count = if is_direct {
            &opens.direct
        } else {
            &opens.cached
        };
        count.fetch_add(1, Ordering::SeqCst);
        let is_mappable = mode.mappable && !is_direct;
        opens
            .mappable
            .fetch_add(u32::from(is_mappable), Ordering::SeqCst);
        opens
            .executing
            .fetch_add(u32::from(mode.executing), Ordering::SeqCst);
        if mode.buffered && !is_direct {
            opens.was_buffered.store(true, Ordering::SeqCst);
        }
        drop(shard);
        Share {
            shards: Arc::clone(&self.shards),
            node,
            opens,
            is_direct,
            is_mappable,
            is_executing: mode.executing,
        }
    }

    /// Whether the kernel may have dirty pages of this file.
    pub(crate) fn is_mappable(&self, node: u64) -> bool {
        let shard = shard_of(&self.shards, node).lock();
        let opens = shard.get(&node);
        opens.is_some_and(|opens| opens.mappable.load(Ordering::SeqCst) != 0)
    }

    /// Whether a program of this file runs.
    pub(crate) fn is_executed(&self, node: u64) -> bool {
        let shard = shard_of(&self.shards, node).lock();
        let opens = shard.get(&node);
        opens.is_some_and(|opens| opens.executing.load(Ordering::SeqCst) != 0)
    }
}

impl Share {
    /// Whether this open goes past the page cache.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Whether a write that was just done by this open may have left old pages in the cache. An
    /// open that comes later reads what was written. `by_hand`: the program asked for `O_DIRECT`;
    /// the kernel drops the pages after such a write only if the program waits for it in the call.
    pub(crate) fn leaves_pages(&self, by_hand: bool) -> bool {
        (self.is_direct || by_hand) && self.opens.was_buffered.load(Ordering::SeqCst)
    }

    /// Whether the kernel may have pages of the file, changed through a mapping, that it has not
    /// written back.
    pub(crate) fn maybe_dirty(&self) -> bool {
        self.opens.mappable.load(Ordering::SeqCst) != 0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shard = shard_of(&self.shards, self.node).lock();
        self.opens
            .mappable
            .fetch_sub(u32::from(self.is_mappable), Ordering::SeqCst);
        self.opens
            .executing
            .fetch_sub(u32::from(self.is_executing), Ordering::SeqCst);
        let (mine, other) = if self.is_direct {
            (&self.opens.direct, &self.opens.cached)
        } else {
            (&self.opens.cached, &self.opens.direct)
        };
        let was = mine.fetch_sub(1, Ordering::SeqCst);
        if was == 1 && other.load(Ordering::SeqCst) == 0 {
            shard.remove(&self.node);
        }
    }
}

#[cfg(test)]
mod tests;
