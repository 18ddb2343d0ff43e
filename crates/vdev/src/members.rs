//! Which leaves of a top-level vdev stand for one another.

use base::Guid;
use std::ops::Range;

/// Which leaves stand for one another. It does not hold them: writes do that are in their queues.
pub(crate) struct Members {
    leaves: Vec<Guid>,
    /// Of each child the leaves, from left to right.
    ranges: Vec<Range<usize>>,
    /// How many of them, one after the other, belong to a stripe, which stands for itself: all, if none is said.
    stripe: Option<usize>,
}

impl Members {
    /// The leaves of a vdev, and which of them belong to each child.
    pub(crate) const fn new(leaves: Vec<Guid>, ranges: Vec<Range<usize>>) -> Self {
        Self {
            leaves,
            ranges,
            stripe: None,
        }
    }

    /// Those of one write whose pieces are the columns of stripes of so many.
    pub(crate) const fn of_stripes(
        leaves: Vec<Guid>,
        ranges: Vec<Range<usize>>,
        stripe: usize,
    ) -> Self {
        Self {
            leaves,
            ranges,
            stripe: Some(stripe),
        }
    }

    /// How many children there are.
    pub(crate) const fn count(&self) -> usize {
        self.ranges.len()
    }

    /// The leaves of a child, by their places.
    pub(crate) fn of(&self, child: usize) -> Option<Range<usize>> {
        self.ranges.get(child).cloned()
    }

    /// Which child the leaf at a place belongs to.
    pub(crate) fn child_of(&self, leaf: usize) -> Option<usize> {
        self.ranges.iter().position(|range| range.contains(&leaf))
    }

    /// Of how many children no leaf is left when these are not; of the stripe that loses most, where there are several.
    pub(crate) fn lost(&self, failed: impl Fn(Guid) -> bool) -> usize {
        let all_failed = |range: &&Range<usize>| {
            let leaves = self.leaves.get((*range).clone()).unwrap_or_default();
            leaves.iter().all(|leaf| failed(*leaf))
        };
        let stripe = self.stripe.unwrap_or(self.ranges.len()).max(1);
        let stripes = self.ranges.chunks(stripe);
        let lost = stripes.map(|stripe| stripe.iter().filter(all_failed).count());
        lost.max().unwrap_or(0)
    }
}
