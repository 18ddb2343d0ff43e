//! Random numbers from a seed: one seed is one history.

use std::ops::Range;

/// A small generator (SplitMix64).
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.draw() % (bound.max(1) as u64)).unwrap_or(0)
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }

    /// Whether a chance of one in `of` came true.
    pub fn one_in(&mut self, of: usize) -> bool {
        self.below(of) == 0
    }

    /// Bytes: half of them runs, so that compression finds something.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < length {
            let value = self.draw();
            if value & 7 == 0 {
                let run = self.below(512) + 8;
                bytes.resize(bytes.len() + run, value.to_le_bytes()[7]);
            } else {
                bytes.extend_from_slice(&value.to_le_bytes());
            }
        }
        bytes.truncate(length);
        bytes
    }
}

/// The seed that `MILLPOND_SEED` gives, else the test's own.
#[must_use]
pub fn seed(default: u64) -> u64 {
    asked("MILLPOND_SEED").unwrap_or(default)
}

/// That seed alone, else all of the test's own.
#[must_use]
pub fn seeds(default: Range<u64>) -> Range<u64> {
    asked("MILLPOND_SEED").map_or(default, |seed| seed..seed + 1)
}

/// The number that a variable of the environment gives.
#[must_use]
pub fn asked(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
