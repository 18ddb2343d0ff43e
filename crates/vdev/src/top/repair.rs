//! Giving right bytes to leaves that lack them: scrub, resilver, healing.

use super::{Top, place_of, read_leaf};
use crate::{BlockRange, Failure, IoClass, Leaf, LeafFailure, ReadOutcome, VdevError, Verdict};
use base::Txg;
use layout::Kind;
use std::sync::Arc;
use sys::Buffer;

/// What a scrub of one place found.
#[derive(Clone, Debug, Default)]
pub struct ScrubOutcome {
    /// The right bytes, if any leaf had them.
    pub data: Option<Buffer>,
    /// The leaves that did not have them, or had missed them.
    pub failures: Vec<LeafFailure>,
    /// What became of these, if right bytes were found.
    pub repaired: Repaired,
}

/// What became of leaves that were to be given right bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repaired {
    /// How many have them now.
    pub healed: usize,
    /// How many could not be written.
    pub unrepaired: usize,
}

impl std::ops::AddAssign for Repaired {
    fn add_assign(&mut self, other: Self) {
        self.healed += other.healed;
        self.unrepaired += other.unrepaired;
    }
}

/// A leaf that lacks a block.
#[derive(Clone)]
pub struct Lacking {
    /// The leaf.
    pub leaf: Arc<Leaf>,
    /// It should have it, and gave other bytes: an error of the device.
    pub is_wrong: bool,
}

impl Top {
    /// Reads `range` from every leaf, and gives the right bytes to those that had others or had
    /// missed them: what a scrub or a resilver does. Wrong bytes count against their leaf if it was
    /// `promised` that they were written.
    ///
    /// A leaf that missed the bytes is always written, and asked only when no other leaf has them:
    /// then it is believed if they are proven. One that cannot be written has missed them still ([`Leaf::note_left`]).
    /// Where no leaf has them the caller gives them to all ([`Top::heal`]), or says that nobody can
    /// ([`Top::leave_range_behind`]).
    ///
    /// # Errors
    /// Only if the place is not inside the vdev.
    pub fn scrub(
        &self,
        range: BlockRange,
        promised: bool,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ScrubOutcome, VdevError> {
        self.contains(range.offset, range.len, range.birth)?;
        match self.layout.kind() {
            Kind::Single | Kind::Mirror => {}
            Kind::Indirect => return self.scrub_moved((range, promised), accept),
            Kind::RaidZ(_) | Kind::Draid(_) => {
                return Ok(self.scrub_stripe((range, promised), accept));
            }
        }
        let order = self.order(range);
        let mut outcome = ScrubOutcome::default();
        let mut lacking = Vec::new();
        for stale in [false, true] {
            let leaves = order.iter().filter(|(_, is_stale)| *is_stale == stale);
            for (leaf, _) in leaves {
                let result = if stale && outcome.data.is_some() {
                    Err(leaf.handle().failure(Failure::Missing))
                } else {
                    read_leaf(leaf, (range, IoClass::Scan), stale, accept)
                };
                match result {
                    Ok(data) => outcome.data = outcome.data.or(Some(data)),
                    Err(failure) => {
                        outcome.failures.push(failure);
                        lacking.push(Arc::clone(leaf));
                    }
                }
            }
        }
        if promised {
            self.blame(&outcome.failures, range.birth);
        }
        let Some(data) = &outcome.data else {
            return Ok(outcome);
        };
        outcome.repaired = self.repair(&lacking, range, data);
        // Also those that have come back since.
        let was_away = |leaf: &&Arc<Leaf>| !order.iter().any(|(asked, _)| Arc::ptr_eq(asked, leaf));
        left_behind(self.leaves().iter().filter(was_away), range.birth);
        Ok(outcome)
    }

    /// Reads `len` bytes at `offset` from one leaf, whatever they are, for a scan.
    ///
    /// # Errors
    /// The leaf cannot be read, or the place is not inside the vdev.
    pub fn read_side(&self, leaf: &Leaf, offset: u64, len: usize) -> Result<Buffer, VdevError> {
        // Of copies, which take up the same in every txg.
        self.contains(offset, len, Txg(0))?;
        self.check_is_copies(offset, len)?;
        let whole = len.next_multiple_of(1 << leaf.ashift());
        let data = leaf
            .read(Leaf::device_offset(offset), whole, IoClass::Scan)
            .map_err(|failure| leaf.handle().failure(failure))?;
        Ok(data.slice(0..len))
    }

    /// What lies between two places can be read without knowing what it is only where leaves hold copies of the vdev:
    /// else blocks are read one by one.
    fn check_is_copies(&self, offset: u64, len: usize) -> Result<(), VdevError> {
        if self.layout.is_copies() {
            return Ok(());
        }
        Err(VdevError::ReadFailed {
            vdev: self.id(),
            offset,
            len: len as u64,
            failures: Vec::new(),
        })
    }

    /// Reads what there is at a place from the leaf that is asked first, right or wrong, written by whoever: for who
    /// verifies what he takes from it, and asks again for what is wrong.
    ///
    /// # Errors
    /// The leaf cannot be read, or the place is not inside the vdev.
    pub fn read_unjudged(&self, range: BlockRange, class: IoClass) -> Result<Buffer, VdevError> {
        self.contains(range.offset, range.len, range.birth)?;
        self.check_is_copies(range.offset, range.len)?;
        let order = self.order(range);
        let Some((leaf, _)) = order.first() else {
            return Err(VdevError::ReadFailed {
                vdev: self.id(),
                offset: range.offset,
                len: range.len as u64,
                failures: Vec::new(),
            });
        };
        let whole = range.len.next_multiple_of(1 << leaf.ashift());
        let data = leaf
            .read(Leaf::device_offset(range.offset), whole, class)
            .map_err(|failure| leaf.handle().failure(failure))?;
        Ok(data.slice(0..range.len))
    }

    /// Gives right bytes to those of the leaves asked by a scan that lack them. Leaves that were not asked, for they
    /// were away then, are noted as left behind if they missed them, also when they have come back since. The caller
    /// sees to it that the place is not freed and given to another block meanwhile.
    pub fn repair_sides(
        &self,
        asked: &[Arc<Leaf>],
        lacking: &[Lacking],
        range: BlockRange,
        data: &Buffer,
    ) -> Repaired {
        for lacking in lacking.iter().filter(|lacking| lacking.is_wrong) {
            lacking.leaf.handle().note_wrong(range.birth);
        }
        let leaves: Vec<_> = lacking
            .iter()
            .map(|lacking| Arc::clone(&lacking.leaf))
            .collect();
        let repaired = self.repair(&leaves, range, data);
        let was_away = |leaf: &&Arc<Leaf>| !asked.iter().any(|asked| Arc::ptr_eq(asked, leaf));
        left_behind(self.leaves().iter().filter(was_away), range.birth);
        repaired
    }

    /// Notes that a resilver could not give the leaves some block of `birth`; [`Leaf::note_left`] is
    /// told of those that missed it.
    pub fn leave_behind(&self, birth: Txg) {
        left_behind(self.leaves(), birth);
    }

    /// The same of what lies at one place: nobody has the right bytes for it.
    pub fn leave_range_behind(&self, range: BlockRange) {
        // A pointer may name any place, and nothing lies outside of the vdev.
        if self.contains(range.offset, range.len, range.birth).is_err() {
            return;
        }
        match self.layout.kind() {
            Kind::Single | Kind::Mirror => self.leave_behind(range.birth),
            Kind::Indirect => self.leave_moved_behind(range),
            Kind::RaidZ(_) | Kind::Draid(_) => self.leave_stripe_behind(range),
        }
    }

    /// Writes bytes that are known to be right over copies that are not. Failing here changes nothing:
    /// the copies were bad before. The flush that makes the writes durable may fail: then the leaf
    /// has missed the birth of the bytes.
    pub(super) fn repair(
        &self,
        lacking: &[Arc<Leaf>],
        range: BlockRange,
        data: &Buffer,
    ) -> Repaired {
        let mut repaired = Repaired::default();
        if lacking.is_empty() {
            return repaired;
        }
        if self.is_indirect() {
            return self.repair_moved(lacking, range, data);
        }
        let data = self.padded(data.clone());
        let _inside = self.moves.look_for();
        self.copies
            .written(self.allocated(range.offset, data.len(), range.birth));
        let (here, there) = self.parts_of((range.offset, range.birth), &data);
        let here = here.into_iter().map(|part| (part, true));
        // What was wrong was copied as it was: there, to whichever children.
        let there = there.into_iter().map(|part| (part, false));
        for ((piece, bytes), is_here) in here.chain(there) {
            for holder in self.children.holders(&piece) {
                let leaf = holder.leaf;
                if is_here && !lacking.iter().any(|lacking| Arc::ptr_eq(lacking, leaf)) {
                    continue;
                }
                let place = place_of(&piece);
                // A newer write to the place is under way, and speaks for itself: the block is gone and
                // its place reused, or this is a log block that is being written.
                if holder.is_writable() && leaf.has_newer(place, bytes.len()) {
                    continue;
                }
                let done = holder.is_writable()
                    && leaf
                        .write_now(place, bytes.clone(), IoClass::AsyncWrite, range.birth)
                        .is_ok();
                if done && is_here {
                    leaf.handle().meters.healed.increment();
                    repaired.healed += 1;
                } else if !done {
                    holder.left_behind(range.birth);
                    repaired.unrepaired += 1;
                }
            }
        }
        repaired
    }

    /// Counts wrong bytes of a block of `birth` against the leaves that gave them. The caller knows that they had lost
    /// what was written there: the place had not been given to another block by then, nor was it being rewritten.
    pub fn blame(&self, failures: &[LeafFailure], birth: Txg) {
        if self.is_indirect() {
            self.blame_moved(failures);
            return;
        }
        let wrong = failures
            .iter()
            .filter(|failure| failure.failure == Failure::Checksum);
        for failure in wrong {
            let leaf = self
                .leaves()
                .iter()
                .find(|leaf| leaf.guid() == failure.leaf);
            leaf.iter().for_each(|leaf| leaf.handle().note_wrong(birth));
        }
    }

    /// Gives the bytes of a read to the leaves that had others. The caller knows that the place has not been given to
    /// another block, nor is being rewritten, and that this stays so.
    pub fn repair_read(&self, outcome: &ReadOutcome, range: BlockRange) -> Repaired {
        self.repair(&outcome.lacking, range, &outcome.data)
    }

    /// Writes right bytes, found elsewhere, over a block of which no leaf here has them.
    pub fn heal(&self, range: BlockRange, data: &Buffer) -> Repaired {
        if self
            .contains(range.offset, data.len(), range.birth)
            .is_err()
        {
            return Repaired::default();
        }
        if self.is_indirect() {
            return self.heal_moved(range, data);
        }
        self.repair(self.leaves(), range, data)
    }
}

/// Notes that those of the leaves that missed `birth` were not given what they missed.
pub(super) fn left_behind<'a>(leaves: impl IntoIterator<Item = &'a Arc<Leaf>>, birth: Txg) {
    let behind = leaves.into_iter().filter(|leaf| leaf.misses(birth));
    behind.for_each(|leaf| leaf.note_left(birth));
}
