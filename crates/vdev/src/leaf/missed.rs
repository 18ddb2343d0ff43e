//! What a leaf missed, and what is left of it when a resilver ends.

use crate::TxgRanges;
use base::Txg;

/// See the module.
#[derive(Default)]
pub(crate) struct Missed {
    ranges: TxgRanges,
    /// While a resilver runs: what will be missing when it ends. It begins empty: the resilver sees
    /// everything that was missed before it began.
    left: Option<TxgRanges>,
    /// Until it is known what was missed: the births of blocks of which the leaf gave wrong bytes.
    undecided: Option<Vec<Txg>>,
}

/// So many wrong blocks wait until it is known what was missed; more are counted at once.
const UNDECIDED_MAX: usize = 1024;

impl Missed {
    pub(crate) const fn ranges(&self) -> &TxgRanges {
        &self.ranges
    }

    pub(crate) fn set(&mut self, ranges: TxgRanges) {
        self.ranges = ranges;
    }

    /// A write of `txg` was missed; whether that is news. A resilver that runs may be past its place.
    pub(crate) fn note(&mut self, txg: Txg) -> bool {
        self.note_left(txg);
        let is_new = !self.ranges.contains(txg);
        self.ranges.add(txg, 1);
        is_new
    }

    /// What was missed will be known later.
    pub(crate) fn await_known(&mut self) {
        self.undecided.get_or_insert_default();
    }

    /// What was missed is known: how many of the wrong blocks until now the leaf should have had.
    pub(crate) fn known(&mut self) -> u64 {
        let births = self.undecided.take().unwrap_or_default();
        let had = births.iter().filter(|birth| !self.ranges.contains(**birth));
        had.count() as u64
    }

    /// The leaf gave wrong bytes of a block of `birth`; whether that counts already.
    pub(crate) fn note_wrong(&mut self, birth: Txg) -> bool {
        match &mut self.undecided {
            Some(births) if births.len() < UNDECIDED_MAX => {
                births.push(birth);
                false
            }
            Some(_) | None => true,
        }
    }

    pub(crate) fn begin_resilver(&mut self) {
        self.left = Some(TxgRanges::new());
    }

    pub(crate) fn leave_resilver(&mut self) {
        self.left = None;
    }

    pub(crate) const fn is_resilvering(&self) -> bool {
        self.left.is_some()
    }

    pub(crate) fn has_left(&self) -> bool {
        self.left.as_ref().is_some_and(|left| !left.is_empty())
    }

    pub(crate) fn note_left(&mut self, birth: Txg) {
        if let Some(left) = &mut self.left {
            left.add(birth, 1);
        }
    }

    pub(crate) fn note_left_through(&mut self, birth: Txg) {
        let Some(left) = &mut self.left else { return };
        for (first, count) in self.ranges.iter() {
            let until = birth.0.saturating_add(1).saturating_sub(first.0);
            left.add(first, count.min(until));
        }
    }

    pub(crate) fn end_resilver(&mut self) -> bool {
        let left = self.left.take();
        let ended = left.is_some();
        if let Some(left) = left {
            self.ranges = left;
        }
        ended
    }
}

#[cfg(test)]
mod tests;
