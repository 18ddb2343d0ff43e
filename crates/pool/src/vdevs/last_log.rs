//! A log device without which its vdev does not work: the intent logs leave it before it goes out of use, and come back
//! when the configuration on disk says that it is in use.
//!
//! An import does without a log vdev that is out of use by the operator's word. So no chain that anybody relies on may
//! lie there, from the txg on that says so to the one that says it no more.

use std::sync::Arc;

use base::{Guid, VdevId};
use vdev::{Leaf, Top};

use crate::error::{PoolError, Result};
use crate::logs::devices::BarredFromLogs;
use crate::pool::{Pool, Writer};
use crate::vdevs::regroup::{Chains, DeviceChange, OutOfUse};

/// Why the logs cannot leave a log device.
const UNPLAYED_LOGS: &str =
    "log device has unplayed intent logs; mount the file systems that they belong to";

impl Pool {
    /// The log vdev that something would be missing of without a leaf.
    pub(super) fn log_on(&self, leaf: Guid) -> Option<VdevId> {
        let top = self.top_with(leaf)?;
        let is_needed = !top.outage(&|other| other.guid() == leaf).is_empty();
        (top.config().is_log && is_needed).then(|| top.id())
    }

    /// Takes a device out of use after all chains have left its vdev. Until the txg is on disk that says so commits
    /// wait for txgs; then chains begin where log blocks can go.
    pub(super) fn take_last_log_out(
        &self,
        writer: &Writer,
        id: VdevId,
        (guid, how): (Guid, OutOfUse),
    ) -> Result<()> {
        let barred = writer.syncer.log_devices.bar(id);
        // Also of one that failed: what was acknowledged before is there until its txg is on disk.
        let emptied = match self.is_stored_as_out(guid) {
            true => Ok(()),
            false => self.empty_logs(writer, id),
        };
        let result = match emptied {
            Ok(()) => {
                let change = DeviceChange::TakeOut(guid, how, Chains::MovedOff);
                let changed = self.change_devices(writer, change);
                if changed.is_err() {
                    barred.keep();
                }
                changed
            }
            Err(PoolError::Busy) => Err(PoolError::refused(UNPLAYED_LOGS)),
            Err(error) => Err(error),
        };
        writer.logs.go_on();
        result
    }

    /// Whether the configuration says that a leaf is out of use by the operator's word.
    fn is_stored_as_out(&self, leaf: Guid) -> bool {
        self.services.config.with(|config| {
            let node = config.root.find(leaf);
            node.is_some_and(|node| node.stored_state().is_some())
        })
    }

    /// Has no log block go to the vdevs of these leaves whose stored configuration may say that they are out of use: an
    /// import would do without what is there.
    pub(crate) fn keep_logs_off(&self, named: &dyn Fn(&Leaf) -> bool) -> Vec<BarredFromLogs> {
        let Some(writer) = &self.writer else {
            return Vec::new();
        };
        let is_out = |leaf: &Arc<Leaf>| self.is_stored_as_out(leaf.guid()) && named(leaf);
        let mut tops = self.vdevs.tops();
        tops.retain(|top| top.config().is_log && top.leaves().iter().any(is_out));
        let bar = |top: &Arc<Top>| writer.syncer.log_devices.bar(top.id());
        tops.iter().map(bar).collect()
    }
}
