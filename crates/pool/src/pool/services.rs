//! What the pool does for the layers below: clock, features, space limits, frees, history.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::clock::Clock;
use base::random::Rng;
use base::{ObjectId, Txg};
use dmu::{BlockStore, ObjectSet, Tx, Zap};
use dsl::{HistoryEvent, Services, SpaceClass, Succession};
use format::BlockPointer;
use format::config::keys;
use format::deadlist::parse_integer_key;
use format::features::Feature;
use format::intent_log::LogHeader;
use format::nvlist::{NvList, Value};

use crate::allocation::limits::{Limits, SpaceFigures};
use crate::blocks::PipelineStore;
use crate::blocks::references::BlockReferenceTable;
use crate::config::state::ConfigState;
use crate::error::Result;
use crate::events::Events;
use crate::logs::intent_logs::IntentLogs;
use crate::mos::error_log::ErrorLog;
use crate::mos::features::Features;
use crate::mos::history::History;
use crate::scan::control::Scrub;
use crate::scan::phys::ScanPhys;
use crate::sync::ageing::Ageing;
use crate::sync::frees::Frees;
use crate::sync::task_effects::TaskEffects;
use crate::trim::Trim;

/// The pool, as the dataset layer sees it.
pub(crate) struct PoolServices {
    pub(crate) mos: Arc<ObjectSet>,
    pub(crate) directory: Zap,
    pub(crate) store: Arc<PipelineStore>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rng: Arc<dyn Rng>,
    pub(crate) version: u64,
    pub(crate) writable: AtomicBool,
    pub(crate) features: Arc<Features>,
    pub(crate) history: History,
    pub(crate) config: Arc<ConfigState>,
    pub(crate) frees: Arc<Frees>,
    /// Which blocks are shared.
    pub(crate) references: Arc<BlockReferenceTable>,
    pub(crate) limits: Arc<Limits>,
    /// Of a pool that is open for writing.
    pub(crate) logs: Option<Arc<IntentLogs>>,
    /// Of a pool that is open for writing.
    pub(crate) scrub: Option<Arc<Scrub>>,
    /// Of a pool that is open for writing.
    pub(crate) trim: Option<Arc<Trim>>,
    /// Where blocks that cannot be read are noted.
    pub(crate) errors: Arc<ErrorLog>,
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
        let text = format!("feature@{}=enabled", feature.name);
        self.history
            .internal(tx, "set", &text, None, self.clock.now_s())?;
        Ok(())
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
        let Some(before) = ScanPhys::load(&self.directory)?.filter(ScanPhys::is_running) else {
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
        ScanPhys { queue, ..scan }.store(&self.directory, tx)
    }

    /// The pool's space as of now.
    pub(crate) fn space(&self) -> SpaceFigures {
        self.limits.figures()
    }
}

impl Services for PoolServices {
    fn stopped(&self, head: &dsl::StoppedHead) {
        self.events.stopped(&head.name, &head.reason);
    }

    fn store(&self) -> Arc<dyn BlockStore> {
        Arc::clone(&self.store) as Arc<dyn BlockStore>
    }

    fn clock(&self) -> &dyn Clock {
        self.clock.as_ref()
    }

    fn rng(&self) -> &dyn Rng {
        self.rng.as_ref()
    }

    fn version(&self) -> u64 {
        self.version
    }

    fn is_writable(&self) -> bool {
        self.writable.load(Ordering::Relaxed)
    }

    fn is_enabled(&self, feature: &Feature) -> bool {
        self.features.is_enabled(feature)
    }

    fn references(&self, feature: &Feature) -> u64 {
        self.features.references(feature).unwrap_or(0)
    }

    fn change_references(&self, tx: &Tx, feature: &Feature, change: i64) -> dmu::Result<()> {
        self.change_feature(tx, feature, change)
    }

    fn usable_bytes(&self, class: SpaceClass) -> u64 {
        self.limits.usable_bytes(class)
    }

    fn sector_bytes(&self) -> u64 {
        self.limits.sector_bytes()
    }

    fn awaited_bytes(&self) -> u64 {
        // What txgs freed that were written for ageing alone nobody is to wait for.
        if self.ageing.owed() == 0 {
            return 0;
        }
        let deferred = self.limits.figures().deferred;
        if deferred > 0 {
            self.ageing.want();
        }
        deferred
    }

    fn free(&self, txg: Txg, pointer: &BlockPointer) {
        if !self.task.frees(pointer) {
            self.frees.free(txg, pointer);
        }
    }

    fn begin_task(&self) {
        self.begin_effects();
    }

    fn end_task(&self, txg: Txg, done: bool) {
        self.end_effects(txg, done);
    }

    fn frees_later(&self, pointer: &BlockPointer) -> bool {
        pointer.is_gang() || pointer.is_dedup() || self.references.may_be_shared(pointer)
    }

    fn shares(&self, pointer: &BlockPointer) {
        if !self.task.shares(pointer) {
            self.references.added(pointer);
        }
    }

    fn end_intent_log(&self, txg: Txg, head: ObjectId, header: &LogHeader) {
        if let Some(logs) = &self.logs
            && !self.task.ends_log(head, header)
        {
            let free = logs.end(txg, head, header);
            free.iter().for_each(|pointer| self.free(txg, pointer));
        }
    }

    fn keeps_intent_log(&self, head: ObjectId) -> bool {
        self.logs.as_ref().is_some_and(|logs| logs.keeps(head))
    }

    fn succeeded(&self, tx: &Tx, succession: Succession) -> dmu::Result<()> {
        match succession {
            Succession::Gone { head } => {
                self.forget_errors(tx, head)?;
                self.forget_boot_file_system(tx, head)?;
            }
            Succession::Merged { snapshot, .. } => self.forget_boot_file_system(tx, snapshot)?,
            Succession::Taken { .. } | Succession::Exchanged { .. } => {}
        }
        if self.scrub_follows(succession) {
            self.store_scan(tx)?;
        }
        Ok(())
    }

    fn record_history(&self, tx: &Tx, event: &HistoryEvent<'_>) -> dmu::Result<()> {
        let dataset =
            (event.dataset_id != ObjectId(0)).then_some((event.dataset, event.dataset_id));
        self.history
            .internal(tx, event.name, event.text, dataset, self.clock.now_s())
    }
}
