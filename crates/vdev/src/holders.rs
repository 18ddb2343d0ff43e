//! The leaves that hold what lies on a child: its own, and where one of these is a distributed spare, those of the
//! child that has this room of the spare.
//!
//! A dRAID keeps the room of each spare in every slice on another child, at the same bytes that it stands for. A spare
//! that stands in for a leaf is a leaf of the tree without a device: what it missed is its own, and what the leaf below
//! it missed is missing as well.

use crate::{Condition, Leaf};
use base::Txg;
use layout::Draid;
use std::sync::Arc;

/// A leaf that holds what lies at some place of a child.
#[derive(Clone)]
pub(crate) struct Holder<'a> {
    /// Who reads and writes it.
    pub(crate) leaf: &'a Arc<Leaf>,
    /// The distributed spares as whose room the leaf has it, the first one of them in the place of a leaf of the child;
    /// none, if it is the child's own.
    spares: Vec<&'a Arc<Leaf>>,
}

impl<'a> Holder<'a> {
    /// A child's own leaf.
    pub(crate) const fn own(leaf: &'a Arc<Leaf>) -> Self {
        Self {
            leaf,
            spares: Vec::new(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &'a Arc<Leaf>> {
        self.spares.iter().copied().chain([self.leaf])
    }

    /// Whether what it has of a block of `txg` may be older.
    pub(crate) fn misses(&self, txg: Txg) -> bool {
        self.all().any(|leaf| leaf.misses(txg))
    }

    /// Whether what it has of any block is what was written last.
    pub(crate) fn is_whole(&self) -> bool {
        self.all().all(|leaf| leaf.is_whole())
    }

    /// Whether errors have degraded one of them.
    pub(crate) fn is_degraded(&self) -> bool {
        self.all().any(|leaf| leaf.is_degraded())
    }

    /// Whether it has a place for one of these leaves.
    pub(crate) fn is_of(&self, leaves: &[Arc<Leaf>]) -> bool {
        self.all()
            .any(|own| leaves.iter().any(|leaf| Arc::ptr_eq(own, leaf)))
    }

    pub(crate) fn is_readable(&self) -> bool {
        self.all().all(|leaf| leaf.is_readable())
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.all().all(|leaf| leaf.is_writable())
    }

    /// How that one is for which it cannot be used.
    pub(crate) fn condition(&self) -> Condition {
        let unusable = self.all().find(|leaf| !leaf.is_readable());
        unusable.unwrap_or(self.leaf).condition()
    }

    /// A block of `birth` was not written by the resilver that runs: those that missed it miss it still.
    pub(crate) fn left_behind(&self, birth: Txg) {
        let behind = self.all().filter(|leaf| leaf.misses(birth));
        behind.for_each(|leaf| leaf.note_left(birth));
    }
}

impl Holder<'_> {
    /// What was to be copied to it was not: those that it has a place for lack all that they lacked.
    pub(crate) fn lose_copy(&self) {
        self.all().for_each(|leaf| {
            leaf.note_left_through(Txg(u64::MAX));
            leaf.handle().note_lost_copy();
        });
    }
}

/// Finds the leaves that hold what lies at byte `offset` of a child; `leaves_of` gives the leaves of each child.
pub(crate) fn find<'a>(
    draid: &Draid,
    leaves_of: &dyn Fn(usize) -> &'a [Arc<Leaf>],
    (child, offset): (usize, u64),
) -> Vec<Holder<'a>> {
    let mut found = Vec::new();
    let mut open = vec![(child, Vec::new())];
    while let Some((child, spares)) = open.pop() {
        for leaf in leaves_of(child) {
            let Some(number) = leaf.spare_room() else {
                let spares = spares.clone();
                found.push(Holder { leaf, spares });
                continue;
            };
            // A place that is the room of a spare itself is nobody's data: two spares may each have it from the other.
            let is_known = |known: &&Arc<Leaf>| Arc::ptr_eq(known, leaf);
            if spares.iter().any(is_known) {
                continue;
            }
            if let Some(next) = draid.spare_at(number, offset) {
                let mut spares = spares.clone();
                spares.push(leaf);
                open.push((next, spares));
            }
        }
    }
    found
}
