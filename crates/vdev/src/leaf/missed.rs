//! What a leaf missed, and what is left of it when a resilver ends, or a rebuild.
//!
//! A resilver walks over blocks, whose births say which were missed, and gives them to all leaves that lack some. A
//! rebuild copies whatever is in use to the leaves that it is for, and knows of no births: what it could not copy may
//! be of any. Of one leaf there is one of both at a time.

use crate::TxgRanges;
use base::Txg;

/// See the module.
#[derive(Default)]
pub(crate) struct Missed {
    ranges: TxgRanges,
    /// While a resilver or rebuild runs: what will be missing when it ends. It begins empty: everything is seen that
    /// was missed before it began.
    left: Option<Left>,
    /// Until it is known what was missed: the births of blocks of which the leaf gave wrong bytes.
    undecided: Option<Vec<Txg>>,
}

/// What is left behind.
struct Left {
    ranges: TxgRanges,
    pass: Pass,
}

/// What gives a leaf all that it missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pass {
    Resilver,
    Rebuild,
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

    /// A txg counts as missed until the pass that runs ends.
    pub(crate) fn note_passing(&mut self, txg: Txg) {
        self.ranges.add(txg, 1);
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

    /// Begins to note what is left behind, unless the other one does.
    pub(crate) fn begin(&mut self, pass: Pass) {
        if self.left.is_none() || self.is_in(pass) {
            let ranges = TxgRanges::new();
            self.left = Some(Left { ranges, pass });
        }
    }

    /// Goes on without this leaf: all that it missed is missing still.
    pub(crate) fn leave(&mut self, pass: Pass) {
        if self.is_in(pass) {
            self.left = None;
        }
    }

    pub(crate) const fn is_in_any(&self) -> bool {
        self.left.is_some()
    }

    pub(crate) fn is_in(&self, pass: Pass) -> bool {
        self.left.as_ref().is_some_and(|left| left.pass == pass)
    }

    pub(crate) fn has_left(&self) -> bool {
        let left = self.left.as_ref();
        left.is_some_and(|left| !left.ranges.is_empty())
    }

    pub(crate) fn note_left(&mut self, birth: Txg) {
        if let Some(left) = &mut self.left {
            left.ranges.add(birth, 1);
        }
    }

    pub(crate) fn note_left_through(&mut self, birth: Txg) {
        let Some(left) = &mut self.left else { return };
        for (first, count) in self.ranges.iter() {
            let until = birth.0.saturating_add(1).saturating_sub(first.0);
            left.ranges.add(first, count.min(until));
        }
    }

    /// It has seen everything; whether it had begun.
    pub(crate) fn end(&mut self, pass: Pass) -> bool {
        let left = self.left.take_if(|left| left.pass == pass);
        let ended = left.is_some();
        if let Some(left) = left {
            self.ranges = left.ranges;
        }
        ended
    }
}

#[cfg(test)]
mod tests;
