//! Why a pool may not be opened for writing: structures that we would not keep consistent.

use std::sync::Arc;

use base::ByteOrder;
use dmu::Zap;
use format::Uberblock;
use format::config::directory;
use vdev::VdevTree;

use crate::checkpoint;
use crate::config::PoolConfig;
use crate::error::{ImportBlocker, Result};
use crate::mos::features::Features;
use crate::scan::phys::{self, FUNCTION_RESILVER, FUNCTION_SCRUB};

/// What is looked at before a pool is opened for writing.
pub(crate) struct Inspection<'a> {
    pub(crate) uberblock: &'a Uberblock,
    pub(crate) config: &'a PoolConfig,
    pub(crate) vdevs: &'a VdevTree,
    pub(crate) directory: &'a Zap,
    pub(crate) features: &'a Features,
}

impl Inspection<'_> {
    /// The first blocker, apart from those inside datasets.
    pub(crate) fn blocker(&self) -> Result<Option<ImportBlocker>> {
        if let Some(blocker) = self.vdev_blocker() {
            return Ok(Some(blocker));
        }
        if let Some(blocker) = self.directory_blocker()? {
            return Ok(Some(blocker));
        }
        Ok(self.features.import_blocker())
    }

    fn vdev_blocker(&self) -> Option<ImportBlocker> {
        let tops = self.config.root.children.iter();
        if tops.filter(|top| top.is_expanding()).count() > 1 {
            // How far each came, no uberblock can say.
            let kind = "RAID-Z (several being expanded)";
            return Some(ImportBlocker::VdevKind { kind });
        }
        self.outage()
    }

    /// A vdev of which too few devices have what some txg wrote: of a mirror, none. Log vdevs may fail.
    fn outage(&self) -> Option<ImportBlocker> {
        let fails = |leaf: &vdev::Leaf| !leaf.is_writable();
        let too_few = |top: &&Arc<vdev::Top>| !top.outage(&fails).is_empty();
        let tops = self.vdevs.tops();
        let mut needed = tops.iter().filter(|top| !top.config().is_log);
        let top = needed.find(too_few)?;
        Some(ImportBlocker::Resilver {
            path: top.leaves().first()?.path().to_string(),
        })
    }

    fn directory_blocker(&self) -> Result<Option<ImportBlocker>> {
        for entry in self.directory.entries()? {
            let Ok(name) = std::str::from_utf8(&entry.name) else {
                continue;
            };
            if name == directory::CHECKPOINT && checkpoint::stored(self.directory).is_err() {
                return Ok(Some(ImportBlocker::Checkpoint));
            }
            // Tables of a machine of the other byte order have not been written by anybody here yet.
            let is_table =
                name.starts_with(directory::DEDUP_PREFIX) && name != directory::DEDUP_STATISTICS;
            if is_table && self.uberblock.root.byte_order() != ByteOrder::NATIVE {
                return Ok(Some(ImportBlocker::Dedup));
            }
        }
        let scan = phys::load(self.directory)?;
        Ok(scan
            .filter(|scan| {
                let known = [FUNCTION_SCRUB, FUNCTION_RESILVER].contains(&scan.function);
                scan.is_running() && !known
            })
            .map(|scan| ImportBlocker::Scan {
                function: scan.function,
            }))
    }
}
