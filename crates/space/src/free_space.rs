//! The free space of a metaslab, by position and by size.

use crate::RangeSet;
use std::collections::BTreeSet;
use std::ops::Range;

/// How many segments a search from the cursor looks at before it takes the smallest that fits.
const SEARCH_STEPS: usize = 32;

/// Free segments by position, with an index by size.
#[derive(Clone, Debug, Default)]
pub(crate) struct FreeSpace {
    segments: RangeSet,
    by_size: BTreeSet<(u64, u64)>,
    cursor: u64,
}

impl FreeSpace {
    pub(crate) fn largest(&self) -> u64 {
        self.by_size.last().map_or(0, |(length, _)| *length)
    }

    pub(crate) fn segments(&self) -> &RangeSet {
        &self.segments
    }

    /// False, and nothing done, when part of the range is free already.
    #[must_use]
    pub(crate) fn insert(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        if self.segments.overlaps(&range) {
            return false;
        }
        let before = range
            .start
            .checked_sub(1)
            .and_then(|last| self.segments.containing(last));
        let after = self.segments.containing(range.end);
        let mut merged = range.clone();
        for neighbour in [before, after].into_iter().flatten() {
            self.by_size
                .remove(&(neighbour.end - neighbour.start, neighbour.start));
            merged = merged.start.min(neighbour.start)..merged.end.max(neighbour.end);
        }
        let inserted = self.segments.insert(range);
        debug_assert!(inserted, "no overlap, as checked above");
        self.by_size
            .insert((merged.end - merged.start, merged.start));
        true
    }

    /// False, and nothing done, when part of the range is not free.
    #[must_use]
    pub(crate) fn remove(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let Some(found) = self.segments.containing(range.start) else {
            return false;
        };
        if found.end < range.end {
            return false;
        }
        let removed = self.segments.remove(range.clone());
        debug_assert!(removed, "the range lies in a free segment");
        self.by_size.remove(&(found.end - found.start, found.start));
        for rest in [found.start..range.start, range.end..found.end] {
            if !rest.is_empty() {
                self.by_size.insert((rest.end - rest.start, rest.start));
            }
        }
        true
    }

    /// Takes `size` bytes: the next fit after the last allocation, so that what is written together lies
    /// together; when the next segments are too small, the smallest that fits.
    pub(crate) fn allocate(&mut self, size: u64) -> Option<Range<u64>> {
        if size == 0 || self.largest() < size {
            return None;
        }
        let start = self.next_fit(size).or_else(|| {
            self.by_size
                .range((size, 0)..)
                .next()
                .map(|(_, start)| *start)
        })?;
        let range = start..start + size;
        if !self.remove(range.clone()) {
            return None;
        }
        self.cursor = range.end;
        Some(range)
    }

    fn next_fit(&self, size: u64) -> Option<u64> {
        if let Some(found) = self.segments.containing(self.cursor)
            && found.end - self.cursor >= size
        {
            return Some(self.cursor);
        }
        self.segments
            .iter_from(self.cursor)
            .take(SEARCH_STEPS)
            .find(|segment| segment.end - segment.start >= size)
            .map(|segment| segment.start)
    }
}

#[cfg(test)]
mod tests;
