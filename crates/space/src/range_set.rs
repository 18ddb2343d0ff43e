//! Sets of byte ranges that never overlap or touch: neighbours are merged.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of ranges by start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    /// An empty set.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Total bytes in the set.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many separate ranges there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.ranges.len()
    }

    /// Whether nothing is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(start, end)| *start..*end)
    }

    /// The range that holds `offset`.
    #[must_use]
    pub fn containing(&self, offset: u64) -> Option<Range<u64>> {
        let (start, end) = self.ranges.range(..=offset).next_back()?;
        (offset < *end).then_some(*start..*end)
    }

    /// The first range that begins at or after `offset`.
    #[must_use]
    pub fn first_from(&self, offset: u64) -> Option<Range<u64>> {
        self.iter_from(offset).next()
    }

    /// The ranges that begin at or after `offset`, in ascending order.
    pub fn iter_from(&self, offset: u64) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ranges.range(offset..).map(|(start, end)| *start..*end)
    }

    /// Whether any byte of `range` is in the set.
    #[must_use]
    pub fn overlaps(&self, range: &Range<u64>) -> bool {
        self.ranges
            .range(..range.end)
            .next_back()
            .is_some_and(|(_, end)| *end > range.start)
    }

    /// Where the last range before `range` ends, 0 without one; none when any byte of `range` is in the set.
    #[must_use]
    pub(crate) fn end_before(&self, range: &Range<u64>) -> Option<u64> {
        let before = self.ranges.range(..range.end).next_back();
        let end = before.map_or(0, |(_, end)| *end);
        (end <= range.start).then_some(end)
    }

    /// Whether every byte of `range` is in the set.
    #[must_use]
    pub fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self
                .containing(range.start)
                .is_some_and(|found| found.end >= range.end)
    }

    /// Adds a range; false, and nothing done, when a byte of it is in the set already.
    #[must_use]
    pub fn insert(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let before = self.ranges.range(..range.end).next_back();
        let mut merged = range.clone();
        match before {
            Some((_, end)) if *end > range.start => return false,
            Some((start, end)) if *end == range.start => merged.start = *start,
            Some(_) | None => {}
        }
        self.bytes += range.end - range.start;
        if let Some(end) = self.ranges.remove(&range.end) {
            merged.end = end;
        }
        self.ranges.insert(merged.start, merged.end);
        true
    }

    /// Removes a range; false, and nothing done, when not all of it is in the set.
    #[must_use]
    pub fn remove(&mut self, range: Range<u64>) -> bool {
        if range.is_empty() {
            return true;
        }
        let Some(found) = self
            .containing(range.start)
            .filter(|found| found.end >= range.end)
        else {
            return false;
        };
        self.bytes -= range.end - range.start;
        if found.start == range.start {
            self.ranges.remove(&found.start);
        } else {
            self.ranges.insert(found.start, range.start);
        }
        if range.end < found.end {
            self.ranges.insert(range.end, found.end);
        }
        true
    }

    /// Takes out of the set what of `range` is in it, and returns those parts.
    pub fn take_overlap(&mut self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut taken = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let Some(found) = self.containing(at).or_else(|| self.first_from(at)) else {
                break;
            };
            let part = found.start.max(at)..found.end.min(range.end);
            if part.start >= range.end {
                break;
            }
            at = part.end;
            let removed = self.remove(part.clone());
            debug_assert!(removed, "the part was just found");
            taken.push(part);
        }
        taken
    }

    /// The parts of `within` that are not in the set.
    #[must_use]
    pub fn gaps(&self, within: Range<u64>) -> Self {
        let mut gaps = Self::new();
        let mut at = within.start;
        let first = self.containing(at);
        let later = self
            .ranges
            .range(within.start..within.end)
            .map(|(start, end)| *start..*end);
        for range in first.into_iter().chain(later) {
            if range.start > at {
                let added = gaps.insert(at..range.start.min(within.end));
                debug_assert!(added, "gaps come in ascending order");
            }
            at = at.max(range.end);
        }
        if at < within.end {
            let added = gaps.insert(at..within.end);
            debug_assert!(added, "gaps come in ascending order");
        }
        gaps
    }
}

impl Extend<Range<u64>> for RangeSet {
    /// Adds ranges; what is in the set already stays in it.
    fn extend<T: IntoIterator<Item = Range<u64>>>(&mut self, ranges: T) {
        for range in ranges {
            for gap in self.gaps(range).iter() {
                let added = self.insert(gap);
                debug_assert!(added, "a gap is not in the set");
            }
        }
    }
}

/// Changes as they build up between two flushes: a range that is allocated and then freed cancels out.
#[derive(Clone, Debug, Default)]
pub struct Pending {
    /// Ranges allocated.
    pub allocated: RangeSet,
    /// Ranges freed.
    pub freed: RangeSet,
}

impl Pending {
    /// Notes an allocation. False when part of it is pending allocation already.
    #[must_use]
    pub fn allocate(&mut self, range: &Range<u64>) -> bool {
        cancel(&mut self.freed, &mut self.allocated, range)
    }

    /// Notes a free. False when part of it is pending free already.
    #[must_use]
    pub fn free(&mut self, range: &Range<u64>) -> bool {
        cancel(&mut self.allocated, &mut self.freed, range)
    }

    /// Whether nothing is pending.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allocated.is_empty() && self.freed.is_empty()
    }
}

/// What of `range` is in `from` leaves it; the rest goes into `into`.
fn cancel(from: &mut RangeSet, into: &mut RangeSet, range: &Range<u64>) -> bool {
    let mut rest = RangeSet::new();
    rest.extend([range.clone()]);
    for part in from.take_overlap(range) {
        let removed = rest.remove(part);
        debug_assert!(removed, "the part lies in the range");
    }
    rest.iter().all(|part| into.insert(part))
}

#[cfg(test)]
mod tests;
