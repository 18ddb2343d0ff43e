//! What a checkpoint keeps: blocks of the checkpointed state that the pool has given up.
//!
//! They stay in use, as the maps say. The vdev has a map of them besides, from which they are freed when the checkpoint
//! goes; a pool that is taken back to the checkpoint knows nothing of that map.

use super::{Metaslab, State};
use crate::SpaceError;
use crate::range_set::RangeSet;
use std::ops::Range;

impl Metaslab {
    /// Notes that a range is used by the checkpointed state alone from now on; in syncing context.
    pub(crate) fn keep(&self, range: Range<u64>) -> Result<(), SpaceError> {
        let mut state = self.state.lock();
        let contradicts = !is_in_use(&state, &range) || !state.keeping.insert(range.clone());
        if contradicts {
            return Err(self.contradiction(&state, "free of a checkpointed block", range));
        }
        self.lists.lock().keeping.insert(self.place.index);
        Ok(())
    }

    /// What came to be kept since the last pass, for the vdev's map of it.
    pub(crate) fn take_kept(&self) -> RangeSet {
        let mut state = self.state.lock();
        self.lists.lock().keeping.remove(&self.place.index);
        std::mem::take(&mut state.keeping)
    }
}

/// Whether nothing of a range is free or being freed, as far as that is in memory.
fn is_in_use(state: &State, range: &Range<u64>) -> bool {
    state.in_use_from(range).is_some() && !state.freeing.overlaps(range)
}
