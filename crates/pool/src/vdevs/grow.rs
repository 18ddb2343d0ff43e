//! Vdevs whose devices have become larger: `zpool online -e`, and the property `autoexpand`.
//!
//! A vdev becomes larger by whole metaslabs, in the first pass of a txg, where no txg writes labels: first the
//! labels at the new end of each of its devices, then the configuration that says the new size, then, once that is on
//! disk, space that blocks may be given. A crash in between leaves the vdev as it was, for the labels at the
//! beginning of a device tell of it, too.

use std::sync::Arc;

use base::{Guid, VdevId};
use dsl::property::pool::AUTOEXPAND;
use format::config::keys;
use space::{ClassKind, VdevSpace};
use vdev::Top;

use crate::allocation::opening::geometry;
use crate::error::Result;
use crate::pool::Pool;
use crate::sync::tasks::FirstPass;
use crate::vdevs::changes::Change;

impl Pool {
    /// Has the vdevs of these devices take all that their devices have, where all devices of one have become larger.
    /// Nothing happens to the others.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub fn expand_over(&self, leaves: &[Guid]) -> Result<()> {
        let is_meant = |top: &Arc<Top>| {
            let mut own = top.leaves().iter();
            own.any(|leaf| leaves.contains(&leaf.guid()))
        };
        let tops = self.vdevs.tops().into_iter().filter(is_meant);
        self.grow_tops(tops.map(|top| top.id()).collect())
    }

    /// Follows the property `autoexpand`: what devices have become larger by is used.
    ///
    /// # Errors
    /// The pool cannot be written.
    pub(crate) fn follow_autoexpand(&self) -> Result<()> {
        // A property that cannot be read counts as its default.
        if !self.get(AUTOEXPAND).is_ok_and(|found| found.value) {
            return Ok(());
        }
        self.grow_tops(self.vdevs.tops().iter().map(|top| top.id()).collect())
    }

    fn grow_tops(&self, tops: Vec<VdevId>) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        writer.vdev_changes.change_next([Change::Grow(tops)]);
        Ok(writer.engine.wait_synced(None)?)
    }
}

impl FirstPass<'_> {
    /// Whether vdevs take what their devices have become larger by.
    pub(super) fn expands_by_itself(&self) -> bool {
        let stored = self.services.stored_number(AUTOEXPAND.row());
        stored.is_ok_and(|stored| stored == Some(1))
    }

    /// Has all vdevs take what their devices have; answers their space from the next txg on.
    pub(super) fn grow_all(&self) -> Result<Vec<VdevSpace>> {
        let tops: Vec<VdevId> = self.vdevs.tops().iter().map(|top| top.id()).collect();
        self.grow(&tops)
    }

    /// Has vdevs take what their devices have; answers their space from the next txg on.
    pub(super) fn grow(&self, tops: &[VdevId]) -> Result<Vec<VdevSpace>> {
        let mut spaces = Vec::new();
        for top in self.vdevs.tops() {
            if tops.contains(&top.id()) {
                spaces.extend(self.grow_one(&top)?);
            }
        }
        Ok(spaces)
    }

    fn grow_one(&self, top: &Arc<Top>) -> Result<Option<VdevSpace>> {
        let services = self.services;
        let node = services.config.with(|config| config.top(top.id()).cloned());
        // One that came with this txg, or was made wider by it, is as large as its devices.
        let before = self.space.vdev(top.id());
        let Some((node, before)) = node.zip(before) else {
            return Ok(None);
        };
        if node.layout().as_ref() != Some(&before.geometry().layout) {
            return Ok(None);
        }
        for leaf in top.leaves() {
            let old_size = leaf.device().map_or(0, |device| device.size());
            // One that fails now does not let its vdev grow; its other labels are as they were.
            if leaf.takes_labels() && leaf.extend_labels(old_size).is_err() {
                return Ok(None);
            }
        }
        let more = node.expandable_bytes(top.smallest_leaf());
        if more == 0 {
            return Ok(None);
        }
        let changed = services.config.change(|whole| {
            let node = whole.top_mut(top.id())?;
            let size = node.metaslab_bytes().saturating_add(more);
            node.list.set(keys::ASIZE, size);
            Some(node.clone())
        });
        self.regroup(top, changed.as_ref(), &[])?;
        let Some(node) = changed else {
            return Ok(None);
        };
        let grown = before.grown(geometry(&node, before.geometry().class)?);
        self.tell_growth(more)?;
        services.events.vdev("vdev_autoexpand", node.guid());
        Ok(Some(grown))
    }

    /// Notes in the history that the pool has become larger.
    pub(super) fn tell_growth(&self, more: u64) -> Result<()> {
        let services = self.services;
        let size = self.space.capacity_bytes(ClassKind::Normal);
        let size = size.saturating_add(more);
        let name = services.config.with(|config| config.name().to_owned());
        let text = format!("pool '{name}' size: {size}(+{more})");
        let now_s = services.clock.now_s();
        let history = &services.history;
        Ok(history.internal(self.tx, "vdev online", &text, None, now_s)?)
    }
}
