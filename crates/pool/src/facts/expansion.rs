//! Expansions of RAID-Z vdevs.

use base::Guid;
use format::config::{keys, vdev_zap};

use super::Facts;
use crate::config::VdevConfig;

/// The states of an expansion, as stored.
const RUNS: u64 = 1;
const FINISHED: u64 = 2;

/// The last expansion of a RAID-Z vdev.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expansion {
    /// The vdev.
    pub vdev: Guid,
    /// What it is called.
    pub name: String,
    /// When it began: seconds since 1970.
    pub started_s: u64,
    /// When it ended, if it has.
    pub ended_s: Option<u64>,
    /// Bytes copied.
    pub copied: u64,
    /// Bytes in use on the vdev, all of which are copied.
    pub to_copy: u64,
    /// Whether nothing is copied, for a device is away or lacks something.
    pub waits: bool,
}

impl Facts<'_> {
    /// The expansion that began last, if there ever was one.
    #[must_use]
    pub fn expansion(&self) -> Option<Expansion> {
        let config = self.pool.config();
        let tops = config.root.children.iter();
        let found = tops.filter_map(|top| self.expansion_of(top));
        found.max_by_key(|expansion| expansion.started_s)
    }

    fn expansion_of(&self, top: &VdevConfig) -> Option<Expansion> {
        let table = self.stored.zap(top.object(keys::VDEV_ZAP_TOP)?)?;
        let number = |name: &str| table.lookup(name.as_bytes()).ok().flatten();
        let state = number(vdev_zap::RAIDZ_EXPAND_STATE)?;
        if ![RUNS, FINISHED].contains(&state) {
            return None;
        }
        let word = |name| number(name).unwrap_or(0);
        let ended = state == FINISHED && !self.pool.expands(top.id());
        Some(Expansion {
            vdev: top.guid(),
            name: format!("{}-{}", top.shown_kind(), top.id().0),
            started_s: word(vdev_zap::RAIDZ_EXPAND_START_TIME),
            ended_s: ended.then(|| word(vdev_zap::RAIDZ_EXPAND_END_TIME)),
            copied: word(vdev_zap::RAIDZ_EXPAND_BYTES_COPIED),
            to_copy: self.pool.allocated_on(top.id()),
            waits: !ended && self.pool.expansion_waits(),
        })
    }
}
