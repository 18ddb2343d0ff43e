//! Vdevs without metaslabs. OpenZFS puts a new vdev into the configuration in one txg and gives it metaslabs in a later
//! one. A pool that was left between the two has a vdev on which nothing lies; it gets its metaslabs here when the pool
//! is imported to be written.

use base::VdevId;
use format::config::keys;
use space::{VdevGeometry, VdevSpace};

use crate::allocation::opening::open_vdev;
use crate::error::Result;
use crate::pool::Pool;
use crate::sync::tasks::FirstPass;
use crate::vdevs::changes::Change;
use crate::vdevs::objects::VdevObjects;

impl Pool {
    /// Gives metaslabs to the vdevs that have none.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub(crate) fn make_first_metaslabs(&self) -> Result<()> {
        let config = self.config();
        let tops = config.root.children.iter();
        let without: Vec<VdevId> = tops
            .filter(|top| top.has_no_metaslabs())
            .map(|top| top.id())
            .collect();
        if without.is_empty() {
            return Ok(());
        }
        let writer = self.writer()?;
        let _one = writer.vdev_changes.alone();
        let changes = without.into_iter().map(Change::FirstMetaslabs);
        writer.vdev_changes.change_next(changes);
        Ok(writer.engine.wait_synced(None)?)
    }
}

impl FirstPass<'_> {
    /// Makes the metaslabs of a vdev that has none; answers its space from the next txg on.
    pub(super) fn make_first_metaslabs(&self, id: VdevId) -> Result<Option<VdevSpace>> {
        let services = self.services;
        let top = services.config.with(|config| config.top(id).cloned());
        let Some(mut top) = top.filter(|top| top.has_no_metaslabs()) else {
            return Ok(None);
        };
        let shift = VdevGeometry::metaslab_shift_for(top.asize());
        top.list.set(keys::METASLAB_SHIFT, u64::from(shift));
        let objects = VdevObjects {
            objects: &services.mos,
            tx: self.tx,
            logged: self.space.has_logs(),
        };
        objects.metaslab_array(&mut top)?;
        let space = open_vdev(&services.mos, &top, self.maps, self.findings)?;
        services.config.change(|config| {
            if let Some(slot) = config.top_mut(id) {
                *slot = top;
            }
        });
        Ok(Some(space))
    }
}

#[cfg(test)]
mod tests;
