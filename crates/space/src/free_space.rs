//! The free space of a metaslab while it is loaded.

use crate::RangeSet;
use crate::segments::{CLASSES, Position, Segments, class_of};
use crate::tunables;
use std::ops::Range;

/// Free segments of a part of a vdev, in units of its smallest allocation.
#[derive(Clone, Debug)]
pub(crate) struct FreeSpace {
    list: List,
    /// Where the part begins, bytes.
    base: u64,
    /// log2 of a unit, bytes.
    shift: u32,
    /// After the last allocation that went on, in units.
    cursor: u64,
    /// After the last one that was packed, and where its run ends.
    packed: (u64, u64),
}

/// A run of metadata is not begun where there is less room than this part of it.
const RUN_LEAST_SHARE: u64 = 8;

/// Which of the free segments is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Manner {
    /// The next fit after the last allocation, so that what is written together lies together; when the next segments
    /// are too short, one that is hardly longer.
    Onwards,
    /// From the front, so that what is in use lies close together: the lowest segment that is worth an operation, and
    /// as much of it; without one, the lowest that fits.
    Packed,
}

/// Four bytes a number are enough for metaslabs of up to 2^32 units, which is all but the largest there can be.
#[derive(Clone, Debug)]
enum List {
    Narrow(Segments<u32>),
    Wide(Segments<u64>),
}

macro_rules! list {
    ($list:expr, $segments:ident => $what:expr) => {
        match $list {
            List::Narrow($segments) => $what,
            List::Wide($segments) => $what,
        }
    };
}

impl FreeSpace {
    /// No free space, in `whole` with units of `2^shift` bytes.
    pub(crate) fn new(whole: &Range<u64>, shift: u32) -> Self {
        let units = (whole.end - whole.start) >> shift;
        let list = if units <= u64::from(u32::MAX) {
            List::Narrow(Segments::new())
        } else {
            List::Wide(Segments::new())
        };
        Self {
            list,
            base: whole.start,
            shift,
            cursor: 0,
            packed: (0, 0),
        }
    }

    /// How many segments there are.
    pub(crate) fn count(&self) -> usize {
        list!(&self.list, segments => segments.count())
    }

    /// Bytes of memory that the segments take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        list!(&self.list, segments => segments.memory_bytes())
    }

    /// The longest segment, bytes. Not for each allocation: it is searched.
    pub(crate) fn longest(&self) -> u64 {
        list!(&self.list, segments => segments.longest()) << self.shift
    }

    /// A power of two such that some segment has at least so many bytes, and none twice as many.
    pub(crate) fn longest_class(&self) -> u64 {
        let classes = self.classes();
        let longest = (0..CLASSES).rev().find(|class| classes[*class] > 0);
        longest.map_or(0, |class| 1 << class << self.shift)
    }

    /// How many segments have from `2^i` units on, for each `i`.
    pub(crate) fn classes(&self) -> &[u32; CLASSES] {
        list!(&self.list, segments => segments.classes())
    }

    /// The class of a length in bytes.
    pub(crate) fn class(length: u64, shift: u32) -> usize {
        class_of(length >> shift)
    }

    fn units(&self, range: &Range<u64>) -> Option<(u64, u64)> {
        let mask = (1_u64 << self.shift) - 1;
        let start = range.start.checked_sub(self.base)?;
        let end = range.end.checked_sub(self.base)?;
        ((start | end) & mask == 0).then_some((start >> self.shift, end >> self.shift))
    }

    fn range(&self, (start, end): (u64, u64)) -> Range<u64> {
        let bytes = |unit: u64| self.base + (unit << self.shift);
        bytes(start)..bytes(end)
    }

    /// False, and nothing done, when part of the range is free already or no whole units.
    #[must_use]
    pub(crate) fn insert(&mut self, range: Range<u64>) -> bool {
        range.is_empty() || self.insert_merged(range).is_some()
    }

    /// Adds a range that is not empty; how long a segment it belongs to then. None as [`Self::insert`].
    pub(crate) fn insert_merged(&mut self, range: Range<u64>) -> Option<u64> {
        let (start, end) = self.units(&range)?;
        let merged = list!(&mut self.list, segments => segments.insert(start, end))?;
        Some(merged << self.shift)
    }

    /// False, and nothing done, when part of the range is not free.
    #[must_use]
    pub(crate) fn remove(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let Some((start, end)) = self.units(&range) else {
            return false;
        };
        list!(&mut self.list, segments => segments.remove(start, end))
    }

    /// Whether a byte of the range is free.
    pub(crate) fn overlaps(&self, range: &Range<u64>) -> bool {
        self.end_before(range).is_none()
    }

    /// Where the last free segment before the range ends, or the part of the vdev begins; none when a byte of the range
    /// is free.
    pub(crate) fn end_before(&self, range: &Range<u64>) -> Option<u64> {
        let start = range.start.saturating_sub(self.base) >> self.shift;
        let end = range.end.saturating_sub(self.base);
        let end = end.div_ceil(1 << self.shift);
        if start >= end {
            return Some(range.start);
        }
        let before = list!(&self.list, segments => segments.end_before(start, end))?;
        Some(self.base + (before << self.shift))
    }

    /// The segments that end after `from`, in ascending order.
    pub(crate) fn iter_from(&self, from: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        let unit = from.saturating_sub(self.base) >> self.shift;
        let first = self.last_to(unit);
        let ends_before = |at: &Position| self.at(*at).is_some_and(|range| range.end <= from);
        let mut next = match first {
            Some(at) if !ends_before(&at) => Some(at),
            other => self.after(other),
        };
        std::iter::from_fn(move || {
            let at = next?;
            next = self.after(Some(at));
            self.at(at)
        })
    }

    /// All segments in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.iter_from(self.base)
    }

    fn at(&self, position: Position) -> Option<Range<u64>> {
        let found = list!(&self.list, segments => segments.range_at(position));
        found.map(|found| self.range(found))
    }

    fn last_to(&self, unit: u64) -> Option<Position> {
        list!(&self.list, segments => segments.last_to(unit))
    }

    fn after(&self, position: Option<Position>) -> Option<Position> {
        list!(&self.list, segments => segments.after(position))
    }

    /// Takes `size` bytes by that manner.
    pub(crate) fn allocate(&mut self, size: u64, manner: Manner) -> Option<Range<u64>> {
        let units = size.div_ceil(1 << self.shift);
        if units == 0 {
            return None;
        }
        let start = match manner {
            Manner::Onwards => {
                let best = || list!(&self.list, segments => segments.best_fit(units));
                self.next_fit(units).or_else(best)?
            }
            Manner::Packed => self.lowest_fit(units)?,
        };
        let taken = (start, start + units);
        if !list!(&mut self.list, segments => segments.remove(taken.0, taken.1)) {
            return None;
        }
        match manner {
            Manner::Onwards => self.cursor = taken.1,
            Manner::Packed if taken.0 == self.packed.0 => self.packed.0 = taken.1,
            Manner::Packed => {
                let run = tunables::METADATA_RUN_BYTES.get() >> self.shift;
                self.packed = (taken.1, taken.0.saturating_add(run));
            }
        }
        Some(self.range(taken))
    }

    fn lowest_fit(&self, units: u64) -> Option<u64> {
        let run = (tunables::METADATA_RUN_BYTES.get() / RUN_LEAST_SHARE) >> self.shift;
        list!(&self.list, segments => {
            let (next, run_end) = self.packed;
            let here = segments.containing(next).filter(|_| next < run_end);
            here.filter(|(_, end)| end - next >= units)
                .map(|_| next)
                .or_else(|| segments.first_fit(units.max(run)))
                .or_else(|| segments.first_fit(units))
        })
    }

    fn next_fit(&self, units: u64) -> Option<u64> {
        list!(&self.list, segments => {
            if let Some((_, end)) = segments.containing(self.cursor)
                && end - self.cursor >= units
            {
                return Some(self.cursor);
            }
            let mut at = segments.after(segments.last_to(self.cursor));
            for _ in 0..tunables::SEARCH_STEPS.get() {
                let (start, end) = segments.range_at(at?)?;
                if end - start >= units {
                    return Some(start);
                }
                at = segments.after(at);
            }
            None
        })
    }

    /// The free ranges as a set of their own.
    pub(crate) fn to_set(&self) -> RangeSet {
        let mut set = RangeSet::new();
        for range in self.iter() {
            let added = set.insert(range);
            debug_assert!(added, "segments do not overlap");
        }
        set
    }

    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        list!(&self.list, segments => segments.units()) << self.shift
    }
}

#[cfg(test)]
mod tests;
