//! Which sectors of a top-level vdev are in use: one bit each, set by many threads at once.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words are allocated in pieces of this many when first touched: a large empty vdev costs little.
const CHUNK_WORDS: usize = 8192;

/// A set of sectors.
pub(crate) struct SectorSet {
    shift: u32,
    sectors: u64,
    chunks: Vec<OnceLock<Box<[AtomicU64]>>>,
}

/// A range outside of the vdev, or not on sector boundaries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OutOfPlace;

impl SectorSet {
    /// An empty set over `bytes` bytes in sectors of `1 << shift`.
    pub(crate) fn new(bytes: u64, shift: u32) -> Self {
        let sectors = bytes >> shift;
        let words = sectors.div_ceil(64) as usize;
        let chunks = (0..words.div_ceil(CHUNK_WORDS))
            .map(|_| OnceLock::new())
            .collect();
        Self {
            shift,
            sectors,
            chunks,
        }
    }

    fn word(&self, index: usize) -> Option<&AtomicU64> {
        let chunk = self.chunks.get(index / CHUNK_WORDS)?;
        let words = chunk.get_or_init(|| (0..CHUNK_WORDS).map(|_| AtomicU64::new(0)).collect());
        words.get(index % CHUNK_WORDS)
    }

    fn peek(&self, index: usize) -> u64 {
        let chunk = self.chunks.get(index / CHUNK_WORDS).and_then(OnceLock::get);
        chunk.map_or(0, |words| {
            words[index % CHUNK_WORDS].load(Ordering::Relaxed)
        })
    }

    /// Applies `change` to the words of a range, each with the mask of the bits that belong to it.
    fn for_range(
        &self,
        offset: u64,
        length: u64,
        mut change: impl FnMut(usize, u64),
    ) -> Result<(), OutOfPlace> {
        let mask = (1_u64 << self.shift) - 1;
        let end = offset.checked_add(length).ok_or(OutOfPlace)?;
        if offset & mask != 0 || length & mask != 0 || end >> self.shift > self.sectors {
            return Err(OutOfPlace);
        }
        let (mut at, end) = (offset >> self.shift, end >> self.shift);
        while at < end {
            let bit = at % 64;
            let count = (64 - bit).min(end - at);
            let bits = if count == 64 {
                u64::MAX
            } else {
                ((1 << count) - 1) << bit
            };
            change((at / 64) as usize, bits);
            at += count;
        }
        Ok(())
    }

    /// Adds a range; says how many of its sectors were there already.
    pub(crate) fn insert(&self, offset: u64, length: u64) -> Result<u64, OutOfPlace> {
        let mut there = 0;
        self.for_range(offset, length, |index, bits| {
            if let Some(word) = self.word(index) {
                let before = word.fetch_or(bits, Ordering::Relaxed);
                there += u64::from((before & bits).count_ones());
            }
        })?;
        Ok(there)
    }

    /// Removes a range; says how many of its sectors were not there.
    pub(crate) fn remove(&self, offset: u64, length: u64) -> Result<u64, OutOfPlace> {
        let mut absent = 0;
        self.for_range(offset, length, |index, bits| {
            if let Some(word) = self.word(index) {
                let before = word.fetch_and(!bits, Ordering::Relaxed);
                absent += u64::from((!before & bits).count_ones());
            }
        })?;
        Ok(absent)
    }

    /// How many sectors of a range are there.
    pub(crate) fn count_in(&self, offset: u64, length: u64) -> u64 {
        let mut there = 0;
        let placed = self.for_range(offset, length, |index, bits| {
            there += u64::from((self.peek(index) & bits).count_ones());
        });
        if placed.is_ok() { there } else { 0 }
    }

    /// Bytes in the set.
    pub(crate) fn bytes(&self) -> u64 {
        let ones = |(_, word): (usize, u64)| u64::from(word.count_ones());
        let sectors: u64 = self.words().map(ones).sum();
        sectors << self.shift
    }

    /// The words of pieces that were ever touched, in order, with their places: most of a large vdev never was.
    fn words(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let touched = self.chunks.iter().enumerate();
        let touched = touched.filter_map(|(place, chunk)| Some((place, chunk.get()?)));
        touched.flat_map(|(place, words)| {
            let first = place * CHUNK_WORDS;
            let words = words.iter().enumerate();
            words.map(move |(index, word)| (first + index, word.load(Ordering::Relaxed)))
        })
    }

    /// Visits the ranges that are in this set and not in `other`, in order.
    pub(crate) fn for_each_missing_from(&self, other: &Self, visit: &mut dyn FnMut(u64, u64)) {
        let mut open: Option<(u64, u64)> = None;
        for (index, word) in self.words() {
            let mut bits = word & !other.peek(index);
            while bits != 0 {
                let start = index as u64 * 64 + u64::from(bits.trailing_zeros());
                let run = u64::from((!(bits >> bits.trailing_zeros())).trailing_zeros());
                open = match open {
                    Some((first, end)) if end == start => Some((first, start + run)),
                    Some((first, end)) => {
                        visit(first << self.shift, (end - first) << self.shift);
                        Some((start, start + run))
                    }
                    None => Some((start, start + run)),
                };
                let done = start + run - index as u64 * 64;
                bits = if done >= 64 {
                    0
                } else {
                    bits & (u64::MAX << done)
                };
            }
        }
        if let Some((first, end)) = open {
            visit(first << self.shift, (end - first) << self.shift);
        }
    }
}

#[cfg(test)]
mod tests;
