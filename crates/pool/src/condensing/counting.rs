//! How many bytes of each entry of a mapping are obsolete: what the mapping has noted, and what a map says since.

use base::ObjectId;
use format::space_map::{self, Action, Entry};
use vdev::Mapping;

use crate::allocation::maps::MosSpaceStore;
use crate::error::{PoolError, Result};
use crate::mos::mapping::MappingObject;

/// Bytes of the largest entry of a map.
const MAP_ENTRY_BYTES: u64 = 16;

/// See the module.
pub(super) struct Counting {
    /// By entry, as far as they are read.
    counts: Vec<u32>,
    /// Bytes of the map that are applied.
    map_at: u64,
    /// Bytes that the map said to be obsolete.
    applied: u64,
    is_applied: bool,
}

fn damaged() -> PoolError {
    let text = "what it says to be obsolete of a removed vdev contradicts itself";
    PoolError::Damaged(text.to_owned())
}

impl Counting {
    /// Nothing is counted yet.
    pub(super) const fn new() -> Self {
        Self {
            counts: Vec::new(),
            map_at: 0,
            applied: 0,
            is_applied: false,
        }
    }

    /// Whether the numbers of all entries are read.
    pub(super) fn is_done(&self, mapping: &Mapping) -> bool {
        self.counts.len() >= mapping.len()
    }

    /// Whether the map is applied.
    pub(super) const fn is_applied(&self) -> bool {
        self.is_applied
    }

    /// Reads the numbers of some more entries.
    pub(super) fn count_entries(
        &mut self,
        mapping: &Mapping,
        old: &MappingObject,
        count: usize,
    ) -> Result<()> {
        let first = self.counts.len();
        let count = count.min(mapping.len().saturating_sub(first));
        self.counts.extend(old.counts(first, count)?);
        Ok(())
    }

    /// Applies some more entries of the map: whole blocks, as no entry lies in two.
    pub(super) fn apply_some(
        &mut self,
        mapping: &Mapping,
        (maps, map): (&MosSpaceStore, ObjectId),
        count: usize,
    ) -> Result<()> {
        let block = maps.block_bytes(map)?.max(1);
        let bytes = (count as u64).saturating_mul(MAP_ENTRY_BYTES);
        let bytes = bytes.checked_next_multiple_of(block).unwrap_or(block);
        let read = maps.part(map, self.map_at, bytes)?;
        for entry in space_map::decode(&read, 0) {
            self.apply(mapping, &entry.map_err(|_| damaged())?)?;
        }
        self.map_at = self.map_at.saturating_add(read.len() as u64);
        self.is_applied = (read.len() as u64) < bytes;
        Ok(())
    }

    /// Adds what a range takes of each entry. All ranges together are no longer than the mapping: none lies in another.
    fn apply(&mut self, mapping: &Mapping, range: &Entry) -> Result<()> {
        let end = range.offset.saturating_add(range.length);
        if range.action != Action::Allocate {
            return Err(damaged());
        }
        let mut number = mapping.number_behind(range.offset);
        while let Some(entry) = mapping.entry(number).filter(|entry| entry.source < end) {
            let stop = entry.source.saturating_add(entry.len).min(end);
            let bytes = stop.saturating_sub(entry.source.max(range.offset));
            self.applied = self.applied.saturating_add(bytes);
            let count = self.counts.get_mut(number).ok_or_else(damaged)?;
            *count = count.saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
            number += 1;
        }
        if self.applied > mapping.bytes() {
            return Err(damaged());
        }
        Ok(())
    }

    /// How many bytes of an entry of that length are obsolete; none if all are, and it is not needed any more. Of one
    /// of which more is said to be obsolete than there is, nobody knows: all of it is needed.
    pub(super) fn left_of(&self, number: usize, len: u64) -> Option<u32> {
        let count = self.counts.get(number).copied().unwrap_or(0);
        match u64::from(count).cmp(&len) {
            std::cmp::Ordering::Less => Some(count),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(0),
        }
    }
}

#[cfg(test)]
mod tests;
