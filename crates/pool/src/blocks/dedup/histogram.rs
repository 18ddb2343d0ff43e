//! What entries add up to, by the number of their references: the statistics that a pool stores of each ZAP, and
//! those of what logs have, which are in memory alone.

use codec::Checksum;
use format::dedup::{DedupBlock, DedupKey, DedupKeyWord, DedupValue};
use format::zap::Value;

use crate::blocks::PipelineStore;

/// Words of a bucket of the statistics: blocks, their logical, physical and allocated bytes, and the same four as
/// referenced.
pub(crate) const BUCKET_WORDS: usize = 8;
/// Bucket i is of entries with 2^i references and more.
const BUCKETS: usize = 64;
const ALLOCATED: usize = 3;
/// Which word of a bucket counts references.
const REFERENCES: usize = 4;
const REFERENCED: usize = 7;

/// What an entry adds to its bucket.
pub(super) type Sizes = [u64; BUCKET_WORDS];

/// What some entries add up to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Histogram(pub(crate) Vec<u64>);

impl Default for Histogram {
    fn default() -> Self {
        Self(vec![0; BUCKETS * BUCKET_WORDS])
    }
}

/// Bytes that are stored, and that pointers lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    pub(super) stored: u64,
    pub(super) referenced: u64,
}

impl Histogram {
    /// Counts an entry, or takes it out. One without references is in no bucket.
    pub(super) fn change(&mut self, sizes: &Sizes, change: fn(u64, u64) -> u64) {
        let Some(bucket) = sizes[REFERENCES].checked_ilog2() else {
            return;
        };
        let at = bucket as usize * BUCKET_WORDS;
        for (sum, word) in self.0.iter_mut().skip(at).zip(sizes) {
            *sum = change(*sum, *word);
        }
    }

    /// Adds another one.
    pub(super) fn merge(&mut self, other: &Self) {
        for (sum, word) in self.0.iter_mut().zip(&other.0) {
            *sum = sum.saturating_add(*word);
        }
    }

    pub(super) fn sums(&self) -> Sums {
        let mut sums = Sums::default();
        for bucket in self.0.chunks_exact(BUCKET_WORDS) {
            sums.stored = sums.stored.saturating_add(bucket[ALLOCATED]);
            sums.referenced = sums.referenced.saturating_add(bucket[REFERENCED]);
        }
        sums
    }

    /// As the pool stores it.
    pub(super) fn value(&self) -> Value {
        Value::words(&self.0)
    }
}

/// What an entry adds to the statistics: blocks, their logical, physical and allocated bytes, and the same four as
/// referenced.
pub(super) fn sizes_of(
    store: &PipelineStore,
    kind: Checksum,
    key: &DedupKey,
    value: &DedupValue,
) -> Sizes {
    let [.., properties] = *key;
    let at = DedupKeyWord::AT;
    let bytes = |sectors: u64| (sectors + 1) * 512;
    let lsize = bytes(at.logical_size.get(properties));
    let psize = bytes(at.physical_size.get(properties));
    let mut words = [0_u64; BUCKET_WORDS];
    let stored = |block: &&DedupBlock| block.is_stored();
    for block in value.blocks.iter().filter(stored) {
        let dsize = store.charge(&block.pointer(kind, key));
        let references = block.references;
        let once = [1, lsize, psize, dsize];
        let each = once.map(|size| size.saturating_mul(references));
        for (word, size) in words.iter_mut().zip(once.into_iter().chain(each)) {
            *word = word.saturating_add(size);
        }
    }
    words
}
