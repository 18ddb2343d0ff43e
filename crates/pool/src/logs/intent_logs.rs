//! The intent logs of a pool's heads: which are open, claiming at import, and their part in a
//! sync.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use base::lock::{LockClass, Mutex, rank};
use base::random::Rng;
use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use dmu::{BlockWriter, ObjectSet, SyncWorkers, Tx};
use dsl::{Dataset, DatasetFeature, Dsl, WriterSource};
use format::BlockPointer;
use format::features;
use format::intent_log::LogHeader;
use intent::{Ages, Claim, DataWriter, Flusher, Log, OpenLog};
use pipeline::Pipeline;
use space::{Extent, PoolSpace};
use txg::Engine;
use vdev::{Leaf, Top, VdevTree, WriteGroup};

use crate::allocation::maps::MosSpaceStore;
use crate::allocation::obsolete::present;
use crate::blocks::{PassWriters, WriteRules};
use crate::error::{ImportBlocker, PoolError, Result};
use crate::logs::devices::LogDevices;
use crate::pool::services::PoolServices;
use crate::tunables;

static LOGS: LockClass = LockClass::new("pool.intent_logs", rank::INTENT);

#[derive(Default)]
struct State {
    open: BTreeMap<ObjectId, Arc<Log>>,
    /// Of object sets that were replaced or destroyed: they still have blocks to free.
    retired: Vec<Arc<Log>>,
    /// The pool is being closed, or a log device removed: no chains.
    paused: bool,
}

/// The logs of a pool that is open for writing.
pub(crate) struct IntentLogs {
    engine: Arc<Engine>,
    pipeline: Arc<Pipeline>,
    flusher: Arc<Flusher>,
    rng: Arc<dyn Rng>,
    rules: WriteRules,
    devices: Arc<LogDevices>,
    state: Mutex<State>,
}

/// Writes data of a head before its txg, by the rules of the head.
struct HeadWriter {
    head: Weak<Dataset>,
    pipeline: Arc<Pipeline>,
    rules: WriteRules,
}

impl DataWriter for HeadWriter {
    fn with(
        &self,
        txg: Txg,
        group: &Arc<WriteGroup>,
        run: &mut dyn FnMut(&dyn BlockWriter),
    ) -> bool {
        let head = self.head.upgrade();
        let Some(Ok(policy)) = head.map(|head| head.directory().storage_policy()) else {
            return false;
        };
        // No record may point to blocks without checksums: it would be for nothing.
        if !WriteRules::dataset(&policy, self.rules).has_checksums() {
            return false;
        }
        let writers = PassWriters {
            pipeline: &self.pipeline,
            meta: self.rules,
            txg,
            pass: 1,
            group,
            may_share: false,
            may_deduplicate: false,
        };
        run(&*writers.writer(Some(&policy)));
        true
    }
}

/// What logs need no more once their heads are written.
///
/// It keeps neither logs nor heads in use: tasks of the same txg may destroy them.
pub(crate) struct CutLogs(Vec<(Weak<ObjectSet>, Vec<BlockPointer>)>);

impl CutLogs {
    /// Gives these blocks to `free`, but for those of heads that could not be written: their logs still have what was
    /// synced, for the next import.
    pub(crate) fn free(&self, free: &mut dyn FnMut(&BlockPointer)) {
        let is_stopped =
            |head: &Weak<ObjectSet>| head.upgrade().is_some_and(|head| head.is_stopped());
        let written = self.0.iter().filter(|(head, _)| !is_stopped(head));
        written.flat_map(|(_, blocks)| blocks).for_each(free);
    }
}

impl IntentLogs {
    pub(crate) fn new(
        engine: &Arc<Engine>,
        pipeline: &Arc<Pipeline>,
        rng: Arc<dyn Rng>,
        rules: WriteRules,
        devices: &Arc<LogDevices>,
    ) -> Self {
        Self {
            engine: Arc::clone(engine),
            pipeline: Arc::clone(pipeline),
            flusher: Flusher::new(Arc::clone(pipeline.vdevs())),
            rng,
            rules,
            devices: Arc::clone(devices),
            state: Mutex::new(&LOGS, State::default()),
        }
    }

    /// The log of a head, opened when it is not yet.
    pub(crate) fn log(&self, head: &Arc<Dataset>, xattrs: bool) -> Result<Arc<Log>> {
        let objects = head.object_set()?;
        let mut state = self.state.lock();
        if let Some(log) = state.open.get(&head.id())
            && Arc::ptr_eq(log.objects(), &objects)
        {
            return Ok(Arc::clone(log));
        }
        let noted = Arc::downgrade(head);
        let (devices, of_log) = (Arc::clone(&self.devices), Arc::clone(&self.devices));
        let log = Log::open(OpenLog {
            objects,
            engine: Arc::clone(&self.engine),
            pipeline: Arc::clone(&self.pipeline),
            flusher: Arc::clone(&self.flusher),
            rng: Arc::clone(&self.rng),
            begins: Box::new(move || {
                if let Some(head) = noted.upgrade().filter(|_| xattrs) {
                    let _was_enabled_when_the_log_was_opened =
                        head.note_feature(DatasetFeature::ZilSaXattr);
                }
            }),
            failed: Box::new(move |vdev| devices.failed(vdev)),
            has_devices: Box::new(move || of_log.work()),
            logs_xattrs: xattrs,
            data_writer: Some(Box::new(HeadWriter {
                head: Arc::downgrade(head),
                pipeline: Arc::clone(&self.pipeline),
                rules: self.rules,
            })),
        });
        if state.paused {
            log.wind_up();
        }
        state.open.insert(head.id(), Arc::clone(&log));
        Ok(log)
    }

    fn all(&self) -> Vec<Arc<Log>> {
        let state = self.state.lock();
        let open = state.open.values();
        open.chain(&state.retired).cloned().collect()
    }

    /// First thing in a txg's sync: headers are brought up to date. The blocks that are not needed any more are freed
    /// by [`CutLogs::free`].
    pub(crate) fn sync(&self, txg: Txg) -> CutLogs {
        let mut logs = self.all();
        logs.retain(|log| !log.objects().is_stopped());
        let cut = |log: &Arc<Log>| (Arc::downgrade(log.objects()), log.sync(txg).free);
        CutLogs(logs.iter().map(cut).collect())
    }

    /// `txg` is on disk. Logs that nobody uses and that have nothing under way are closed.
    pub(crate) fn synced(&self, txg: Txg) {
        for log in self.all().iter().filter(|log| !log.objects().is_stopped()) {
            log.synced(txg);
        }
        let mut state = self.state.lock();
        state.retired.retain(|log| !log.is_spent());
        // Others get theirs under the lock that is held here.
        state
            .open
            .retain(|_, log| Arc::strong_count(log) > 1 || !log.is_idle());
    }

    /// The object set of `head` goes, in the txg that is being synced: the blocks of its log.
    pub(crate) fn end(&self, txg: Txg, head: ObjectId, header: &LogHeader) -> Vec<BlockPointer> {
        let open = self.state.lock().open.remove(&head);
        match open {
            Some(log) => {
                let free = log.retire(txg);
                if !log.is_spent() {
                    self.state.lock().retired.push(log);
                }
                free
            }
            None => intent::owned_blocks(&self.pipeline, ObjectSetId(head.0), header),
        }
    }

    /// Whether the head's log is open although nobody uses it.
    pub(crate) fn keeps(&self, head: ObjectId) -> bool {
        let state = self.state.lock();
        let log = state.open.get(&head);
        log.is_some_and(|log| Arc::strong_count(log) == 1)
    }

    /// Has every chain end with the txgs to come.
    pub(crate) fn wind_up(&self) {
        self.state.lock().paused = true;
        for log in self.all() {
            log.wind_up();
        }
    }

    /// Has chains begin again after [`IntentLogs::wind_up`].
    pub(crate) fn go_on(&self) {
        self.state.lock().paused = false;
        for log in self.all() {
            log.go_on();
        }
    }
}

/// The youngest block of the logs that imports have claimed and that nobody has replayed yet. Their blocks keep the
/// txgs in which they were written, which may come long after the one in which they were claimed.
pub(crate) fn newest_claimed(dsl: &Arc<Dsl>, pipeline: &Pipeline) -> Result<Txg> {
    let mut newest = Txg(0);
    for head in dsl.readable_heads_under(&dsl.root_directory()?)? {
        let header = match head.root() {
            Ok(root) => root.map_or(LogHeader::EMPTY, |root| root.log_header),
            Err(error) if error.is_damage() => continue,
            Err(error) => return Err(error.into()),
        };
        if header.claim_txg != Txg(0) {
            let blocks = intent::owned_blocks(pipeline, ObjectSetId(head.id().0), &header);
            let births = blocks.iter().map(BlockPointer::physical_birth);
            newest = births.fold(newest, Txg::max);
        }
    }
    Ok(newest)
}

/// Marks the blocks of all logs that were being written when the pool went down as in use, and
/// notes in their headers how far they go. Before anything is allocated.
pub(crate) struct Claiming<'a> {
    pub(crate) dsl: &'a Arc<Dsl>,
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) space: &'a PoolSpace,
    pub(crate) maps: &'a MosSpaceStore,
    pub(crate) vdevs: &'a VdevTree,
    pub(crate) services: &'a PoolServices,
    /// The newest state that the pool is opened in.
    pub(crate) loaded: Txg,
    /// The txg in which everything is claimed.
    pub(crate) first: Txg,
    /// Whether logs may be lost that are on log vdevs which are not there.
    pub(crate) without_logs: bool,
}

impl Claiming<'_> {
    /// Claims the logs of all heads, several at once: each is read block after block. Only heads with a log are
    /// opened.
    pub(crate) fn run(&self) -> Result<()> {
        let root = self.dsl.root_directory()?;
        let heads = self.dsl.readable_heads_under(&root)?;
        let workers = SyncWorkers::new(tunables::CLAIMS_COUNT.count());
        workers.run(heads.len(), heads.len() > 1, |index| -> Result<()> {
            let head = &heads[index];
            let objects = match self.with_log(head) {
                Ok(Some(objects)) => objects,
                Ok(None) => return Ok(()),
                // Where its log begins nobody knows, and nothing else of it can be read either.
                Err(error) if error.is_damage() => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            self.claim(head, &objects)
        })
    }

    /// The objects of a head, if it has a log, as its root block says.
    fn with_log(&self, head: &Arc<Dataset>) -> dsl::Result<Option<Arc<ObjectSet>>> {
        let root = head.root()?;
        if root.is_none_or(|root| root.log_header == LogHeader::EMPTY) {
            return Ok(None);
        }
        // No key is loaded yet: the anchor of a log needs none.
        head.root_object_set().map(Some)
    }

    /// Claims one log.
    fn claim(&self, head: &Dataset, objects: &ObjectSet) -> Result<()> {
        let header = objects.intent_log_header();
        let set = ObjectSetId(head.id().0);
        if let Some(top) = self.lost_on(&header) {
            // A vdev that is out of use by the operator's word is not missed: no chain was on it when it went.
            if self.first == self.loaded.next() && !self.without_logs {
                let leaves = top.leaves().iter();
                let paths = leaves.map(|leaf| leaf.path().to_string()).collect();
                return Err(PoolError::MissingLogs { paths });
            }
            return self.forget(objects, &header);
        }
        if self.first != self.loaded.next() {
            return self.discard(objects, &header);
        }
        let ages = Ages {
            synced: objects.root_pointer().birth(),
            newer: self.loaded.next(),
            first: self.first,
        };
        let Some(claim) = intent::claim(self.pipeline, set, &header, ages) else {
            return Ok(());
        };
        self.share(head, &claim)?;
        for dva in claim.blocks.iter().flat_map(BlockPointer::dvas) {
            let range = dva.offset..dva.offset.saturating_add(dva.asize);
            let extent = Extent {
                vdev: dva.vdev,
                range,
            };
            for extent in present(self.vdevs, extent)? {
                self.space.claim(&extent, self.first, self.maps)?;
            }
        }
        self.free(&claim.unneeded)?;
        self.note_sides(set, &claim);
        let tx = Tx::syncing(self.first);
        objects.set_intent_log_header(&tx, claim.header);
        Ok(())
    }

    /// No uberblock says which sides of a mirror have what was written after it. Sides that are away now, or were when
    /// it was written, have missed the blocks of the log; the others are looked at, and repaired. Also blocks of the
    /// chain that the maps knew: they are written later than they are born.
    fn note_sides(&self, set: ObjectSetId, claim: &Claim) {
        let newer = self.loaded.next();
        let old = claim.chain.iter().filter(|block| block.birth() < newer);
        for block in old.chain(&claim.blocks) {
            for dva in block.dvas() {
                let Ok(top) = self.vdevs.top(dva.vdev) else {
                    continue;
                };
                let is_behind = |leaf: &&Arc<Leaf>| !leaf.is_writable() || leaf.misses(self.loaded);
                let several = top.leaves().len() > 1;
                let behind = top
                    .leaves()
                    .iter()
                    .filter(|leaf| several && is_behind(leaf));
                behind.for_each(|leaf| leaf.note_missing(block.physical_birth()));
                if several {
                    let bookmark = Bookmark {
                        level: -2,
                        ..Bookmark::root(set)
                    };
                    self.pipeline.scrub_unpromised(block, bookmark);
                }
            }
        }
    }

    /// Counts the references of a log's clones: what they refer to is kept for the replay, whatever becomes of whom it
    /// was cloned from. Who frees the log frees them.
    fn share(&self, head: &Dataset, claim: &Claim) -> Result<()> {
        if claim.shared.is_empty() {
            return Ok(());
        }
        // Whoever wrote such records counts.
        if !self.services.features.is_enabled(&features::BLOCK_CLONING) {
            let dataset = head.name()?;
            let blocker = ImportBlocker::IntentLog { dataset };
            return Err(PoolError::ReadOnlyPossible(blocker));
        }
        for pointer in &claim.shared {
            self.services.refer_from_log(self.first, pointer);
        }
        Ok(())
    }

    /// The log vdev that is not there on which a log begins.
    fn lost_on(&self, header: &LogHeader) -> Option<Arc<Top>> {
        let dva = header.log.dva(0).filter(|_| !header.log.is_hole())?;
        let top = self.vdevs.top(dva.vdev).ok()?;
        let is_lost = top.config().is_log && !top.condition().state.is_usable();
        is_lost.then_some(top)
    }

    /// Gives up a log that cannot be read. What of it lies on other vdevs is not known, nor freed.
    fn forget(&self, objects: &ObjectSet, header: &LogHeader) -> Result<()> {
        self.free(std::slice::from_ref(&header.log))?;
        objects.set_intent_log_header(&Tx::syncing(self.first), LogHeader::EMPTY);
        Ok(())
    }

    /// A pool that was taken back to an earlier txg does without the log of the txgs that are
    /// given up. What an earlier import claimed stays.
    fn discard(&self, objects: &ObjectSet, header: &LogHeader) -> Result<()> {
        if header.log.is_hole() || header.claim_txg != Txg(0) {
            return Ok(());
        }
        self.free(&intent::owned_blocks(self.pipeline, objects.id(), header))?;
        objects.set_intent_log_header(&Tx::syncing(self.first), LogHeader::EMPTY);
        Ok(())
    }

    /// Frees those that the maps know.
    fn free(&self, blocks: &[BlockPointer]) -> Result<()> {
        let known = |block: &&BlockPointer| block.birth() <= self.loaded;
        blocks.iter().filter(known).try_for_each(|block| {
            let freed = self.pipeline.free(block, self.first);
            freed.map_err(|error| PoolError::Free(error.to_string()))
        })
    }
}
