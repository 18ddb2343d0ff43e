//! The bytes of a disk that is mostly zero: chunks that copies share until they are written.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a chunk.
const CHUNK: usize = 16 << 10;

/// Chunks of a region: a copy is made of those alone that are near what is written.
const REGION: u64 = 64;

type Region = BTreeMap<u64, Arc<[u8]>>;

/// A disk's content. Clones are cheap.
#[derive(Clone, Default)]
pub struct SparseImage {
    regions: BTreeMap<u64, Arc<Region>>,
}

impl SparseImage {
    /// All zero.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            regions: BTreeMap::new(),
        }
    }

    fn chunk(&self, chunk: u64) -> Option<&Arc<[u8]>> {
        self.regions.get(&(chunk / REGION))?.get(&chunk)
    }

    fn chunks(&self) -> impl Iterator<Item = (&u64, &Arc<[u8]>)> {
        self.regions.values().flat_map(|region| region.iter())
    }

    /// The region of a chunk, for this image alone.
    fn region(&mut self, chunk: u64) -> &mut Region {
        Arc::make_mut(self.regions.entry(chunk / REGION).or_default())
    }

    /// Fills `bytes` from `offset` on.
    pub fn read(&self, offset: u64, bytes: &mut [u8]) {
        for_chunks(offset, bytes.len(), |chunk, within, range| {
            let target = &mut bytes[range];
            match self.chunk(chunk) {
                Some(source) => target.copy_from_slice(&source[within..within + target.len()]),
                None => target.fill(0),
            }
        });
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for_chunks(offset, bytes.len(), |chunk, within, range| {
            let source = &bytes[range];
            let entry = self.region(chunk).entry(chunk);
            let target = entry.or_insert_with(|| Arc::from(vec![0; CHUNK]));
            Arc::make_mut(target)[within..within + source.len()].copy_from_slice(source);
        });
    }

    /// Makes `len` bytes at `offset` zero.
    pub fn clear(&mut self, offset: u64, len: u64) {
        for_chunks(offset, len as usize, |chunk, within, range| {
            if self.chunk(chunk).is_none() {
                return;
            }
            if range.len() == CHUNK {
                self.region(chunk).remove(&chunk);
            } else if let Some(target) = self.region(chunk).get_mut(&chunk) {
                Arc::make_mut(target)[within..within + range.len()].fill(0);
            }
        });
    }

    /// Makes every byte of `len` at `offset` that one. Whole chunks are shared: it costs next to nothing.
    pub fn fill(&mut self, offset: u64, len: u64, byte: u8) {
        let whole: Arc<[u8]> = Arc::from(vec![byte; CHUNK]);
        for_chunks(offset, len as usize, |chunk, within, range| {
            if range.len() == CHUNK {
                self.region(chunk).insert(chunk, Arc::clone(&whole));
            } else {
                let entry = self.region(chunk).entry(chunk);
                let target = entry.or_insert_with(|| Arc::from(vec![0; CHUNK]));
                Arc::make_mut(target)[within..within + range.len()].fill(byte);
            }
        });
    }

    /// Every stretch that may hold something other than zeros, by rising offset.
    pub fn stretches(&self) -> impl Iterator<Item = (u64, &[u8])> {
        self.chunks()
            .map(|(chunk, bytes)| (chunk * CHUNK as u64, &bytes[..]))
    }

    /// Bytes of memory that the content takes if no copy shares it.
    #[must_use]
    pub fn memory_size(&self) -> usize {
        self.chunks().count() * CHUNK
    }

    /// A number that is equal for equal contents.
    #[must_use]
    pub fn digest(&self) -> u64 {
        // FNV-1a over words with their places; zeros do not count, so sparse or not is the same.
        let mut digest = 0xcbf2_9ce4_8422_2325u64;
        let mut mix = |word: u64| digest = (digest ^ word).wrapping_mul(0x0100_0000_01b3);
        for (offset, bytes) in self.stretches() {
            for (index, word) in bytes.chunks_exact(8).enumerate() {
                let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
                if word != 0 {
                    mix(offset + index as u64 * 8);
                    mix(word);
                }
            }
        }
        digest
    }
}

impl PartialEq for SparseImage {
    fn eq(&self, other: &Self) -> bool {
        let zero: &[u8] = &[0; CHUNK];
        let covers = |a: &Self, b: &Self| {
            a.chunks().all(|(chunk, bytes)| {
                b.chunk(*chunk).map_or(zero, |other| &other[..]) == &bytes[..]
            })
        };
        covers(self, other) && covers(other, self)
    }
}

impl Eq for SparseImage {}

impl std::fmt::Debug for SparseImage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SparseImage(digest {:016x})", self.digest())
    }
}

/// Calls `visit` for each chunk of a range: its number, where in the chunk, which part of the range.
fn for_chunks(offset: u64, len: usize, mut visit: impl FnMut(u64, usize, std::ops::Range<usize>)) {
    let mut done = 0;
    while done < len {
        let at = offset + done as u64;
        let within = (at % CHUNK as u64) as usize;
        let count = (CHUNK - within).min(len - done);
        visit(at / CHUNK as u64, within, done..done + count);
        done += count;
    }
}

#[cfg(test)]
mod tests;
