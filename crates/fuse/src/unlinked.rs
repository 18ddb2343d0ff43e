//! Files whose last name is gone while the kernel still knows their node.
//!
//! Who has one open, or stands in it, asks for its attributes until the kernel forgets the node. A
//! file that was opened here has a handle and stays an object; a directory, which the kernel opens
//! by itself, and a file that somebody only looks at (`O_PATH`) are remembered here.

use crate::tunables;
use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};
use posix::{Attributes, Removed};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

static UNLINKED_CLASS: LockClass = LockClass::new("fuse.unlinked", rank::FRONT_END + 22);

const SHARDS: usize = 16;

/// What is left of a file.
enum Left {
    /// Its object, until this is dropped.
    Object { _held: Removed },
    /// What `stat` says.
    Attributes(Box<Attributes>),
}

/// All such files of a mount, by node id.
pub(crate) struct UnlinkedFiles {
    shards: [Mutex<HashMap<u64, Left>>; SHARDS],
    count: AtomicUsize,
}

impl UnlinkedFiles {
    pub(crate) fn new() -> Self {
        Self {
            shards: std::array::from_fn(|_| Mutex::new(&UNLINKED_CLASS, HashMap::new())),
            count: AtomicUsize::new(0),
        }
    }

    fn shard(&self, node: u64) -> Option<&Mutex<HashMap<u64, Left>>> {
        let mixed = node.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        self.shards
            .get(usize::try_from(mixed).unwrap_or(0) % SHARDS)
    }

    /// Remembers the file of `node`, from which a name was taken, if that was its last.
    pub(crate) fn insert(&self, node: u64, removed: Removed) {
        let holds = removed.holds();
        let attributes = removed.attributes();
        if !holds && attributes.links != 0 {
            return;
        }
        let Some(shard) = self.shard(node) else {
            return;
        };
        let mut shard = shard.lock();
        let left = if holds {
            Left::Object { _held: removed }
        } else if shard.len() < tunables::UNLINKED_MAX.count() {
            Left::Attributes(Box::new(attributes))
        } else {
            return;
        };
        let before = shard.insert(node, left);
        if before.is_none() {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        drop(shard);
        // Dropping may free an object: not under the lock.
        drop(before);
    }

    /// The attributes that `object`, which is no object any more, had under this node.
    pub(crate) fn attributes(&self, node: u64, object: ObjectId) -> Option<Attributes> {
        match self.shard(node)?.lock().get(&node)? {
            Left::Attributes(last) if last.object == object => Some(**last),
            Left::Object { .. } | Left::Attributes(_) => None,
        }
    }

    /// The kernel has forgotten the node.
    pub(crate) fn forget(&self, node: u64) {
        // Nearly always.
        if self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let Some(shard) = self.shard(node) else {
            return;
        };
        let left = shard.lock().remove(&node);
        if left.is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
        }
        drop(left);
    }

    /// Nobody looks any more.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            let all = std::mem::take(&mut *shard.lock());
            self.count.fetch_sub(all.len(), Ordering::Relaxed);
            drop(all);
        }
    }
}
