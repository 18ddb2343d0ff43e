//! Free ranges that are being discarded.
//!
//! Invariant: a range under discard is neither free for allocation nor in use. It leaves `free` before the discard
//! begins and comes back only when it has ended on all leaves: what is written there afterwards cannot be destroyed
//! by it. What the last two written txgs freed is not in `free` and so is never discarded.

use super::Metaslab;
use crate::range_set::RangeSet;
use crate::{SpaceError, SpaceStore};
use std::ops::Range;

/// Discards begin and end at multiples of so many bytes: smaller pieces of a host's blocks would only be zeroed.
const ALIGNMENT: u64 = 4096;

/// Which free ranges are worth a discard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimSizes {
    /// Shorter ranges are left alone, bytes.
    pub min: u64,
    /// Longer ones are cut into pieces of that, bytes.
    pub max: u64,
}

impl Metaslab {
    /// What became free since this was last asked.
    pub(crate) fn take_recent(&self) -> RangeSet {
        std::mem::take(&mut self.state.lock().recent)
    }

    /// Takes the first range of `within` that is free and worth a discard out of use, until [`Self::trimmed`].
    pub(crate) fn take_for_trim(
        &self,
        within: &Range<u64>,
        sizes: TrimSizes,
        store: &dyn SpaceStore,
    ) -> Result<Option<Range<u64>>, SpaceError> {
        // Not `touch`: what only a trim looks at may be unloaded at once.
        loop {
            if !self.load_unless_damaged(store)? {
                return Ok(None);
            }
            let mut state = self.state.lock();
            let Some(free) = &mut state.free else {
                continue;
            };
            let unit = self.place.unit;
            let alignment = unit * ALIGNMENT.div_ceil(unit);
            let piece = |segment: Range<u64>| {
                let start = segment.start.max(within.start);
                let start = start.checked_next_multiple_of(alignment)?;
                let end = segment.end.min(within.end);
                let end = end.min(start.saturating_add(sizes.max)) / alignment * alignment;
                (start < end && end - start >= sizes.min).then_some(start..end)
            };
            let found = free
                .iter_from(within.start)
                .take_while(|segment| segment.start < within.end)
                .find_map(piece);
            let Some(range) = found else {
                return Ok(None);
            };
            // The bound stays, and the range comes back.
            let taken = free.remove(range.clone()) && state.trimming.insert(range.clone());
            self.weigh(&mut state);
            return if taken {
                Ok(Some(range))
            } else {
                Err(self.contradiction(&state, "trim", range))
            };
        }
    }

    /// A range is free again: its discard has ended.
    pub(crate) fn trimmed(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let taken = state.trimming.remove(range.clone());
        self.make_free(&mut state, range, taken, "end of trim")
    }
}

#[cfg(test)]
mod tests;
