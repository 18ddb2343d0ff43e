//! How long tests wait for what is to happen.

use std::time::{Duration, Instant};

/// Far more than a busy machine takes: it ends a test whose wait would not end, and says nothing of speed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(240);

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
