//! Whether a pool could be imported, for those who only list pools.
//!
//! The steps are those of an import, and so are the answers, up to where an import begins to write: on devices that are
//! opened for reading, without locks. Nothing is read but the pool's own object set.

use dmu::Zap;
use format::config::keys;
use format::features::Feature;

use crate::config::PoolConfig;
use crate::error::Result;
use crate::import::blockers::judge;
use crate::import::discover::FoundPool;
use crate::import::load::{LoadOptions, Loaded, find_stored, load_stored};
use crate::vdevs::device_lists;
use crate::vdevs::devices::{Devices, Purpose};

/// Bytes of blocks that a trial keeps: it reads little twice.
const CACHE_BYTES: usize = 4 << 20;

/// What was found out about a pool that is not imported.
#[derive(Debug)]
pub struct Trial {
    /// The configuration that the pool itself has stored, as far as it could be read. Labels know less.
    pub config: Option<PoolConfig>,
    /// Where its hot spares are, as far as that could be read.
    pub spares: Vec<String>,
    /// Where its devices for a cache are, likewise.
    pub caches: Vec<String>,
    /// Features that new pools have, and this one does not.
    pub lacking: Vec<&'static Feature>,
    /// Whether it can be imported for writing by a host that has it for itself; if not, what the import would say.
    pub outcome: Result<()>,
}

/// Tries whether a pool could be imported. Nothing is written, and nobody who has the pool is disturbed.
#[must_use]
pub fn try_import(found: &FoundPool) -> Trial {
    let mut trial = Trial {
        config: None,
        spares: Vec::new(),
        caches: Vec::new(),
        lacking: Vec::new(),
        outcome: Ok(()),
    };
    trial.outcome = trial.run(found);
    trial
}

impl Trial {
    fn run(&mut self, found: &FoundPool) -> Result<()> {
        let purpose = Purpose::Judging;
        let options = LoadOptions {
            purpose,
            txg_max: None,
            state: None,
            cache_bytes: CACHE_BYTES,
            without_logs: false,
        };
        let mut devices = Devices::of_pool(found, purpose, None)?;
        let judged = self.load(found, &mut devices, &options);
        // An import opens them for writing before it looks at what is on them.
        devices.check_writable()?;
        judged
    }

    fn load(
        &mut self,
        found: &FoundPool,
        devices: &mut Devices,
        options: &LoadOptions,
    ) -> Result<()> {
        let stored = find_stored(found.guid, devices, options)?;
        self.config = Some(stored.1.clone());
        let loaded = load_stored(stored, devices, options)?;
        self.spares = beside(&loaded, keys::SPARES);
        self.caches = beside(&loaded, keys::L2CACHE);
        self.lacking = loaded.features.lacking();
        judge(&loaded, (found, devices), options.purpose)
    }
}

/// The paths of the devices in a list beside the vdevs; none where it cannot be read.
fn beside(loaded: &Loaded, list: &str) -> Vec<String> {
    let directory: &Zap = &loaded.directory;
    let stored = device_lists::stored(&loaded.objects.mos, directory, list);
    let Ok(Some((_, listed))) = stored else {
        return Vec::new();
    };
    let paths = listed.iter().filter_map(|device| device.path());
    paths.map(ToOwned::to_owned).collect()
}

#[cfg(test)]
mod tests;
