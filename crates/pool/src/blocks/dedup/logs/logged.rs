//! An entry as a log has it, and how many of which kind there are.

use format::dedup::{DedupBlock, DedupClass, DedupForm, DedupValue};

/// An entry as a log has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::blocks::dedup) struct Logged {
    /// The ZAP that has an older state of it.
    pub(in crate::blocks::dedup) home: Option<DedupClass>,
    pub(super) block: DedupBlock,
    pub(super) class_start: u64,
}

impl Logged {
    /// `value` is of the newer kind.
    pub(in crate::blocks::dedup) fn new(home: Option<DedupClass>, value: &DedupValue) -> Self {
        let [block, ..] = value.blocks;
        Self {
            home,
            block: match block.references {
                // What nobody refers to is freed as that is logged.
                0 => DedupBlock::default(),
                _ => block,
            },
            class_start: value.class_start,
        }
    }

    pub(in crate::blocks::dedup) fn value(&self) -> DedupValue {
        let mut value = DedupValue::new(DedupForm::Flat);
        let [block, ..] = &mut value.blocks;
        *block = self.block;
        value.class_start = self.class_start;
        value
    }

    /// The entry is there: it was not taken out.
    pub(in crate::blocks::dedup) const fn is_there(&self) -> bool {
        self.block.is_stored()
    }
}

/// How many of the entries in the maps are of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::blocks::dedup) struct Tally {
    /// All.
    pub(in crate::blocks::dedup) all: u64,
    /// That are there.
    pub(in crate::blocks::dedup) there: u64,
    /// Of which a ZAP has an older state.
    pub(in crate::blocks::dedup) homed: u64,
    /// That are there, and in no ZAP.
    pub(in crate::blocks::dedup) new: u64,
}

impl Tally {
    pub(super) fn of(logged: &Logged) -> Self {
        let (is_there, is_homed) = (logged.is_there(), logged.home.is_some());
        Self {
            all: 1,
            there: u64::from(is_there),
            homed: u64::from(is_homed),
            new: u64::from(is_there && !is_homed),
        }
    }

    pub(super) fn change(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        self.all = change(self.all, other.all);
        self.there = change(self.there, other.there);
        self.homed = change(self.homed, other.homed);
        self.new = change(self.new, other.new);
    }
}
