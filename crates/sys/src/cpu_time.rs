//! The CPU time that a thread has used.

use rustix::time::{ClockId, clock_gettime};

/// That of the calling thread, in nanoseconds.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "what a thread has used is no moment"
)]
pub fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let ns = u64::try_from(time.tv_nsec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(ns)
}

#[cfg(test)]
mod tests;
