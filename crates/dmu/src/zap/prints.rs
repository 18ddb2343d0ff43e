//! Which keys the leaves of a fat ZAP have, in little memory: 16 bits of each hash. Who asks for a key that is not
//! there mostly learns so without the leaf, which may have to be read from a device. Kept of ZAPs whose owner asks for
//! it.
//!
//! Invariant: what is known of a leaf is never less than what the leaf has, but for keys whose adding is under way. A
//! key is noted once it is in its leaf, one that goes stays noted, and a leaf that is split is forgotten before. What a
//! reader learns of a leaf counts only if nothing was noted or forgotten since before the reader looked for the leaf:
//! what came into the leaf since then is noted after that was learned, or before, and then nothing is learned.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::lock::{LockClass, RwLock, rank};
use format::zap::Leaf;

use crate::meters::METERS;

static PRINTS: LockClass = LockClass::new("dmu.zap_prints", rank::DMU + 13);

/// What a leaf takes besides its prints: its place in the map, of which a third is empty, and what an allocation costs.
const LEAF_BYTES: usize = size_of::<(u64, LeafPrints)>() * 3 / 2 + 16;
/// Prints for which there is room when a leaf gets another one.
const ROOM: usize = 8;
/// Chunks that an entry of a leaf takes at least.
const ENTRY_CHUNKS: usize = 3;

/// The memory that ZAPs may use to know which keys their leaves have ([`super::Zap::know_keys`]).
#[derive(Debug, Default)]
pub struct KeyMemory {
    limit_bytes: AtomicUsize,
    used_bytes: AtomicUsize,
}

impl KeyMemory {
    /// So many bytes from now on. If more are in use, they are given back as leaves are asked for.
    pub fn set_limit(&self, bytes: usize) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.used_bytes() > self.limit_bytes.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: usize) -> bool {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= limit);
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        self.used_bytes.fetch_update(set, fetch, more).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What is known of a leaf.
struct LeafPrints {
    /// The hashes that belong into it.
    prefix: u64,
    prefix_len: u16,
    /// The most entries that it can have: with more prints than that, many are of keys that have gone.
    max: u16,
    prints: Vec<u16>,
}

/// The lowest of the 48 bits of a hash that count in a large ZAP: those at the top are the leaf's prefix.
const fn print_of(hash: u64) -> u16 {
    let [_, _, low, high, ..] = hash.to_le_bytes();
    u16::from_le_bytes([low, high])
}

impl LeafPrints {
    fn of(leaf: &Leaf<'_>) -> Self {
        let header = leaf.header();
        let mut prints =
            Vec::with_capacity(usize::from(header.entry_count).min(leaf.chunk_count()) + ROOM);
        prints.extend(leaf.stored_entries().map(|entry| print_of(entry.hash())));
        Self {
            prefix: header.prefix,
            prefix_len: header.prefix_len,
            max: u16::try_from(leaf.chunk_count() / ENTRY_CHUNKS).unwrap_or(u16::MAX),
            prints,
        }
    }

    const fn bytes(&self) -> usize {
        LEAF_BYTES + 2 * self.prints.capacity()
    }

    fn covers(&self, hash: u64) -> bool {
        format::zap::fat::top_bits(hash, u32::from(self.prefix_len)) == self.prefix
    }

    fn has(&self, hash: u64) -> bool {
        self.prints.contains(&print_of(hash))
    }
}

/// What is known of the leaves.
#[derive(Default)]
struct Known {
    leaves: BTreeMap<u64, LeafPrints>,
    /// Rises whenever something is noted or forgotten.
    version: u64,
}

/// What is known of the leaves of a ZAP, by their blocks.
pub(super) struct Prints {
    memory: Arc<KeyMemory>,
    known: RwLock<Known>,
}

impl Prints {
    pub(super) fn new(memory: &Arc<KeyMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            known: RwLock::new(&PRINTS, Known::default()),
        }
    }

    /// Asked for before a leaf is looked for from which is to be learned.
    pub(super) fn version(&self) -> u64 {
        self.known.read().version
    }

    /// Whether it is certain that the leaf, to which the pointer table leads for a hash, has no key with that.
    pub(super) fn lacks(&self, block: u64, hash: u64) -> bool {
        let known = self.known.read();
        let leaf = known.leaves.get(&block);
        let lacks = leaf.is_some_and(|leaf| leaf.covers(hash) && !leaf.has(hash));
        drop(known);
        if lacks {
            METERS.lookups_spared.increment();
        }
        lacks
    }

    /// Learns what a leaf has that was looked for at a version.
    pub(super) fn learn(&self, block: u64, leaf: &Leaf<'_>, version: u64) {
        if self.memory.is_over() {
            self.clear();
        }
        let is_known =
            |known: &Known| known.version != version || known.leaves.contains_key(&block);
        if is_known(&self.known.read()) {
            return;
        }
        let new = LeafPrints::of(leaf);
        if !self.memory.take(new.bytes()) {
            return;
        }
        let mut known = self.known.write();
        if is_known(&known) {
            drop(known);
            self.memory.give_back(new.bytes());
        } else {
            known.leaves.insert(block, new);
        }
    }

    /// A key with this hash has come into a leaf. Who says so holds the writer's lock.
    pub(super) fn note(&self, block: u64, hash: u64) {
        let mut known = self.known.write();
        known.version += 1;
        let Some(leaf) = known.leaves.get_mut(&block) else {
            return;
        };
        if leaf.has(hash) {
            return;
        }
        let before = leaf.bytes();
        let mut fits = leaf.prints.len() < usize::from(leaf.max);
        if fits && leaf.prints.len() == leaf.prints.capacity() {
            fits = self.memory.take(2 * ROOM);
            if fits {
                leaf.prints.reserve_exact(ROOM);
            }
        }
        if fits {
            leaf.prints.push(print_of(hash));
        } else {
            known.leaves.remove(&block);
            self.memory.give_back(before);
        }
    }

    /// A leaf may come to have other keys.
    pub(super) fn forget(&self, block: u64) {
        let mut known = self.known.write();
        known.version += 1;
        if let Some(leaf) = known.leaves.remove(&block) {
            self.memory.give_back(leaf.bytes());
        }
    }

    /// The same of all.
    pub(super) fn clear(&self) {
        let mut known = self.known.write();
        known.version += 1;
        let leaves = std::mem::take(&mut known.leaves);
        let bytes = leaves.values().map(LeafPrints::bytes).sum();
        self.memory.give_back(bytes);
    }
}

impl Drop for Prints {
    // Without the lock: objects leave memory behind others.
    fn drop(&mut self) {
        let bytes = self.known.get_mut().leaves.values().map(LeafPrints::bytes);
        self.memory.give_back(bytes.sum());
    }
}

#[cfg(test)]
mod tests;
