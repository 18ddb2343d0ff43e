//! Where walks have been, and when what they found missing is enough to read a part of the array ahead.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::tunables;

/// How many parts of the array are remembered.
const PARTS: usize = 64;
/// A part is swept again only after so many times as much as before was found missing, as a power of two.
const PATIENCE_MAX: u64 = 6;

/// Where walks have been: each word holds a part, how often it was swept, and the blocks found missing since.
pub(crate) struct Walks {
    parts: Box<[AtomicU64]>,
    /// Blocks that may be swept on account of what was found missing, wherever that was.
    credit: AtomicU64,
}

/// What was found missing long ago pays for no more than so many blocks.
const CREDIT_MAX: u64 = 1 << 16;

const MISSING_BITS: u32 = 24;
const SWEPT_BITS: u32 = 4;

impl Walks {
    pub(crate) fn new() -> Self {
        Self {
            parts: (0..PARTS).map(|_| AtomicU64::new(0)).collect(),
            credit: AtomicU64::new(0),
        }
    }

    /// Notes that `missing` blocks of a part with `blocks` blocks were wanted and not there; whether to sweep it.
    pub(super) fn note(&self, part: u64, missing: u64, blocks: u64) -> bool {
        let Some(place) = self.parts.get(part as usize % PARTS) else {
            return false;
        };
        let known = place.load(Ordering::Relaxed);
        let tag = (part + 1) << (MISSING_BITS + SWEPT_BITS);
        let is_same = known >> (MISSING_BITS + SWEPT_BITS) == part + 1;
        let (swept, before) = if is_same {
            let swept = known >> MISSING_BITS & ((1 << SWEPT_BITS) - 1);
            (swept, known & ((1 << MISSING_BITS) - 1))
        } else {
            (0, 0)
        };
        let all = before.saturating_add(missing).min((1 << MISSING_BITS) - 1);
        let share = tunables::SWEEP_SHARE.get();
        let enough = blocks
            .div_ceil(share)
            .max(tunables::SWEEP_MISSING_MIN.get())
            << swept;
        let credit = self.credit.load(Ordering::Relaxed);
        let credit = missing.saturating_mul(share).saturating_add(credit);
        let credit = credit.min(CREDIT_MAX);
        // Who walks misses a few blocks in many parts at once. A first sweep may be paid for by all of them.
        let is_paid = swept == 0 && all >= tunables::SWEEP_MISSING_MIN.get() && credit >= blocks;
        let due = all >= enough || is_paid;
        let spent = if due { blocks } else { 0 };
        let credit = credit.saturating_sub(spent);
        self.credit.store(credit, Ordering::Relaxed);
        let (swept, all) = if due {
            ((swept + 1).min(PATIENCE_MAX), 0)
        } else {
            (swept, all)
        };
        place.store(tag | swept << MISSING_BITS | all, Ordering::Relaxed);
        due
    }
}
