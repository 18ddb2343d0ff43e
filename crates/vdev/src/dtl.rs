//! Ranges of txgs that a leaf missed: the in-memory form of a dirty time log.

use base::Txg;

/// A set of txgs as sorted, disjoint, non-adjacent ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxgRanges {
    /// First txg and the one after the last.
    ranges: Vec<(u64, u64)>,
}

impl TxgRanges {
    /// No txg.
    #[must_use]
    pub const fn new() -> Self {
        Self { ranges: Vec::new() }
    }

    /// Adds `count` txgs from `first` on.
    pub fn add(&mut self, first: Txg, count: u64) {
        let (mut start, mut end) = (first.0, first.0.saturating_add(count));
        if start == end {
            return;
        }
        let from = self.ranges.partition_point(|r| r.1 < start);
        let to = self.ranges.partition_point(|r| r.0 <= end);
        if from < to {
            start = start.min(self.ranges[from].0);
            end = end.max(self.ranges[to - 1].1);
        }
        self.ranges.splice(from..to, [(start, end)]);
    }

    /// Whether `txg` is in the set.
    #[must_use]
    pub fn contains(&self, txg: Txg) -> bool {
        let after = self.ranges.partition_point(|r| r.0 <= txg.0);
        after > 0 && txg.0 < self.ranges[after - 1].1
    }

    /// Whether there is no txg in the set.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The smallest and the largest txg.
    #[must_use]
    pub fn bounds(&self) -> Option<(Txg, Txg)> {
        Some((Txg(self.ranges.first()?.0), Txg(self.ranges.last()?.1 - 1)))
    }

    /// Every txg.
    #[must_use]
    pub fn all() -> Self {
        let mut all = Self::new();
        all.add(Txg(0), u64::MAX);
        all
    }

    /// The txgs that at least so many of the sets have.
    #[must_use]
    pub fn in_at_least(sets: &[Self], count: usize) -> Self {
        let ranges = sets.iter().flat_map(|set| &set.ranges);
        let mut bounds: Vec<(u64, bool)> = ranges
            .flat_map(|(start, end)| [(*start, true), (*end, false)])
            .collect();
        bounds.sort_unstable_by_key(|(at, _)| *at);
        let (mut found, mut covered, mut since) = (Self::new(), 0_usize, 0);
        for (at, begins) in bounds {
            if count > 0 && covered >= count {
                found.add(Txg(since), at - since);
            }
            covered = if begins { covered + 1 } else { covered - 1 };
            since = at;
        }
        found
    }

    /// The ranges: first txg and number of txgs, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Txg, u64)> + '_ {
        self.ranges.iter().map(|r| (Txg(r.0), r.1 - r.0))
    }
}

impl FromIterator<(Txg, u64)> for TxgRanges {
    fn from_iter<I: IntoIterator<Item = (Txg, u64)>>(ranges: I) -> Self {
        let mut set = Self::new();
        for (first, count) in ranges {
            set.add(first, count);
        }
        set
    }
}

#[cfg(test)]
mod tests;
