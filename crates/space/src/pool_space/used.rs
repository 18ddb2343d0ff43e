//! What of a vdev is not free.

use super::PoolSpace;
use crate::{SpaceError, SpaceStore};
use base::VdevId;
use std::ops::Range;

impl PoolSpace {
    /// The first range of `within`, bytes of a vdev, that cannot be given: it is in use, was given to a txg that is
    /// open or under way, or rests. It ends where its metaslab does. None without one.
    ///
    /// # Errors
    /// A map cannot be read, or there is no such vdev.
    pub fn next_used(
        &self,
        vdev: VdevId,
        within: &Range<u64>,
        store: &dyn SpaceStore,
    ) -> Result<Option<Range<u64>>, SpaceError> {
        let vdev = self.vdev_of(vdev, within)?;
        let shift = vdev.geometry().metaslab_shift;
        let first = usize::try_from(within.start >> shift).unwrap_or(usize::MAX);
        for metaslab in vdev.metaslabs().iter().skip(first) {
            let whole = &metaslab.place().range;
            let part = whole.start.max(within.start)..whole.end.min(within.end);
            if part.is_empty() {
                if whole.start >= within.end {
                    break;
                }
                continue;
            }
            let found = metaslab.next_used(&part, store)?;
            self.shed(Some(metaslab));
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }
}
