//! What becomes of writes that no flush covered, when the power goes.

use base::random::{Rng, SeededRng};

/// What becomes of one write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is on the medium.
    Kept,
    /// It never was.
    Lost,
    /// Some of its sectors are on the medium: true = kept, one for each sector it touches.
    Torn(Vec<bool>),
}

/// How the writes since the last flush fare in one crash: decided once a crash, so that the rare
/// shapes (all lost, all kept, a clean prefix) come up as often as the mixed ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survival {
    /// Nothing is kept.
    None,
    /// Everything is kept.
    All,
    /// The writes before some moment are kept, the one at that moment is torn.
    Prefix,
    /// Each write is kept or lost.
    Any,
    /// Each write is kept, lost or torn.
    Torn,
}

/// Decides the fates of one crash.
pub(crate) struct Fates {
    rng: SeededRng,
    survival: Survival,
    cut: usize,
}

impl Fates {
    /// The fates of `count` writes by `seed`.
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let rng = SeededRng::new(seed);
        let survival = match rng.below(8) {
            0 => Survival::None,
            1 => Survival::All,
            2 | 3 => Survival::Prefix,
            4 | 5 => Survival::Any,
            _ => Survival::Torn,
        };
        let cut = rng.below(count as u64 + 1) as usize;
        Self { rng, survival, cut }
    }

    /// The fate of the write `index` of those that no flush covered, of `sectors` sectors.
    pub(crate) fn of(&self, index: usize, sectors: usize) -> Fate {
        let coin = || self.rng.below(2) == 1;
        match self.survival {
            Survival::None => Fate::Lost,
            Survival::All => Fate::Kept,
            Survival::Prefix if index < self.cut => Fate::Kept,
            Survival::Prefix if index == self.cut => self.torn(sectors),
            Survival::Prefix => Fate::Lost,
            Survival::Any if coin() => Fate::Kept,
            Survival::Any => Fate::Lost,
            Survival::Torn => match self.rng.below(3) {
                0 => Fate::Kept,
                1 => Fate::Lost,
                _ => self.torn(sectors),
            },
        }
    }

    fn torn(&self, sectors: usize) -> Fate {
        if self.rng.below(2) == 0 {
            let kept = self.rng.below(sectors as u64 + 1) as usize;
            return Fate::Torn((0..sectors).map(|sector| sector < kept).collect());
        }
        Fate::Torn((0..sectors).map(|_| self.rng.below(2) == 1).collect())
    }
}
