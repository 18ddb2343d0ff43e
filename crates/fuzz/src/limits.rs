//! What an execution may take.

use crate::target::Target;
use std::time::{Duration, Instant};

/// A decoder may allocate this much beyond what the input's size explains (the largest block is 16 MiB).
const MEMORY_MAX: usize = 64 << 20;
/// An execution that takes longer than this hangs.
const TIME_MAX: Duration = Duration::from_secs(2);

/// Gives an input to a target.
///
/// # Panics
/// When the target does, or takes too long or too much memory.
pub fn execute(target: &Target, input: &[u8]) {
    let region = stats_alloc::Region::new(crate::ALLOCATOR);
    let begin = Instant::now();
    (target.run)(input);
    let (elapsed, allocated) = (begin.elapsed(), region.change().bytes_allocated);
    let (name, len) = (target.name, input.len());
    assert!(
        elapsed <= TIME_MAX,
        "{name} took {elapsed:?} for {len} bytes"
    );
    assert!(
        allocated <= MEMORY_MAX + 64 * len,
        "{name} allocated {allocated} bytes for {len} bytes"
    );
}
