//! One shard: S3-FIFO over a slab of entries.
//!
//! New blocks enter a small queue (a tenth of the bytes). At its end, those that were used again
//! move to the main queue, the others leave and only their names stay for a while: a block that
//! comes back while its name is remembered goes to the main queue at once. The main queue gives
//! used entries another round. One pass over a large file so displaces only the small queue.
//!
//! Blocks for a short stay (contents of files, which the kernel caches as well) have a queue of
//! their own with a limit of its own, also while there is room elsewhere: memory that was never
//! touched costs more than a block that is read twice saves. Uses in that queue do not count, for
//! the parts of one block are asked for one after the other; a block that comes back while its name
//! is remembered goes to the main queue like any other.
//!
//! Blocks that are not to be kept have a queue as well, which somebody else bounds (`cache/brief.rs`). They are neither
//! remembered nor moved, whatever becomes of them.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;

use crate::index::{Held, Index};
use crate::tunables;
use crate::{BlockKey, Stay};

const NONE: u32 = u32::MAX;
/// What an entry costs beyond its bytes: slab, table and reference counts.
const ENTRY_BYTES: usize = 160;
/// Names of evicted blocks to remember: as many as blocks present, but not fewer, and at most [`tunables::GHOSTS_MAX`].
const GHOSTS_MIN: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    Brief,
    Passing,
    Small,
    Main,
}

#[derive(Debug)]
struct Entry<V> {
    key: BlockKey,
    /// None in a slab slot that is free.
    held: Option<Arc<Held<V>>>,
    bytes: usize,
    queue: Queue,
    newer: u32,
    older: u32,
}

/// The ends of a doubly linked list through the slab.
#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    bytes: usize,
}

impl Ends {
    const EMPTY: Self = Self {
        newest: NONE,
        oldest: NONE,
        bytes: 0,
    };
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Shard<V> {
    /// Where hits look, of all shards.
    index: Arc<Index<V>>,
    table: HashMap<BlockKey, u32>,
    slab: Vec<Entry<V>>,
    free: Vec<u32>,
    brief: Ends,
    passing: Ends,
    small: Ends,
    main: Ends,
    ghosts: VecDeque<BlockKey>,
    ghost_set: HashSet<BlockKey>,
    limit_bytes: usize,
    passing_bytes_max: usize,
    evictions: u64,
}

impl<V: Clone> Shard<V> {
    pub(crate) fn new(limit_bytes: usize, passing_bytes_max: usize, index: Arc<Index<V>>) -> Self {
        Self {
            index,
            table: HashMap::new(),
            slab: Vec::new(),
            free: Vec::new(),
            brief: Ends::EMPTY,
            passing: Ends::EMPTY,
            small: Ends::EMPTY,
            main: Ends::EMPTY,
            ghosts: VecDeque::new(),
            ghost_set: HashSet::new(),
            limit_bytes,
            passing_bytes_max,
            evictions: 0,
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.brief.bytes + self.passing.bytes + self.small.bytes + self.main.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    pub(crate) fn evictions(&self) -> u64 {
        self.evictions
    }

    /// Holds a block; false: it is too large.
    pub(crate) fn insert(&mut self, key: BlockKey, value: V, bytes: usize, stay: Stay) -> bool {
        self.remove(&key);
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        if bytes > self.limit_bytes / 2 {
            return false;
        }
        while self.bytes() + bytes > self.limit_bytes {
            self.evict_one();
        }
        let queue = match stay {
            Stay::Brief | Stay::InUse => Queue::Brief,
            Stay::Short | Stay::Long if self.ghost_set.remove(&key) => Queue::Main,
            Stay::Short => Queue::Passing,
            Stay::Long => Queue::Small,
        };
        if queue == Queue::Passing {
            while self.passing.oldest != NONE && self.passing.bytes + bytes > self.passing_bytes_max
            {
                self.evict_from(Queue::Passing);
            }
        }
        let held = Arc::new(Held::new(value));
        let entry = Entry {
            key,
            held: Some(Arc::clone(&held)),
            bytes,
            queue,
            newer: NONE,
            older: NONE,
        };
        let index = if let Some(index) = self.free.pop() {
            self.slab[index as usize] = entry;
            index
        } else {
            self.slab.push(entry);
            (self.slab.len() - 1) as u32
        };
        self.table.insert(key, index);
        self.link(index, queue);
        self.index.insert(key, held);
        true
    }

    /// Whether a block that is not to be kept was used since this was asked last.
    pub(crate) fn take_uses(&self, key: &BlockKey) -> bool {
        let held = self.briefly_here(key).and_then(|at| {
            let entry = self.slab.get(at as usize)?;
            entry.held.as_ref()
        });
        held.is_some_and(|held| {
            let was_used = held.uses() > 0;
            held.set_uses(0);
            was_used
        })
    }

    /// A block that is not to be kept leaves; any other stays.
    pub(crate) fn end_brief_stay(&mut self, key: &BlockKey) {
        if self.briefly_here(key).is_some() {
            self.remove(key);
            self.evictions += 1;
        }
    }

    fn briefly_here(&self, key: &BlockKey) -> Option<u32> {
        let at = *self.table.get(key)?;
        (self.slab.get(at as usize)?.queue == Queue::Brief).then_some(at)
    }

    pub(crate) fn remove(&mut self, key: &BlockKey) {
        if let Some(index) = self.table.remove(key) {
            self.unlink(index);
            if let Some(held) = self.slab[index as usize].held.take() {
                self.index.remove(key, &held);
            }
            self.free.push(index);
        }
    }

    pub(crate) fn clear(&mut self) {
        let (limit_bytes, evictions) = (self.limit_bytes, self.evictions);
        let held: Vec<BlockKey> = self.table.keys().copied().collect();
        held.iter().for_each(|key| self.remove(key));
        *self = Self::new(limit_bytes, self.passing_bytes_max, Arc::clone(&self.index));
        self.evictions = evictions;
    }

    pub(crate) fn set_limit(&mut self, limit_bytes: usize, passing_bytes_max: usize) {
        self.limit_bytes = limit_bytes;
        self.passing_bytes_max = passing_bytes_max;
        while self.bytes() > limit_bytes {
            self.evict_one();
        }
    }

    /// Drops one entry. Ends because every step either drops one, moves one from the small queue to
    /// the main one, or lowers a use count.
    fn evict_one(&mut self) {
        let before = self.evictions;
        while self.evictions == before && !self.table.is_empty() {
            let queue = if self.small.oldest != NONE
                && (self.small.bytes > self.limit_bytes / 10 || self.main.oldest == NONE)
            {
                Queue::Small
            } else if self.main.oldest != NONE {
                Queue::Main
            } else if self.passing.oldest != NONE {
                Queue::Passing
            } else {
                Queue::Brief
            };
            self.evict_from(queue);
        }
    }

    /// Takes the oldest entry out of a queue: one that was used in the small or main queue goes to
    /// the main queue's newest end, any other is dropped.
    fn evict_from(&mut self, queue: Queue) {
        let index = self.ends(queue).oldest;
        if index == NONE {
            return;
        }
        let entry = &self.slab[index as usize];
        if let Some(held) = &entry.held
            && held.uses() > 0
            && let Some(uses) = match queue {
                Queue::Main => Some(held.uses().saturating_sub(1)),
                Queue::Small => Some(0),
                Queue::Passing | Queue::Brief => None,
            }
        {
            held.set_uses(uses);
            self.unlink(index);
            self.link(index, Queue::Main);
            return;
        }
        let key = entry.key;
        self.remove(&key);
        self.evictions += 1;
        match queue {
            Queue::Passing | Queue::Small => self.remember(key),
            Queue::Main | Queue::Brief => {}
        }
    }

    fn remember(&mut self, key: BlockKey) {
        if self.ghost_set.insert(key) {
            self.ghosts.push_back(key);
        }
        let max = self
            .table
            .len()
            .max(GHOSTS_MIN)
            .min(tunables::GHOSTS_MAX.count());
        while self.ghosts.len() > max {
            if let Some(forgotten) = self.ghosts.pop_front() {
                self.ghost_set.remove(&forgotten);
            }
        }
    }

    fn ends(&mut self, queue: Queue) -> &mut Ends {
        match queue {
            Queue::Brief => &mut self.brief,
            Queue::Passing => &mut self.passing,
            Queue::Small => &mut self.small,
            Queue::Main => &mut self.main,
        }
    }

    fn link(&mut self, index: u32, queue: Queue) {
        let bytes = self.slab[index as usize].bytes;
        let ends = self.ends(queue);
        ends.bytes += bytes;
        let older = std::mem::replace(&mut ends.newest, index);
        if older == NONE {
            ends.oldest = index;
        } else {
            self.slab[older as usize].newer = index;
        }
        let entry = &mut self.slab[index as usize];
        entry.queue = queue;
        entry.older = older;
        entry.newer = NONE;
    }

    fn unlink(&mut self, index: u32) {
        let entry = &self.slab[index as usize];
        let (queue, bytes, newer, older) = (entry.queue, entry.bytes, entry.newer, entry.older);
        if newer != NONE {
            self.slab[newer as usize].older = older;
        }
        if older != NONE {
            self.slab[older as usize].newer = newer;
        }
        let ends = self.ends(queue);
        ends.bytes -= bytes;
        if newer == NONE {
            ends.newest = older;
        }
        if older == NONE {
            ends.oldest = newer;
        }
    }
}
