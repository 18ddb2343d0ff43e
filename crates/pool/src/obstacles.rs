//! Why a pool may not be opened for writing: structures that we would not keep consistent.

use std::sync::Arc;

use dmu::Zap;
use format::Uberblock;
use format::config::{directory, keys, vdev_types};
use format::uberblock::VERSION_FEATURES;
use vdev::VdevTree;

use crate::config::PoolConfig;
use crate::error::{Result, WriteObstacle};
use crate::features::Features;
use crate::scan::{FUNCTION_RESILVER, FUNCTION_SCRUB, ScanPhys};

/// What is looked at before a pool is opened for writing.
pub(crate) struct Inspection<'a> {
    pub(crate) uberblock: &'a Uberblock,
    pub(crate) config: &'a PoolConfig,
    pub(crate) vdevs: &'a VdevTree,
    pub(crate) directory: &'a Zap,
    pub(crate) features: &'a Features,
}

impl Inspection<'_> {
    /// The first obstacle, apart from those inside datasets.
    pub(crate) fn obstacle(&self) -> Result<Option<WriteObstacle>> {
        if self.uberblock.version < VERSION_FEATURES {
            let version = self.uberblock.version;
            return Ok(Some(WriteObstacle::LegacyVersion { version }));
        }
        if self.uberblock.multihost_active() {
            return Ok(Some(WriteObstacle::Multihost));
        }
        if let Some(obstacle) = self.vdev_obstacle() {
            return Ok(Some(obstacle));
        }
        if let Some(obstacle) = self.directory_obstacle()? {
            return Ok(Some(obstacle));
        }
        Ok(self.features.write_obstacle())
    }

    fn vdev_obstacle(&self) -> Option<WriteObstacle> {
        for top in &self.config.root.children {
            if top.is_hole() {
                continue;
            }
            if top.object(keys::INDIRECT_OBJECT).is_some() || top.flag(keys::REMOVING) {
                let kind = "removed";
                return Some(WriteObstacle::VdevKind { kind });
            }
        }
        self.replacement().or_else(|| self.outage())
    }

    /// A device that is being replaced or rebuilt: only OpenZFS ends that.
    fn replacement(&self) -> Option<WriteObstacle> {
        let mut found = None;
        self.config.root.walk(&mut |node| {
            let kind = match node.kind() {
                vdev_types::REPLACING => "replacing",
                vdev_types::SPARE => "spare",
                _ => return,
            };
            found.get_or_insert(WriteObstacle::VdevKind { kind });
        });
        let leaves = self.config.root.leaves();
        let rebuilt = leaves.iter().find(|leaf| leaf.flag(keys::REBUILD_TXG));
        found.or_else(|| {
            rebuilt.map(|leaf| WriteObstacle::Resilver {
                path: leaf.path().unwrap_or_default().to_owned(),
            })
        })
    }

    /// A vdev of which too few devices have everything: of a mirror, none. Log vdevs may fail.
    fn outage(&self) -> Option<WriteObstacle> {
        let lacks = |leaf: &&Arc<vdev::Leaf>| !leaf.is_writable() || !leaf.missing().is_empty();
        let too_few = |top: &&Arc<vdev::Top>| {
            let lacking = top.leaves().iter().filter(lacks).count();
            lacking > top.tolerance()
        };
        let tops = self.vdevs.tops();
        let mut needed = tops.iter().filter(|top| !top.config().is_log);
        let top = needed.find(too_few)?;
        Some(WriteObstacle::Resilver {
            path: top.leaves().first()?.path().to_string(),
        })
    }

    fn directory_obstacle(&self) -> Result<Option<WriteObstacle>> {
        for entry in self.directory.entries()? {
            let Ok(name) = std::str::from_utf8(&entry.name) else {
                continue;
            };
            if name == directory::CHECKPOINT {
                return Ok(Some(WriteObstacle::Checkpoint));
            }
            if name.starts_with(directory::DEDUP_PREFIX) && name != directory::DEDUP_STATISTICS {
                return Ok(Some(WriteObstacle::Dedup));
            }
            if name == directory::REMOVING && self.removal_under_way()? {
                let kind = "removed";
                return Ok(Some(WriteObstacle::VdevKind { kind }));
            }
        }
        let scan = ScanPhys::load(self.directory)?;
        Ok(scan
            .filter(|scan| {
                let known = [FUNCTION_SCRUB, FUNCTION_RESILVER].contains(&scan.function);
                scan.is_running() && !known
            })
            .map(|scan| WriteObstacle::Scan {
                function: scan.function,
            }))
    }

    fn removal_under_way(&self) -> Result<bool> {
        const ACTIVE: u64 = 1;
        let value = self
            .directory
            .lookup_value(directory::REMOVING.as_bytes())?;
        let state = value
            .map(|value| format::record::get_at::<u64>(value.stored(), 0, base::ByteOrder::Big));
        Ok(state == Some(ACTIVE))
    }
}
