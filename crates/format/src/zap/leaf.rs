//! A leaf: a hash table of chains of entries, whose names and values are chains of 21-byte arrays.
//!
//! ```text
//! 0        48            48 + size/16
//! | header | u16 buckets | 24-byte chunks: entry | array | free … |
//! ```
//! Chains are sorted by collision differentiator. Every walk is bounded by the number of chunks,
//! so that a cycle ends.

mod change;

use base::ByteOrder;

pub use change::LeafMut;

use super::{BLOCK_LEAF, Value};
use crate::FormatError;
use crate::host::{swap_at, swap_u16, u16_at};
use crate::record::{get_at, record, require};

record! {
    /// What starts a leaf.
    #[doc(alias = "zap_leaf_header")]
    pub struct LeafHeader [48] {
        /// [`BLOCK_LEAF`].
        block_type: u64 = 0,
        /// The top bits that all hashes here share, right-aligned.
        prefix: u64 = 16,
        /// [`LeafHeader::MAGIC`].
        magic: u32 = 24,
        /// Free chunks.
        free_count: u16 = 28,
        /// Entries.
        entry_count: u16 = 30,
        /// Number of bits in `prefix`.
        prefix_len: u16 = 32,
        /// The first free chunk, [`CHAIN_END`] when there is none.
        free_list: u16 = 34,
        /// See [`LeafHeader::FLAG_SORTED`].
        flags: u8 = 36,
    }
}

impl LeafHeader {
    /// The magic number.
    pub const MAGIC: u32 = 0x02AB_1EAF;
    /// Chains are sorted by collision differentiator.
    pub const FLAG_SORTED: u8 = 1;
}

record! {
    /// A chunk that starts an entry.
    #[doc(alias = "zap_leaf_entry")]
    pub struct EntryChunk [24] {
        /// [`CHUNK_ENTRY`].
        kind: u8 = 0,
        /// Bytes of one integer of the value.
        integer_size: u8 = 1,
        /// The next entry of the chain.
        next: u16 = 2,
        /// The first chunk of the name.
        name_chunk: u16 = 4,
        /// Bytes of the name with its NUL, or words of a word key.
        name_count: u16 = 6,
        /// The first chunk of the value.
        value_chunk: u16 = 8,
        /// Integers of the value.
        value_count: u16 = 10,
        /// Which of the entries with this hash it is.
        differentiator: u32 = 12,
        /// The hash.
        hash: u64 = 16,
    }
}

/// First byte of an entry.
pub const CHUNK_ENTRY: u8 = 252;
/// First byte of an array.
pub const CHUNK_ARRAY: u8 = 251;
/// First byte of a free chunk.
pub const CHUNK_FREE: u8 = 253;
/// No chunk: the end of a chain.
pub const CHAIN_END: u16 = 0xFFFF;
/// Data bytes of an array chunk.
pub const ARRAY_BYTES: usize = 21;
const CHUNK_SIZE: usize = 24;
const ARRAY_NEXT: usize = 22;
const FREE_NEXT: usize = 22;
const WHAT: &str = "ZAP leaf";

/// A key as callers give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'a> {
    /// A name without its NUL.
    Name(&'a [u8]),
    /// An array of words.
    Words(&'a [u64]),
}

impl Key<'_> {
    /// The bytes in the leaf: a name with its NUL, words big-endian.
    #[must_use]
    pub fn stored(&self) -> Vec<u8> {
        match self {
            Self::Name(name) => name.iter().copied().chain([0]).collect(),
            Self::Words(words) => words.iter().flat_map(|word| word.to_be_bytes()).collect(),
        }
    }

    fn count(&self) -> usize {
        match self {
            Self::Name(name) => name.len() + 1,
            Self::Words(words) => words.len(),
        }
    }
}

/// Where things are in a leaf of some block size.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    buckets: usize,
    chunks: u16,
}

impl Geometry {
    fn of(size: usize) -> Option<Self> {
        if !size.is_power_of_two() || !(512..=1 << 20).contains(&size) {
            return None;
        }
        let buckets = size / 32;
        Some(Self {
            buckets,
            chunks: u16::try_from((size - 2 * buckets) / CHUNK_SIZE - 2).ok()?,
        })
    }

    #[inline]
    fn bucket_offset(self, bucket: usize) -> usize {
        LeafHeader::SIZE + 2 * bucket.min(self.buckets - 1)
    }

    #[inline]
    fn chunk_offset(self, chunk: u16) -> Option<usize> {
        (chunk < self.chunks)
            .then(|| LeafHeader::SIZE + 2 * self.buckets + usize::from(chunk) * CHUNK_SIZE)
    }

    /// The bucket of a hash: the bits that follow the leaf's prefix.
    fn bucket(self, hash: u64, prefix_len: u16) -> usize {
        let bits = self.buckets.trailing_zeros();
        let shift = 64u32
            .saturating_sub(bits)
            .saturating_sub(u32::from(prefix_len));
        let bucket = (hash >> shift) & (self.buckets as u64 - 1);
        usize::try_from(bucket).unwrap_or(0)
    }
}

/// Chunks that hold `bytes` bytes.
#[must_use]
pub const fn array_chunks(bytes: usize) -> usize {
    bytes.div_ceil(ARRAY_BYTES)
}

/// Chunks that an entry takes.
#[must_use]
pub fn entry_chunks(key: &Key<'_>, value: &Value) -> usize {
    let key_bytes = match key {
        Key::Name(name) => name.len() + 1,
        Key::Words(words) => words.len() * 8,
    };
    1 + array_chunks(key_bytes) + array_chunks(value.stored().len())
}

fn invalid(field: &'static str, value: u64) -> FormatError {
    FormatError::Invalid {
        what: WHAT,
        field,
        value,
    }
}

/// A leaf to be read (host order).
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    bytes: &'a [u8],
    geometry: Geometry,
    prefix_len: u16,
}

impl<'a> Leaf<'a> {
    /// Checks that the block is a leaf.
    ///
    /// # Errors
    /// A block size that no leaf has, or a wrong magic.
    pub fn new(bytes: &'a [u8]) -> Result<Self, FormatError> {
        require(WHAT, bytes, LeafHeader::SIZE)?;
        let geometry =
            Geometry::of(bytes.len()).ok_or_else(|| invalid("block size", bytes.len() as u64))?;
        let header = LeafHeader::decode_padded(bytes, ByteOrder::NATIVE);
        if header.block_type != BLOCK_LEAF || header.magic != LeafHeader::MAGIC {
            return Err(FormatError::BadMagic {
                what: WHAT,
                found: header.magic.into(),
            });
        }
        if header.prefix_len >= 64 {
            return Err(invalid("prefix length", header.prefix_len.into()));
        }
        Ok(Self {
            bytes,
            geometry,
            prefix_len: header.prefix_len,
        })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> LeafHeader {
        LeafHeader::decode_padded(self.bytes, ByteOrder::NATIVE)
    }

    /// Whether a hash belongs in this leaf.
    #[must_use]
    pub fn covers(&self, hash: u64) -> bool {
        super::fat::top_bits(hash, u32::from(self.prefix_len)) == self.header().prefix
    }

    /// All chunks of the leaf, free or not.
    #[must_use]
    pub fn chunk_count(&self) -> usize {
        self.geometry.chunks.into()
    }

    #[inline]
    fn chunk(&self, chunk: u16, kind: u8) -> Option<&'a [u8]> {
        let start = self.geometry.chunk_offset(chunk)?;
        let bytes = self.bytes.get(start..start + CHUNK_SIZE)?;
        (bytes.first() == Some(&kind)).then_some(bytes)
    }

    /// The entry that starts at a chunk.
    #[must_use]
    #[inline]
    pub fn entry(&self, chunk: u16) -> Option<Entry<'a>> {
        let bytes = self.chunk(chunk, CHUNK_ENTRY)?;
        let fields = EntryChunk::decode_padded(bytes, ByteOrder::NATIVE);
        Some(Entry {
            leaf: *self,
            chunk,
            fields,
        })
    }

    #[inline]
    fn chain(&self, bucket: usize) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let leaf = *self;
        let mut next = u16_at(leaf.bytes, leaf.geometry.bucket_offset(bucket));
        let mut left = leaf.geometry.chunks;
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let entry = leaf.entry(next)?;
            next = entry.fields.next;
            Some(entry)
        })
    }

    /// The entries with this hash, lowest differentiator first.
    pub fn find(&self, hash: u64) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        self.chain(self.geometry.bucket(hash, self.prefix_len))
            .filter(move |entry| entry.fields.hash == hash)
    }

    /// The entry with this hash and key.
    #[must_use]
    pub fn find_key(&self, hash: u64, key: &Key<'_>) -> Option<Entry<'a>> {
        self.find(hash).find(|entry| entry.has_key(key))
    }

    /// All entries, in the order of their buckets.
    #[inline]
    pub fn entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let leaf = *self;
        let mut left = leaf.geometry.chunks;
        (0..leaf.geometry.buckets)
            .flat_map(move |bucket| leaf.chain(bucket))
            .take_while(move |_| {
                let more = left > 0;
                left = left.saturating_sub(1);
                more
            })
    }

    /// All entries, in the order in which they lie in the leaf: the fastest. What no bucket leads to any more is free
    /// by its type.
    #[inline]
    pub fn stored_entries(&self) -> impl Iterator<Item = Entry<'a>> + use<'a> {
        let leaf = *self;
        (0..leaf.geometry.chunks).filter_map(move |chunk| leaf.entry(chunk))
    }

    /// All entries in ascending (hash, differentiator): the order of listings.
    #[must_use]
    pub fn sorted_entries(&self) -> Vec<Entry<'a>> {
        let mut entries: Vec<_> = self.entries().collect();
        entries.sort_unstable_by_key(|entry| (entry.fields.hash, entry.fields.differentiator));
        entries
    }

    /// The lowest differentiator that no entry with this hash has.
    #[must_use]
    pub fn unused_differentiator(&self, hash: u64) -> u32 {
        let mut used: Vec<_> = self
            .find(hash)
            .map(|entry| entry.fields.differentiator)
            .collect();
        used.sort_unstable();
        used.dedup();
        let mut lowest = 0;
        for value in used {
            if value != lowest {
                break;
            }
            lowest = lowest.saturating_add(1);
        }
        lowest
    }

    /// The bytes of an array of `length` bytes that starts at `chunk`.
    fn array(&self, chunk: u16, length: usize) -> Result<Vec<u8>, FormatError> {
        if array_chunks(length) > usize::from(self.geometry.chunks) {
            return Err(invalid("array length", length as u64));
        }
        let mut out = Vec::with_capacity(length);
        let mut next = chunk;
        while out.len() < length {
            let bytes = self
                .chunk(next, CHUNK_ARRAY)
                .ok_or_else(|| invalid("array chunk", next.into()))?;
            let data = bytes.get(1..ARRAY_NEXT).unwrap_or(&[]);
            let take = data.len().min(length - out.len());
            out.extend_from_slice(data.get(..take).unwrap_or(&[]));
            next = get_at(bytes, ARRAY_NEXT, ByteOrder::NATIVE);
        }
        Ok(out)
    }

    /// Whether the array that starts at `chunk` is exactly these bytes.
    fn array_is(&self, chunk: u16, wanted: impl Iterator<Item = u8>) -> bool {
        let mut next = chunk;
        let mut data: &[u8] = &[];
        for byte in wanted {
            if data.is_empty() {
                let Some(bytes) = self.chunk(next, CHUNK_ARRAY) else {
                    return false;
                };
                data = bytes.get(1..ARRAY_NEXT).unwrap_or(&[]);
                next = get_at(bytes, ARRAY_NEXT, ByteOrder::NATIVE);
            }
            match data.split_first() {
                Some((first, rest)) if *first == byte => data = rest,
                _ => return false,
            }
        }
        true
    }
}

/// An entry of a leaf.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    leaf: Leaf<'a>,
    chunk: u16,
    fields: EntryChunk,
}

impl<'a> Entry<'a> {
    /// The chunk that names the entry within its leaf.
    #[must_use]
    pub fn chunk(&self) -> u16 {
        self.chunk
    }

    /// The hash.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.fields.hash
    }

    /// Which of the entries with this hash it is.
    #[must_use]
    pub fn differentiator(&self) -> u32 {
        self.fields.differentiator
    }

    /// Whether the entry's key is this one, byte for byte.
    #[must_use]
    pub fn has_key(&self, key: &Key<'_>) -> bool {
        if usize::from(self.fields.name_count) != key.count() {
            return false;
        }
        let chunk = self.fields.name_chunk;
        match key {
            Key::Name(name) => self.leaf.array_is(chunk, name.iter().copied().chain([0])),
            Key::Words(words) => self
                .leaf
                .array_is(chunk, words.iter().flat_map(|word| word.to_be_bytes())),
        }
    }

    /// The name, without its NUL.
    ///
    /// # Errors
    /// A chain of arrays that is too short or leads nowhere.
    pub fn name(&self) -> Result<Vec<u8>, FormatError> {
        let mut name = self
            .leaf
            .array(self.fields.name_chunk, self.fields.name_count.into())?;
        while name.last() == Some(&0) {
            name.pop();
        }
        Ok(name)
    }

    /// The name, without allocating, when it is short enough to lie in one chunk.
    #[must_use]
    #[inline]
    pub fn short_name(&self) -> Option<&'a [u8]> {
        let count = usize::from(self.fields.name_count);
        let chunk = self.leaf.chunk(self.fields.name_chunk, CHUNK_ARRAY)?;
        let name = chunk.get(1..1 + ARRAY_BYTES)?.get(..count)?;
        let end = name.iter().rposition(|byte| *byte != 0)?;
        name.get(..=end)
    }

    /// The key of a ZAP with word keys.
    ///
    /// # Errors
    /// As [`Entry::name`].
    pub fn words(&self) -> Result<Vec<u64>, FormatError> {
        let bytes = self.leaf.array(
            self.fields.name_chunk,
            usize::from(self.fields.name_count) * 8,
        )?;
        Ok(bytes
            .chunks_exact(8)
            .map(|word| get_at(word, 0, ByteOrder::Big))
            .collect())
    }

    /// Whether the value is one u64.
    #[must_use]
    #[inline]
    pub fn is_word(&self) -> bool {
        self.fields.integer_size == 8 && self.fields.value_count == 1
    }

    /// The value.
    ///
    /// # Errors
    /// As [`Entry::name`], or an integer size that no value has.
    pub fn value(&self) -> Result<Value, FormatError> {
        let fields = &self.fields;
        let length = usize::from(fields.value_count) * usize::from(fields.integer_size);
        Value::from_stored(
            fields.integer_size,
            self.leaf.array(fields.value_chunk, length)?,
        )
    }

    /// The value when it is one u64, without allocating.
    #[must_use]
    #[inline]
    pub fn word_value(&self) -> Option<u64> {
        if !self.is_word() {
            return None;
        }
        let bytes = self.leaf.chunk(self.fields.value_chunk, CHUNK_ARRAY)?;
        Some(get_at(bytes, 1, ByteOrder::Big))
    }

    /// Whether the key is stored as `count` (bytes with NUL, or words).
    #[must_use]
    pub fn key_count(&self) -> u16 {
        self.fields.name_count
    }
}

/// Swaps a leaf to host order; arrays need none.
pub(super) fn swap(block: &mut [u8]) {
    let Some(geometry) = Geometry::of(block.len()) else {
        return;
    };
    for offset in [0, 8, 16] {
        swap_at(block, offset, 8);
    }
    swap_at(block, 24, 4);
    for offset in [28, 30, 32, 34] {
        swap_at(block, offset, 2);
    }
    let (head, chunks) = block.split_at_mut(LeafHeader::SIZE + 2 * geometry.buckets);
    swap_u16(head.get_mut(LeafHeader::SIZE..).unwrap_or(&mut []));
    for chunk in chunks.chunks_exact_mut(CHUNK_SIZE) {
        match chunk.first() {
            Some(&CHUNK_ENTRY) => {
                for offset in [2, 4, 6, 8, 10] {
                    swap_at(chunk, offset, 2);
                }
                swap_at(chunk, 12, 4);
                swap_at(chunk, 16, 8);
            }
            Some(&CHUNK_ARRAY) => swap_at(chunk, ARRAY_NEXT, 2),
            Some(&CHUNK_FREE) => swap_at(chunk, FREE_NEXT, 2),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
