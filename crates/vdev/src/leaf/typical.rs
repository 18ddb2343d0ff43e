//! How long something takes, most of the time.

use std::sync::atomic::{AtomicU64, Ordering};

/// By this part of itself it moves towards each new time.
const STEP_SHIFT: u32 = 4;

/// A running median, nearly: single long times, as of a thread that had no CPU, hardly move it.
#[derive(Debug, Default)]
pub(crate) struct Typical(AtomicU64);

impl Typical {
    /// Something took so long. Of several who say so at once one may not be heard.
    pub(crate) fn note(&self, taken_ns: u64) {
        let typical_ns = self.0.load(Ordering::Relaxed);
        let step_ns = (typical_ns >> STEP_SHIFT).max(1);
        let moved_ns = match typical_ns {
            0 => taken_ns.max(1),
            shorter if shorter < taken_ns => typical_ns.saturating_add(step_ns).min(taken_ns),
            _ => typical_ns.saturating_sub(step_ns).max(taken_ns).max(1),
        };
        self.0.store(moved_ns, Ordering::Relaxed);
    }

    /// How long it takes; none if that is not known.
    pub(crate) fn ns(&self) -> Option<u64> {
        let typical_ns = self.0.load(Ordering::Relaxed);
        (typical_ns > 0).then_some(typical_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_time_now_and_then_says_little_and_a_change_is_followed() {
        let typical = Typical::default();
        assert_eq!(typical.ns(), None);
        for round in 0..200 {
            typical.note(if round % 5 == 4 { 4_000_000 } else { 10_000 });
        }
        assert!(
            (9_000..=12_000).contains(&typical.ns().unwrap()),
            "{typical:?}"
        );
        (0..100).for_each(|_| typical.note(100_000));
        assert_eq!(typical.ns(), Some(100_000));
        typical.note(0);
        assert!(typical.ns().is_some());
    }
}
