//! Which leaves of a top-level vdev stand for one another.

use base::Guid;
use std::ops::Range;

/// Which leaves stand for one another. It does not hold them: writes do that are in their queues.
pub(crate) struct Members {
    leaves: Vec<Guid>,
    /// Of each child the leaves, from left to right.
    ranges: Vec<Range<usize>>,
}

impl Members {
    /// The leaves of a vdev, and which of them belong to each child.
    pub(crate) const fn new(leaves: Vec<Guid>, ranges: Vec<Range<usize>>) -> Self {
        Self { leaves, ranges }
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

    /// Of how many children no leaf is left when these are not.
    pub(crate) fn lost(&self, failed: impl Fn(Guid) -> bool) -> usize {
        let all_failed = |range: &&Range<usize>| {
            let leaves = self.leaves.get((*range).clone()).unwrap_or_default();
            leaves.iter().all(|leaf| failed(*leaf))
        };
        self.ranges.iter().filter(all_failed).count()
    }
}
