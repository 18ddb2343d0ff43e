//! How much memory a cache may take when nobody says.

use crate::tunables::LIMIT_BYTES_CAP;

const LIMIT_BYTES_MIN: u64 = 16 << 20;

/// A quarter of the memory that this process may use: the machine's, or less under a control group's limit.
#[must_use]
pub fn default_limit_bytes() -> usize {
    let allowed = sys::system::memory_bytes();
    let limit = (allowed / 4)
        .max(LIMIT_BYTES_MIN)
        .min(LIMIT_BYTES_CAP.get());
    usize::try_from(limit).unwrap_or(usize::MAX)
}
