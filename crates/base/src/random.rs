//! Chance as a value that is passed in. The system's own source is `sys::SystemRng`.

use std::sync::atomic::{AtomicU64, Ordering};

/// A source of random numbers that threads can share.
pub trait Rng: Send + Sync {
    /// The next 64 random bits.
    fn next_u64(&self) -> u64;

    /// Fills `bytes` with random bytes.
    fn fill(&self, bytes: &mut [u8]) {
        for piece in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            piece.copy_from_slice(&word[..piece.len()]);
        }
    }

    /// A number below `bound`, or 0 if `bound` is 0.
    fn below(&self, bound: u64) -> u64 {
        // The multiply-shift map: its bias is below 2^-32 for every bound that we use.
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        (wide >> 64) as u64
    }

    /// A number that is not 0: for guids.
    fn nonzero_u64(&self) -> u64 {
        loop {
            let value = self.next_u64();
            if value != 0 {
                return value;
            }
        }
    }
}

/// Fills `bytes` by the chance of the schedule, where there is one; false outside, and nothing is filled.
pub fn fill_scheduled(bytes: &mut [u8]) -> bool {
    for piece in bytes.chunks_mut(8) {
        let Some(word) = crate::schedule::random() else {
            return false;
        };
        piece.copy_from_slice(&word.to_le_bytes()[..piece.len()]);
    }
    crate::schedule::is_scheduled()
}

/// A reproducible source: the same seed gives the same numbers (SplitMix64). Not for secrets.
#[derive(Debug)]
pub struct SeededRng {
    state: AtomicU64,
}

impl SeededRng {
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

    /// The source named by `seed`.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self {
            state: AtomicU64::new(seed),
        }
    }
}

impl Rng for SeededRng {
    fn next_u64(&self) -> u64 {
        let old = self.state.fetch_add(Self::STEP, Ordering::Relaxed);
        let mut z = old.wrapping_add(Self::STEP);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
