//! Looking up what the cache in memory keeps of datasets, for those who read and write their blocks.

use std::sync::Arc;

use base::ObjectSetId;
use txg::SyncContext;

use crate::dataset::Dataset;
use crate::layer::{Dsl, LOOKS_MAX};
use crate::primary_cache::PrimaryCache;
use crate::property::dataset::PRIMARYCACHE;

impl Dataset {
    /// Has who reads and writes its blocks know whether the cache keeps them. Where that cannot be looked up it stays
    /// as it is, which does no harm.
    pub(crate) fn enter_primary_cache(&self) {
        let (dsl, set) = (self.dsl(), ObjectSetId(self.id().0));
        for _ in 0..LOOKS_MAX {
            let stamp = dsl.stamp();
            let Ok(found) = self.get(PRIMARYCACHE) else {
                return;
            };
            dsl.primary_cache.enter(set, found.value);
            // Who looks for all that are open either finds this one, or has ended before this look.
            if dsl.stamp() == stamp {
                return;
            }
        }
    }
}

impl Dsl {
    /// Of which object sets the cache in memory does not keep all, for who reads and writes blocks.
    #[must_use]
    pub const fn primary_cache(&self) -> &Arc<PrimaryCache> {
        &self.primary_cache
    }

    /// After a task: looks the property up again for all that are open, if it may have changed.
    pub(crate) fn follow_primary_cache(&self) {
        if !self.primary_cache.take_change() {
            return;
        }
        // What a device does not answer stays unknown: nobody waits for that.
        let impatient = SyncContext::enter_task();
        let live = self.datasets.live();
        let open = live.iter().filter(|dataset| dataset.is_open());
        open.for_each(|dataset| dataset.enter_primary_cache());
        drop(impatient);
    }
}
