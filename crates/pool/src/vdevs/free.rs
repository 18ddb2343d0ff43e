//! What the pool keeps of a vdev is freed when that goes: a device of a mirror, a log vdev, one whose data was moved.

use base::{ObjectId, VdevId};
use dmu::Zap;
use format::config::{keys, vdev_zap};

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::sync::tasks::FirstPass;

impl FirstPass<'_> {
    /// The ZAP of a top-level vdev.
    pub(crate) fn top_zap(&self, vdev: VdevId) -> Result<Zap> {
        let config = &self.services.config;
        let id = config.with(|config| config.top(vdev)?.object(keys::VDEV_ZAP_TOP));
        let id = id.ok_or_else(|| PoolError::Damaged(format!("vdev {vdev} has no ZAP")))?;
        Ok(Zap::open(&self.services.mos.object(id)?)?)
    }

    /// Frees what the pool knows of the space of a vdev.
    pub(crate) fn forget_space(&self, id: VdevId) -> Result<()> {
        let space = self.space.vdev(id);
        for map in space.map(|space| space.map_objects()).unwrap_or_default() {
            self.maps.destroy_map(self.tx, map)?;
        }
        self.space.remove_vdev(id);
        self.maps.remove_vdev(id);
        // Logs of space maps that name the vdev go as well.
        self.flush_maps();
        Ok(())
    }

    /// Frees the objects of a vdev and of what is below it.
    pub(crate) fn free_objects(&self, vdev: &VdevConfig) -> Result<()> {
        if let Some(id) = vdev.object(keys::VDEV_ZAP_TOP) {
            let zap = Zap::open(&self.services.mos.object(id)?)?;
            if let Some(array) = zap.lookup(vdev_zap::UNFLUSHED_TXGS.as_bytes())? {
                self.services.mos.free(self.tx, ObjectId(array))?;
            }
            self.free_zap(id)?;
        }
        if let Some(array) = vdev.object(keys::METASLAB_ARRAY) {
            self.services.mos.free(self.tx, array)?;
        }
        self.free_leaves(vdev)
    }

    /// Frees what the leaves of a vdev have.
    pub(crate) fn free_leaves(&self, node: &VdevConfig) -> Result<()> {
        if let Some(id) = node.object(keys::VDEV_ZAP_LEAF) {
            self.free_zap(id)?;
        }
        if let Some(missed) = node.object(keys::DTL) {
            self.maps.destroy_map(self.tx, missed)?;
        }
        let mut children = node.children.iter();
        children.try_for_each(|child| self.free_leaves(child))
    }

    /// Frees a ZAP of a vdev, and takes it out of the pool's table of these.
    fn free_zap(&self, id: ObjectId) -> Result<()> {
        self.services.mos.free(self.tx, id)?;
        match self.vdev_zaps_if_any()? {
            Some(zaps) => Ok(zaps.remove_int(self.tx, id.0)?),
            None => Ok(()),
        }
    }
}
