//! How long freed space has still to rest, and when a txg is written for that alone.
//!
//! What a txg freed, the states of the two uberblocks before its own still need: it rests until two more uberblocks are
//! written (`space`). A txg without changes writes none, and so ages nothing. Where what rests is wanted, such a txg
//! writes an uberblock all the same:
//!
//! ```text
//! a txg with changes ─────────────────────────> owed = 2
//! a txg without, owed > 0, and wanted ── root ─> owed - 1
//! a txg without otherwise ── no uberblock ─────> owed
//! ```
//!
//! What a txg frees that is written for ageing alone are a few blocks of the pool's own; nothing is owed for them, or
//! it would never end. So a pool that nobody changes writes two uberblocks more, at most.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Txgs with an uberblock in which freed space rests before it is free: see `space`.
pub(crate) const REST_TXGS: u64 = space::DEFER_TXGS as u64;

/// See the module. Changed by the syncing thread; anybody may look or want.
pub(crate) struct Ageing {
    /// Txgs to be written until what txgs with changes freed has rested.
    owed: AtomicU64,
    /// Txgs written since the pool was opened.
    written: AtomicU64,
    /// Somebody waits for what rests.
    wanted: AtomicBool,
    /// The pool closes: nothing is written for ageing.
    ends: AtomicBool,
}

impl Default for Ageing {
    /// Of a pool that was just opened: what its last txg freed is free in its maps, but has not rested.
    fn default() -> Self {
        Self {
            owed: AtomicU64::new(REST_TXGS),
            written: AtomicU64::new(0),
            wanted: AtomicBool::new(false),
            ends: AtomicBool::new(false),
        }
    }
}

impl Ageing {
    /// A txg is on disk; `changed`: not for ageing alone.
    pub(crate) fn written(&self, changed: bool) {
        self.written.fetch_add(1, Ordering::SeqCst);
        let owed = if changed {
            REST_TXGS
        } else {
            self.owed().saturating_sub(1)
        };
        self.owed.store(owed, Ordering::SeqCst);
        if owed == 0 {
            self.wanted.store(false, Ordering::SeqCst);
        }
    }

    /// Has txgs be written, although nothing changes, until what rests now is free.
    pub(crate) fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
    }

    /// Whether somebody wants what rests.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// How many txgs are to be written until what was freed is free.
    pub(crate) fn owed(&self) -> u64 {
        self.owed.load(Ordering::SeqCst)
    }

    /// Whether a txg may be written for ageing alone.
    pub(crate) fn may_write(&self) -> bool {
        self.owed() > 0 && !self.ends.load(Ordering::SeqCst)
    }

    /// How many txgs were written since the pool was opened.
    pub(crate) fn count(&self) -> u64 {
        self.written.load(Ordering::SeqCst)
    }

    /// Whether what was freed before the pool was opened has rested, which the maps do not say.
    pub(crate) fn is_past_opening(&self) -> bool {
        self.count() >= REST_TXGS
    }

    /// The pool closes, or stays open after all.
    pub(crate) fn end(&self, ends: bool) {
        self.ends.store(ends, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests;
