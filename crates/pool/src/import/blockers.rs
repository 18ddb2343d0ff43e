//! Why a pool that was loaded may not be used: features that nobody here knows, and, for writing, structures that we
//! would not keep consistent.

use std::sync::Arc;

use base::{ByteOrder, Txg};
use dmu::Zap;
use format::Uberblock;
use format::config::directory;
use vdev::VdevTree;

use crate::checkpoint;
use crate::config::PoolConfig;
use crate::error::{ImportBlocker, PoolError, Result};
use crate::import::discover::FoundPool;
use crate::import::load::Loaded;
use crate::mos::features::Features;
use crate::scan::phys::{self, FUNCTION_RESILVER, FUNCTION_SCRUB};
use crate::vdevs::devices::{Devices, Purpose};
use crate::vdevs::dtl;

/// Refuses a pool that cannot be used for this, and completes what its leaves missed. Nothing is written.
pub(crate) fn judge(
    loaded: &Loaded,
    (found, devices): (&FoundPool, &Devices),
    purpose: Purpose,
) -> Result<()> {
    loaded.features.check_known(purpose.is_strict())?;
    let vdevs = &loaded.objects.foundation.vdevs;
    // No label has the uberblock of a state that the pool is just taken back to.
    let newest = found.newest_uberblock().map_or(Txg(0), |newest| newest.txg);
    let on_labels = loaded.uberblock.txg.min(newest);
    dtl::note_outdated(vdevs, &devices.found(), on_labels)?;
    let leaves = dtl::leaves(vdevs);
    leaves.iter().for_each(|leaf| leaf.missing_is_known());
    if !purpose.is_strict() {
        return Ok(());
    }
    let inspection = Inspection {
        uberblock: &loaded.uberblock,
        config: &loaded.config,
        vdevs,
        directory: &loaded.directory,
        features: &loaded.features,
        purpose,
    };
    let blocker = inspection.blocker()?;
    blocker.map_or(Ok(()), |blocker| Err(PoolError::ReadOnlyPossible(blocker)))
}

/// What is looked at before a pool is opened for writing.
struct Inspection<'a> {
    uberblock: &'a Uberblock,
    config: &'a PoolConfig,
    vdevs: &'a VdevTree,
    directory: &'a Zap,
    features: &'a Features,
    /// What its devices were opened for.
    purpose: Purpose,
}

impl Inspection<'_> {
    /// The first blocker, apart from those inside datasets.
    fn blocker(&self) -> Result<Option<ImportBlocker>> {
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
        let is_fit = |leaf: &vdev::Leaf| match self.purpose {
            Purpose::Writing => leaf.is_writable(),
            Purpose::Reading | Purpose::Judging => leaf.is_readable(),
        };
        let fails = |leaf: &vdev::Leaf| !is_fit(leaf);
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
