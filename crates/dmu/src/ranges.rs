//! A set of block numbers as disjoint, merged ranges.

use std::collections::BTreeMap;

/// Ranges of block numbers, each from its first to its last member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeSet {
    /// First to last.
    ranges: BTreeMap<u64, u64>,
}

impl RangeSet {
    pub(crate) const EMPTY: Self = Self {
        ranges: BTreeMap::new(),
    };

    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Adds `first..=last`.
    pub(crate) fn insert(&mut self, first: u64, last: u64) {
        if first > last {
            return;
        }
        let (mut first, mut last) = (first, last);
        // Everything that overlaps or touches is swallowed.
        while let Some((&start, &end)) = self.ranges.range(..=last.saturating_add(1)).next_back() {
            if end.saturating_add(1) < first {
                break;
            }
            first = first.min(start);
            last = last.max(end);
            self.ranges.remove(&start);
        }
        self.ranges.insert(first, last);
    }

    pub(crate) fn contains(&self, block: u64) -> bool {
        self.ranges
            .range(..=block)
            .next_back()
            .is_some_and(|(_, &end)| end >= block)
    }

    /// The last member of the range that `block` is in.
    pub(crate) fn end_of(&self, block: u64) -> Option<u64> {
        self.ranges
            .range(..=block)
            .next_back()
            .and_then(|(_, &end)| (end >= block).then_some(end))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges.iter().map(|(&first, &last)| (first, last))
    }
}

#[cfg(test)]
mod tests;
