//! Changing a leaf: insert, replace a value, remove, split. Each either does all of its work or,
//! when the leaf has no room or is damaged, none.

use base::ByteOrder;

use super::{
    ARRAY_BYTES, ARRAY_NEXT, CHAIN_END, CHUNK_ARRAY, CHUNK_ENTRY, CHUNK_FREE, CHUNK_SIZE, Entry,
    EntryChunk, FREE_NEXT, Geometry, Key, Leaf, LeafHeader, WHAT, array_chunks, entry_chunks,
    invalid,
};
use crate::FormatError;
use crate::host::{put_u16, u16_at};
use crate::zap::{BLOCK_LEAF, Value};

/// How many there are, as an entry says it.
fn stored_count(count: usize) -> Result<u16, FormatError> {
    u16::try_from(count).map_err(|_| FormatError::NoRoom {
        what: WHAT,
        needed: count,
        available: u16::MAX.into(),
    })
}

/// A leaf to be changed (host order).
#[derive(Debug)]
pub struct LeafMut<'a> {
    bytes: &'a mut [u8],
    geometry: Geometry,
}

impl<'a> LeafMut<'a> {
    /// Makes `bytes` an empty leaf for the hashes that start with `prefix`.
    ///
    /// # Errors
    /// A block size that no leaf has.
    pub fn create(
        bytes: &'a mut [u8],
        prefix: u64,
        prefix_len: u16,
        sorted: bool,
    ) -> Result<Self, FormatError> {
        let geometry =
            Geometry::of(bytes.len()).ok_or_else(|| invalid("block size", bytes.len() as u64))?;
        bytes.fill(0);
        let mut leaf = Self { bytes, geometry };
        for bucket in 0..geometry.buckets {
            put_u16(leaf.bytes, geometry.bucket_offset(bucket), CHAIN_END);
        }
        for chunk in 0..geometry.chunks {
            let last = chunk + 1 == geometry.chunks;
            leaf.set_free(chunk, if last { CHAIN_END } else { chunk + 1 });
        }
        leaf.set_header(&LeafHeader {
            block_type: BLOCK_LEAF,
            prefix,
            magic: LeafHeader::MAGIC,
            free_count: geometry.chunks,
            entry_count: 0,
            prefix_len,
            free_list: 0,
            flags: if sorted { LeafHeader::FLAG_SORTED } else { 0 },
        });
        Ok(leaf)
    }

    /// Checks that the block is a leaf.
    ///
    /// # Errors
    /// As [`Leaf::new`].
    pub fn new(bytes: &'a mut [u8]) -> Result<Self, FormatError> {
        let geometry = Leaf::new(bytes)?.geometry;
        Ok(Self { bytes, geometry })
    }

    /// The leaf to be read.
    #[must_use]
    pub fn as_leaf(&self) -> Leaf<'_> {
        let prefix_len = self.header().prefix_len;
        Leaf {
            bytes: self.bytes,
            geometry: self.geometry,
            prefix_len,
        }
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> LeafHeader {
        LeafHeader::decode_padded(self.bytes, ByteOrder::NATIVE)
    }

    fn set_header(&mut self, header: &LeafHeader) {
        header.encode(self.bytes, ByteOrder::NATIVE);
    }

    /// Changes the prefix, after a neighbour was merged in.
    pub fn set_prefix(&mut self, prefix: u64, prefix_len: u16) {
        let header = LeafHeader {
            prefix,
            prefix_len,
            ..self.header()
        };
        self.set_header(&header);
    }

    fn chunk_mut(&mut self, chunk: u16) -> Option<&mut [u8; CHUNK_SIZE]> {
        let start = self.geometry.chunk_offset(chunk)?;
        self.bytes.get_mut(start..)?.first_chunk_mut()
    }

    fn set_free(&mut self, chunk: u16, next: u16) {
        if let Some(bytes) = self.chunk_mut(chunk) {
            bytes.fill(0);
            bytes[0] = CHUNK_FREE;
            put_u16(bytes, FREE_NEXT, next);
        }
    }

    /// The first `count` chunks of the free list, checked before anything changes.
    fn free_chunks(&self, count: usize) -> Result<(Vec<u16>, u16), FormatError> {
        let header = self.header();
        if usize::from(header.free_count) < count {
            let available = header.free_count.into();
            return Err(FormatError::NoRoom {
                what: WHAT,
                needed: count,
                available,
            });
        }
        let leaf = self.as_leaf();
        let mut chunks = Vec::with_capacity(count);
        let mut next = header.free_list;
        for _ in 0..count {
            let bytes = leaf
                .chunk(next, CHUNK_FREE)
                .filter(|_| !chunks.contains(&next))
                .ok_or_else(|| invalid("free list", next.into()))?;
            chunks.push(next);
            next = u16_at(bytes, FREE_NEXT);
        }
        Ok((chunks, next))
    }

    /// Takes `count` chunks off the free list.
    fn allocate(&mut self, count: usize) -> Result<Vec<u16>, FormatError> {
        let (chunks, next) = self.free_chunks(count)?;
        let mut header = self.header();
        // As many as there are: they were counted.
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        header.free_count = header.free_count.saturating_sub(count);
        header.free_list = next;
        self.set_header(&header);
        Ok(chunks)
    }

    fn free_chunk(&mut self, chunk: u16) {
        let mut header = self.header();
        self.set_free(chunk, header.free_list);
        header.free_list = chunk;
        header.free_count = header.free_count.saturating_add(1);
        self.set_header(&header);
    }

    fn write_array(&mut self, chunks: &[u16], bytes: &[u8]) -> u16 {
        for (index, (chunk, data)) in chunks.iter().zip(bytes.chunks(ARRAY_BYTES)).enumerate() {
            let next = chunks.get(index + 1).copied().unwrap_or(CHAIN_END);
            if let Some(array) = self.chunk_mut(*chunk) {
                array.fill(0);
                array[0] = CHUNK_ARRAY;
                for (to, from) in array.iter_mut().skip(1).zip(data) {
                    *to = *from;
                }
                put_u16(array, ARRAY_NEXT, next);
            }
        }
        chunks.first().copied().unwrap_or(CHAIN_END)
    }

    fn free_array(&mut self, first: u16) {
        let mut next = first;
        for _ in 0..self.geometry.chunks {
            let Some(bytes) = self.as_leaf().chunk(next, CHUNK_ARRAY) else {
                break;
            };
            let following = u16_at(bytes, ARRAY_NEXT);
            self.free_chunk(next);
            next = following;
        }
    }

    /// Links an entry into its chain, before the first with a larger differentiator.
    fn link(&mut self, chunk: u16, hash: u64, differentiator: u32) {
        let bucket = self.geometry.bucket(hash, self.header().prefix_len);
        let mut previous = None;
        let mut next = u16_at(self.bytes, self.geometry.bucket_offset(bucket));
        for entry in self.as_leaf().chain(bucket) {
            if entry.fields.differentiator > differentiator {
                break;
            }
            previous = Some(entry.chunk);
            next = entry.fields.next;
        }
        if let Some(bytes) = self.chunk_mut(chunk) {
            put_u16(bytes, 2, next);
        }
        self.set_next(bucket, previous, chunk);
    }

    fn set_next(&mut self, bucket: usize, previous: Option<u16>, next: u16) {
        match previous {
            None => put_u16(self.bytes, self.geometry.bucket_offset(bucket), next),
            Some(previous) => {
                if let Some(bytes) = self.chunk_mut(previous) {
                    put_u16(bytes, 2, next);
                }
            }
        }
    }

    /// Inserts an entry that is not there yet; returns its chunk.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] when the leaf must be split first.
    pub fn insert(
        &mut self,
        hash: u64,
        differentiator: u32,
        key: &Key<'_>,
        value: &Value,
    ) -> Result<u16, FormatError> {
        let stored = key.stored();
        let name_count = stored_count(key.count())?;
        let value_count = stored_count(value.count())?;
        let chunks = self.allocate(entry_chunks(key, value))?;
        let (entry, arrays) = chunks
            .split_first()
            .ok_or_else(|| invalid("free list", 0))?;
        let (name, data) = arrays.split_at(array_chunks(stored.len()).min(arrays.len()));
        let fields = EntryChunk {
            kind: CHUNK_ENTRY,
            integer_size: value.integer_size(),
            next: CHAIN_END,
            name_chunk: self.write_array(name, &stored),
            name_count,
            value_chunk: self.write_array(data, value.stored()),
            value_count,
            differentiator,
            hash,
        };
        if let Some(bytes) = self.chunk_mut(*entry) {
            fields.encode(bytes, ByteOrder::NATIVE);
        }
        self.link(*entry, hash, differentiator);
        let mut header = self.header();
        header.entry_count = header.entry_count.saturating_add(1);
        self.set_header(&header);
        Ok(*entry)
    }

    fn fields(&self, chunk: u16) -> Result<EntryChunk, FormatError> {
        let entry = self.as_leaf().entry(chunk).map(|entry| entry.fields);
        entry.ok_or_else(|| invalid("entry chunk", chunk.into()))
    }

    /// Replaces the value of the entry at `chunk`.
    ///
    /// # Errors
    /// [`FormatError::NoRoom`] when the leaf must be split first.
    pub fn update(&mut self, chunk: u16, value: &Value) -> Result<(), FormatError> {
        let mut fields = self.fields(chunk)?;
        let value_count = stored_count(value.count())?;
        let old = usize::from(fields.value_count) * usize::from(fields.integer_size);
        let needed = array_chunks(value.stored().len());
        let available = usize::from(self.header().free_count) + array_chunks(old);
        if needed > available {
            return Err(FormatError::NoRoom {
                what: WHAT,
                needed,
                available,
            });
        }
        self.free_array(fields.value_chunk);
        let chunks = self.allocate(needed)?;
        fields.value_chunk = self.write_array(&chunks, value.stored());
        fields.value_count = value_count;
        fields.integer_size = value.integer_size();
        if let Some(bytes) = self.chunk_mut(chunk) {
            fields.encode(bytes, ByteOrder::NATIVE);
        }
        Ok(())
    }

    /// Removes the entry at `chunk`.
    ///
    /// # Errors
    /// When no entry starts there, or its chain does not lead to it.
    pub fn remove(&mut self, chunk: u16) -> Result<(), FormatError> {
        let fields = self.fields(chunk)?;
        let bucket = self.geometry.bucket(fields.hash, self.header().prefix_len);
        let mut previous = None;
        let mut found = false;
        for entry in self.as_leaf().chain(bucket) {
            if entry.chunk == chunk {
                found = true;
                break;
            }
            previous = Some(entry.chunk);
        }
        if !found {
            return Err(invalid("entry chain", chunk.into()));
        }
        self.set_next(bucket, previous, fields.next);
        self.free_array(fields.name_chunk);
        self.free_array(fields.value_chunk);
        self.free_chunk(chunk);
        let mut header = self.header();
        header.entry_count = header.entry_count.saturating_sub(1);
        self.set_header(&header);
        Ok(())
    }

    /// Splits the leaf by the next bit of its hashes: those with 1 go to `new`, which becomes a
    /// leaf of the same size. `words` says whether keys are arrays of words.
    ///
    /// # Errors
    /// A damaged entry, or a prefix that has no bits left. Nothing changes then.
    pub fn split(&mut self, new: &mut [u8], words: bool) -> Result<(), FormatError> {
        let header = self.header();
        let prefix_len = header.prefix_len + 1;
        if prefix_len >= 64 || new.len() != self.bytes.len() {
            return Err(invalid("prefix length", prefix_len.into()));
        }
        let entries = self.as_leaf().entries();
        let moved: Vec<_> = entries
            .map(|entry| OwnedEntry::of(&entry, words))
            .collect::<Result<_, _>>()?;
        let needed: usize = moved.iter().map(OwnedEntry::chunks).sum();
        if moved.len() != usize::from(header.entry_count)
            || needed > usize::from(self.geometry.chunks)
        {
            return Err(invalid("entry count", header.entry_count.into()));
        }
        let sorted = header.flags & LeafHeader::FLAG_SORTED != 0;
        let prefix = header.prefix << 1;
        let mut upper = LeafMut::create(new, prefix | 1, prefix_len, sorted)?;
        let mut lower = LeafMut::create(&mut *self.bytes, prefix, prefix_len, sorted)?;
        for entry in &moved {
            let one = entry.hash >> (64 - prefix_len) & 1 == 1;
            let side = if one { &mut upper } else { &mut lower };
            side.insert(entry.hash, entry.differentiator, &entry.key(), &entry.value)?;
        }
        Ok(())
    }
}

/// An entry taken out of its leaf.
struct OwnedEntry {
    hash: u64,
    differentiator: u32,
    name: Vec<u8>,
    words: Option<Vec<u64>>,
    value: Value,
}

impl OwnedEntry {
    fn of(entry: &Entry<'_>, words: bool) -> Result<Self, FormatError> {
        Ok(Self {
            hash: entry.hash(),
            differentiator: entry.differentiator(),
            name: if words { Vec::new() } else { entry.name()? },
            words: words.then(|| entry.words()).transpose()?,
            value: entry.value()?,
        })
    }

    fn key(&self) -> Key<'_> {
        self.words
            .as_deref()
            .map_or(Key::Name(&self.name), Key::Words)
    }

    fn chunks(&self) -> usize {
        entry_chunks(&self.key(), &self.value)
    }
}
