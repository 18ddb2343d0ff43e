//! Writing a txg: the passes, and the uberblock at their end.
//!
//! Each pass writes what is dirty and so changes space maps, which live in the pool's own object set, which so is
//! dirty again. It converges: from the second pass on, blocks that this txg wrote before are rewritten in place, so
//! that the last pass allocates nothing. Only then the uberblock is written. Nothing is acknowledged before.

use crate::allocation::allocator::PoolAllocator;
use crate::allocation::limits::Limits;
use crate::allocation::maps::MosSpaceStore;
use crate::blocks::gate::ReuseGate;
use crate::blocks::{PassWriters, WriteRules, all_are_whole};
use crate::config::state::ConfigState;
use crate::error::{PoolError, Result};
use crate::expansion::Expander;
use crate::logs::devices::LogDevices;
use crate::logs::intent_logs::IntentLogs;
use crate::multihost::Multihost;
use crate::pool::services::PoolServices;
use crate::sync::frees::Frees;
use crate::sync::tasks::{FirstPass, SyncTask};
use crate::sync::uberblock::Commit;
use crate::tunables;
use crate::vdevs::dtl::MissedTxgs;
use base::Txg;
use base::clock::Clock;
use base::invariant::Findings;
use base::lock::{LockClass, Mutex, rank};
use base::thread::{self, Role};
use dmu::{ObjectSet, SyncWorkers, Tx};
use dsl::{Dsl, NamedList, SyncPass};
use format::BlockPointer;
use format::config::directory;
use format::features;
use format::uberblock::Uberblock;
use pipeline::Pipeline;
use space::{ClassKind, PoolSpace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use txg::{Engine, SyncFailure, SyncTarget};
use vdev::{VdevTree, WriteGroup};

static UNDER_WAY: LockClass = LockClass::new("pool.writes_under_way", rank::LAST - 19);
static LAST: LockClass = LockClass::new("pool.last_synced", rank::LAST - 20);

/// A txg that does not converge after so many passes never will: a bug of ours, and no uberblock is written.
const PASSES_MAX: u32 = 200;

/// What a sync works on.
pub(crate) struct Syncer {
    pub(crate) objects: Arc<ObjectSet>,
    pub(crate) dsl: Arc<Dsl>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) space: Arc<PoolSpace>,
    pub(crate) maps: Arc<MosSpaceStore>,
    pub(crate) allocator: Arc<PoolAllocator>,
    pub(crate) frees: Arc<Frees>,
    pub(crate) logs: Arc<IntentLogs>,
    /// The list of deferred frees.
    pub(crate) deferred: NamedList,
    /// The list of places on removed vdevs that nothing refers to since snapshots are gone.
    pub(crate) obsolete: NamedList,
    pub(crate) limits: Arc<Limits>,
    pub(crate) vdevs: Arc<VdevTree>,
    /// Which txgs the leaves missed.
    pub(crate) missed: MissedTxgs,
    pub(crate) workers: SyncWorkers,
    pub(crate) config: Arc<ConfigState>,
    pub(crate) engine: Weak<Engine>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) rules: WriteRules,
    pub(crate) services: Arc<PoolServices>,
    /// What the pool does on its own account, in this order.
    pub(crate) tasks: Vec<Arc<dyn SyncTask>>,
    pub(crate) last: Arc<LastSynced>,
    /// Whether the next txg moves all logged changes to the metaslabs' own maps: at export.
    pub(crate) flush_all: AtomicBool,
    /// Which log vdevs take blocks.
    pub(crate) log_devices: Arc<LogDevices>,
    /// What moves of a vdev that is getting another child.
    pub(crate) expander: Arc<Expander>,
    /// Says in uberblocks which host has the pool.
    pub(crate) multihost: Arc<Multihost>,
    /// Who still looks at old blocks.
    pub(crate) gate: Arc<ReuseGate>,
    /// The writes of the txg that is being synced, or could not be.
    pub(crate) under_way: UnderWay,
    /// What was found to be broken in this pool.
    pub(crate) findings: Arc<Findings>,
}

/// The writes of one txg.
pub(crate) struct UnderWay(Mutex<Option<Arc<WriteGroup>>>);

impl Default for UnderWay {
    fn default() -> Self {
        Self(Mutex::new(&UNDER_WAY, None))
    }
}

impl UnderWay {
    fn set(&self, group: Option<Arc<WriteGroup>>) {
        *self.0.lock() = group;
    }

    /// Lets go of what a pool that is given up could not write.
    pub(crate) fn forget(&self) {
        self.set(None);
    }
}

/// The newest uberblock.
pub(crate) struct LastSynced {
    uberblock: Mutex<Uberblock>,
}

impl LastSynced {
    pub(crate) fn new(uberblock: Uberblock) -> Self {
        Self {
            uberblock: Mutex::new(&LAST, uberblock),
        }
    }

    pub(crate) fn get(&self) -> Uberblock {
        *self.uberblock.lock()
    }

    /// The labels have it.
    pub(crate) fn set(&self, uberblock: &Uberblock) {
        *self.uberblock.lock() = *uberblock;
    }
}

impl SyncTarget for Syncer {
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure> {
        let group = WriteGroup::of_pool(txg, &self.findings);
        // Should this fail, what was accepted can still be read: also what no leaf took.
        self.under_way.set(Some(Arc::clone(&group)));
        self.sync_txg(txg, &group).map_err(|error| SyncFailure {
            reason: error.to_string(),
        })?;
        self.under_way.set(None);
        Ok(())
    }
}

impl Syncer {
    /// Moves all logged changes of space to the metaslabs' own maps in the next txg.
    pub(crate) fn flush_maps_next(&self) {
        self.flush_all.store(true, Ordering::Relaxed);
    }

    /// Writes a txg, and its uberblock if it changed anything.
    pub(crate) fn sync_txg(&self, txg: Txg, group: &Arc<WriteGroup>) -> Result<()> {
        self.maps.begin(txg);
        let mut pass = 0;
        let mut root = self.passes(txg, group, &mut pass)?;
        let changed = root.is_some();
        if !changed && self.writes_for_ageing() {
            self.touch(txg)?;
            root = self.passes(txg, group, &mut pass)?;
        }
        self.until_durable(group)?;
        if root.is_some() {
            self.missed.note_away(txg);
        }
        // A leaf that failed has missed this txg, and that must be known as soon as the txg is.
        while self.missed.is_dirty() {
            root = self.passes(txg, group, &mut pass)?.or(root);
            self.until_durable(group)?;
        }
        // Also of a txg that needs no uberblock: nothing more is accepted then.
        self.findings.check()?;
        if let Some(root) = root {
            let uberblock = self.uberblock(txg, root);
            while let Err(error) = self.commit(&uberblock) {
                self.wait_for_devices(error)?;
            }
        }
        self.expander.synced(root.is_some());
        self.gate.wait(txg);
        if root.is_some() {
            // From here on what rested long enough is given away again, to open transactions as well.
            self.space.finish(txg)?;
            self.services.ageing.written(changed);
        } else {
            // The states before the newest need what rests as they did before.
            self.space.pass_over(txg);
        }
        self.tasks.iter().for_each(|task| task.finish(&self.space));
        self.log_devices.follow();
        self.logs.synced(txg);
        self.services.events.observe(&self.vdevs);
        self.services.references.synced(txg);
        self.dsl.finish(txg);
        let listed = self.deferred.sizes()?.used;
        self.limits.set_listed(u64::try_from(listed).unwrap_or(0));
        let promised = self.dsl.promised_room();
        self.space.set_log_budget(self.limits.log_budget(promised));
        self.hasten_frees()?;
        // Now, when nobody waits for this txg's blocks.
        self.space.load_ahead(&*self.maps);
        Ok(())
    }

    /// Whether a txg in which nothing changed writes an uberblock all the same, so that what rests comes to be free.
    fn writes_for_ageing(&self) -> bool {
        let ageing = &self.services.ageing;
        if !ageing.may_write() {
            return false;
        }
        let classes = [ClassKind::Normal, ClassKind::Special, ClassKind::Dedup];
        let resting: u64 = classes
            .map(|class| self.space.deferred_bytes(class))
            .iter()
            .sum();
        ageing.is_wanted() || resting >= tunables::AGEING_BYTES.get() || self.is_short()
    }

    /// Whether less space is left than what was freed will give, or than a little.
    fn is_short(&self) -> bool {
        let waiting = self.limits.figures().deferred;
        waiting.max(tunables::SPACE_SHORT_BYTES.get()) > self.dsl.promised_room()
    }

    /// What was freed can be used two written txgs later: where space is short, these come at once. That ends: nothing
    /// is owed for what txgs free that are written for this alone.
    fn hasten_frees(&self) -> Result<()> {
        let ages = self.services.ageing.may_write();
        if self.is_short()
            && (ages || self.dsl.has_background_frees()?)
            && let Some(engine) = self.engine.upgrade()
        {
            engine.kick();
        }
        Ok(())
    }

    /// Runs passes until one leaves nothing to write; the root pointer, unless nothing was written at all.
    /// `last` is the last pass that there was.
    fn passes(
        &self,
        txg: Txg,
        group: &Arc<WriteGroup>,
        last: &mut u32,
    ) -> Result<Option<BlockPointer>> {
        let mut root = None;
        while *last < PASSES_MAX {
            *last += 1;
            if let Some(written) = self.pass(txg, *last, group)? {
                root = Some(written);
            }
            let dirty =
                self.dsl.is_dirty(txg) || self.space.is_dirty(txg) || self.config.is_unstored();
            let dirty = dirty || self.allocator.obsolete.is_waiting();
            if !dirty {
                return Ok(root);
            }
        }
        Err(PoolError::NoConvergence {
            txg,
            passes: PASSES_MAX,
        })
    }

    fn pass(&self, txg: Txg, pass: u32, group: &Arc<WriteGroup>) -> Result<Option<BlockPointer>> {
        let writers = PassWriters {
            pipeline: &self.pipeline,
            meta: self.rules,
            txg,
            pass,
            group,
            may_share: self.may_share(),
            may_deduplicate: true,
        };
        let engine = self.engine.upgrade();
        if let Some(engine) = &engine {
            let dirty = engine.dirty_counts();
            let permille = dirty.total_bytes.saturating_mul(1000) / dirty.limit_bytes.max(1);
            self.vdevs
                .set_dirty(u32::try_from(permille).unwrap_or(1000));
        }
        let context = SyncPass {
            txg,
            pass,
            workers: &self.workers,
            engine: engine.as_deref(),
            writers: &writers,
        };
        self.frees.begin(pass);
        if pass == 1 {
            self.sync_tasks(txg, group)?;
            // Once it is known what is kept for a checkpoint.
            self.allocator.free_due(txg);
            // Tables go to devices for them, else to those for metadata.
            let classes = [ClassKind::Dedup, ClassKind::Special];
            let capacities = classes.map(|class| self.space.capacity_bytes(class));
            let first = capacities.into_iter().find(|bytes| *bytes != 0);
            self.services.begin_dedup_txg(first.unwrap_or(0));
        }
        // After a scan may have begun.
        self.services.begin_dedup(!all_are_whole(&self.vdevs));
        self.missed.sync()?;
        self.config.store(&self.objects, txg)?;
        // What a head cannot write, its log still has: that is cut for good once the head is written.
        let mut cut = None;
        if pass == 1 {
            self.dsl.look_ahead(&context)?;
            cut = Some(self.logs.sync(txg));
        }
        let root = self.dsl.sync(&context)?;
        self.asked_fault(txg)?;
        if let Some(cut) = cut {
            cut.free(&mut |pointer| self.frees.free(txg, pointer));
            self.dsl.background(&context)?;
        }
        self.frees.list(&self.deferred, txg)?;
        if pass == 1 && (root.is_some() || self.objects.is_dirty(txg)) {
            self.frees.free_listed(&self.deferred, txg)?;
            let obsolete = &self.allocator.obsolete;
            obsolete.take_listed(&Tx::syncing(txg), &self.services, &self.obsolete)?;
            if self.flush_all.swap(false, Ordering::Relaxed) {
                self.space.flush_all(txg, &*self.maps)?;
            } else {
                self.space.flush_some(txg, &*self.maps)?;
            }
        }
        let services = &self.services;
        let tx = Tx::syncing(txg);
        services.settle_references(&tx, |pointer| self.frees.free_last(txg, pointer))?;
        services.settle_dedup(&tx, |pointer| self.frees.free_last(txg, pointer))?;
        self.write_maps(&tx, pass)?;
        if let Some(fault) = self.allocator.take_fault() {
            return Err(fault.into());
        }
        if let Some(fault) = self.frees.take_fault() {
            return Err(PoolError::Free(fault.to_string()));
        }
        Ok(root)
    }

    /// Writes what was allocated and freed.
    fn write_maps(&self, tx: &Tx, pass: u32) -> Result<()> {
        let obsolete = &self.allocator.obsolete;
        obsolete.sync(tx, pass, &self.services, &self.maps)?;
        self.space.sync(tx.txg(), pass, &*self.maps)?;
        self.count_histograms(tx.txg(), self.maps.take_maps_change())
    }

    /// What the pool does on its own account; in pass 1.
    fn sync_tasks(&self, txg: Txg, group: &Arc<WriteGroup>) -> Result<()> {
        let pass = FirstPass {
            tx: &Tx::syncing(txg),
            services: &self.services,
            vdevs: &self.vdevs,
            space: &self.space,
            maps: &self.maps,
            group,
            findings: &self.findings,
            flush_all: &self.flush_all,
        };
        self.tasks.iter().try_for_each(|task| task.sync(&pass))
    }

    /// The pool closes: what runs beside the sync ends.
    pub(crate) fn close_tasks(&self) {
        self.tasks.iter().for_each(|task| task.close());
    }

    /// The pool stays open after all.
    pub(crate) fn stay_open(&self) {
        self.tasks.iter().for_each(|task| task.stay());
    }

    /// Has a txg write an uberblock in which nothing changes: it would not. In syncing context.
    fn touch(&self, txg: Txg) -> Result<()> {
        // A word that every pool has, stored again as it is.
        let directory = &self.services.directory;
        let key = directory::CONFIG.as_bytes();
        if let Some(object) = directory.lookup(key)? {
            directory.update(&Tx::syncing(txg), key, object)?;
        }
        Ok(())
    }

    /// After the space maps were written: `change` more maps carry a histogram.
    fn count_histograms(&self, txg: Txg, change: i64) -> Result<()> {
        if change != 0 {
            let feature = &features::SPACEMAP_HISTOGRAM;
            let tx = Tx::syncing(txg);
            self.services.change_feature(&tx, feature, change)?;
        }
        Ok(())
    }

    /// The fault that tests ask for ([`tunables::FAULTS`]), in the middle of a sync: blocks are written and booked, and
    /// nothing leads to them.
    fn asked_fault(&self, txg: Txg) -> Result<()> {
        let wanted = tunables::FAULT_TXG.get();
        if wanted == 0 || txg.0 < wanted {
            return Ok(());
        }
        let text = "the fault that was asked for";
        match tunables::FAULT_KIND.get() {
            0 => Err(PoolError::Damaged(text.to_owned())),
            1 => panic!("{text}"),
            _ => {
                // Found by one who does not sync.
                let findings = Arc::clone(&self.findings);
                let note = move || findings.note("pool.asked", format_args!("{text}"));
                let Ok(noting) = thread::named("asked-fault", Role::PART).spawn(note) else {
                    return Err(PoolError::Damaged(text.to_owned()));
                };
                assert!(noting.join().is_ok(), "a note does not panic");
                Ok(())
            }
        }
    }

    /// Whether blocks may be shared now.
    fn may_share(&self) -> bool {
        let features = &self.services.features;
        features.is_enabled(&features::BLOCK_CLONING) && all_are_whole(&self.vdevs)
    }

    /// Waits until the writes of a txg are durable. Those that no device took are kept and written
    /// again once the devices are back.
    fn until_durable(&self, group: &Arc<WriteGroup>) -> Result<()> {
        while let Err(error) = group.wait() {
            self.wait_for_devices(PoolError::Commit(error))?;
            group.write_again(&self.vdevs);
        }
        while let Err(error) = self.vdevs.flush() {
            self.wait_for_devices(PoolError::Commit(error))?;
        }
        Ok(())
    }

    /// Suspends the pool until its devices are back; other errors are final.
    fn wait_for_devices(&self, error: PoolError) -> Result<()> {
        let engine = self.engine.upgrade().filter(|_| error.is_of_devices());
        let Some(engine) = engine else {
            return Err(error);
        };
        let is_for_room = matches!(&error, PoolError::Commit(cause) if cause.is_of_full_host());
        let events = &self.services.events;
        events.observe(&self.vdevs);
        events.suspended(is_for_room);
        Ok(engine.suspend(&error.to_string())?)
    }

    fn uberblock(&self, txg: Txg, root: BlockPointer) -> Uberblock {
        let seconds = self.clock.now_s();
        let (version, guid_sum) = self
            .config
            .with(|config| (config.version(), config.root.guid_sum()));
        let mut uberblock = Uberblock {
            reflow_info: self.expander.reflow().word(),
            ..Uberblock::new(version, txg, guid_sum, seconds, root)
        };
        self.multihost.stamp(&mut uberblock);
        uberblock
    }

    /// Flushes the devices and writes the uberblock. May be done again after a failure: it writes
    /// the same bytes to the same places.
    fn commit(&self, uberblock: &Uberblock) -> Result<()> {
        let labels = self.config.for_labels();
        let commit = Commit {
            vdevs: &self.vdevs,
            labels: labels.as_ref(),
            uberblock,
            rotor: usize::try_from(uberblock.txg.0 % 1024).unwrap_or(0),
            findings: &self.findings,
        };
        commit.run()?;
        if labels.is_some() {
            self.config.labels_written();
            let events = &self.services.events;
            events.system("config_sync", Vec::new());
        }
        self.last.set(uberblock);
        Ok(())
    }
}
