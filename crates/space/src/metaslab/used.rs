//! What of a metaslab is not free: in use, given, or resting.

use super::Metaslab;
use crate::{SpaceError, SpaceStore};
use std::ops::Range;

impl Metaslab {
    /// The first range of `within` that cannot be given.
    pub(crate) fn next_used(
        &self,
        within: &Range<u64>,
        store: &dyn SpaceStore,
    ) -> Result<Option<Range<u64>>, SpaceError> {
        loop {
            if !self.load_unless_damaged(store)? {
                // All of it may be in use.
                return Ok((within.start < within.end).then(|| within.clone()));
            }
            let state = self.state.lock();
            // It may have been unloaded meanwhile.
            let Some(free) = &state.free else {
                continue;
            };
            let mut start = within.start;
            for segment in free.iter_from(start) {
                if segment.start > start || start >= within.end {
                    let end = segment.start.min(within.end);
                    return Ok((start < end).then_some(start..end));
                }
                start = segment.end;
            }
            return Ok((start < within.end).then_some(start..within.end));
        }
    }
}
