//! What the pool does for the layers below: clock, features, space limits, frees, history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::clock::Clock;
use base::random::Rng;
use base::{ObjectId, Txg};
use dmu::{ObjectSet, Tx, Zap};
use format::config::{directory, keys};
use format::deadlist::parse_integer_key;
use format::features::{self, Feature};
use format::nvlist::{NvList, Value};
use format::uberblock::VERSION_FEATURES;
use format::version::{HISTORY, SLIM_LOGS};

use crate::allocation::limits::{Limits, SpaceFigures};
use crate::blocks::PipelineStore;
use crate::blocks::dedup::DedupTables;
use crate::blocks::references::BlockReferenceTable;
use crate::config::state::ConfigState;
use crate::create::new_objects::new_history;
use crate::error::Result;
use crate::events::Events;
use crate::logs::intent_logs::IntentLogs;
use crate::mos::device_list::DeviceList;
use crate::mos::error_log::ErrorLog;
use crate::mos::features::Features;
use crate::mos::history::History;
use crate::scan::control::Scrub;
use crate::scan::phys::{self, ScanPhys};
use crate::sync::ageing::Ageing;
use crate::sync::frees::Frees;
use crate::sync::task_effects::TaskEffects;

/// The pool, as the dataset layer sees it.
pub(crate) struct PoolServices {
    pub(crate) mos: Arc<ObjectSet>,
    pub(crate) directory: Zap,
    pub(crate) store: Arc<PipelineStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    /// The pool's version: rises with `zpool upgrade`.
    pub(crate) version: AtomicU64,
    pub(crate) writable: AtomicBool,
    pub(crate) features: Arc<Features>,
    pub(crate) history: Arc<History>,
    pub(crate) config: Arc<ConfigState>,
    pub(crate) frees: Arc<Frees>,
    /// Which blocks are shared.
    pub(crate) references: Arc<BlockReferenceTable>,
    /// Which content is stored where.
    pub(crate) dedup: Arc<DedupTables>,
    pub(crate) limits: Arc<Limits>,
    /// Of a pool that is open for writing.
    pub(crate) logs: Option<Arc<IntentLogs>>,
    /// Of a pool that is open for writing.
    pub(crate) scrub: Option<Arc<Scrub>>,
    /// Where blocks that cannot be read are noted.
    pub(crate) errors: Arc<ErrorLog>,
    /// Devices that wait for the place of one that fails.
    pub(crate) spares: Arc<DeviceList>,
    /// Devices for copies of blocks.
    pub(crate) caches: Arc<DeviceList>,
    /// What happened lately.
    pub(crate) events: Arc<Events>,
    /// What the task under way asked for.
    pub(crate) task: TaskEffects,
    /// How long freed space has still to rest.
    pub(crate) ageing: Ageing,
}

impl PoolServices {
    /// Changes a feature's count; what labels say follows.
    pub(crate) fn change_feature(
        &self,
        tx: &Tx,
        feature: &Feature,
        change: i64,
    ) -> dmu::Result<()> {
        if self.features.change(tx, feature, change)? {
            self.update_label_features();
        }
        Ok(())
    }

    /// Puts the active label features into the configuration.
    pub(crate) fn update_label_features(&self) {
        let mut list = NvList::new();
        for guid in self.features.label_names() {
            list.set(guid, Value::Boolean);
        }
        self.config.change(|config| {
            config.list.set(keys::FEATURES_FOR_READ, list);
        });
    }

    /// Enables a feature; in syncing context.
    pub(crate) fn enable_feature(&self, tx: &Tx, feature: &Feature) -> Result<()> {
        if self.features.is_enabled(feature) {
            return Ok(());
        }
        self.features
            .enable(&self.mos, &self.directory, tx, feature)?;
        if feature.flags.in_label {
            self.update_label_features();
        }
        if *feature == features::HOLE_BIRTH {
            // From this txg on holes tell when they were made: streams rely on it.
            self.store.write_hole_births();
        }
        let text = format!("feature@{}=enabled", feature.name);
        self.history
            .internal(tx, "set", &text, None, self.clock.now_s())?;
        Ok(())
    }

    /// Raises the pool's version; in syncing context. With the last numbered one behind it, the pool gets tables of
    /// features, all disabled.
    pub(super) fn raise_pool_version(&self, tx: &Tx, version: u64) -> dmu::Result<()> {
        let before = self.version.load(Ordering::Relaxed);
        if before >= version {
            return Ok(());
        }
        let has_history = self.directory.lookup(directory::HISTORY.as_bytes())?;
        if version >= HISTORY && has_history.is_none() {
            let capacity = self.limits.figures().size;
            let history = new_history(&self.mos, tx, capacity)?;
            let key = directory::HISTORY.as_bytes();
            self.directory.add(tx, key, history.id().0)?;
            self.history.set_object(history);
        }
        let text = format!("version={version}");
        self.history
            .internal(tx, "set", &text, None, self.clock.now_s())?;
        if before < VERSION_FEATURES && version >= VERSION_FEATURES {
            self.features.make_tables(&self.mos, &self.directory, tx)?;
        }
        self.version.store(version, Ordering::Relaxed);
        if version >= SLIM_LOGS {
            self.store.write_slim_logs();
        }
        self.config.change(|config| {
            config.list.set(keys::VERSION, version);
        });
        Ok(())
    }

    /// Gives a pool a salt of checksums that was made before there were any; in syncing context.
    pub(crate) fn ensure_salt(&self, tx: &Tx) -> Result<()> {
        let key = directory::CHECKSUM_SALT.as_bytes();
        if self.directory.lookup_value(key)?.is_some() {
            return Ok(());
        }
        let mut salt = [0; 32];
        self.rng.fill(&mut salt);
        self.store.set_salt(salt);
        let value = format::zap::Value::bytes(&salt);
        Ok(self.directory.add_value(tx, key, &value)?)
    }

    /// The datasets that a stored scan has still to see.
    pub(crate) fn stored_queue(&self, scan: &ScanPhys) -> dmu::Result<BTreeMap<ObjectId, Txg>> {
        if scan.queue == 0 {
            return Ok(BTreeMap::new());
        }
        let queue = Zap::open(&self.mos.object(ObjectId(scan.queue))?)?;
        let entries = queue.entries()?.into_iter();
        let known = entries.filter_map(|entry| {
            Some((ObjectId(parse_integer_key(&entry.name)?), Txg(entry.value)))
        });
        Ok(known.collect())
    }

    /// Stores where the scan is, if one runs or is paused; in syncing context.
    pub(crate) fn store_scan(&self, tx: &Tx) -> dmu::Result<()> {
        let Some((scan, wanted)) = self.scrub.as_ref().and_then(|scrub| scrub.stored()) else {
            return Ok(());
        };
        // One that ended meanwhile stays so.
        let Some(before) = phys::load(&self.directory)?.filter(ScanPhys::is_running) else {
            return Ok(());
        };
        if before.queue != 0 {
            let stored = self.stored_queue(&before)?;
            let queue = Zap::open(&self.mos.object(ObjectId(before.queue))?)?;
            for id in stored.keys().filter(|id| !wanted.contains_key(id)) {
                queue.remove_int(tx, id.0)?;
            }
            for (id, after) in wanted
                .iter()
                .filter(|(id, txg)| stored.get(id) != Some(txg))
            {
                queue.update_int(tx, id.0, after.0)?;
            }
        }
        let queue = before.queue;
        phys::store(&ScanPhys { queue, ..scan }, &self.directory, tx)
    }

    /// The pool's space as of now.
    pub(crate) fn space(&self) -> SpaceFigures {
        self.limits.figures()
    }
}
