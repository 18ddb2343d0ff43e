//! Reading blocks for the objects above, and what a block is charged with.

use super::sharing::Sharing;
use crate::blocks::gate::{GatedRepairs, ReuseGate};
use crate::events::Events;
use crate::tunables::{PREFETCH_BYTES, PREFETCH_THREADS};
use base::{Bookmark, ObjectSetId, Txg};
use dmu::{BlockError, BlockKind, BlockStore, ReferenceRules};
use format::BlockPointer;
use format::block_pointer::Dva;
use pipeline::{FreeError, Pipeline, PrefetchRequest, Prefetcher, ReadError, ReadRequest};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use sys::Buffer;
use txg::{Absence, Engine, SyncContext};

/// Reads through the pool's pipeline.
pub(crate) struct PipelineStore {
    pipeline: Arc<Pipeline>,
    /// Whether the pool charges space by deflate ratios.
    deflates: AtomicBool,
    /// Its threads start with the first request.
    prefetcher: OnceLock<Prefetcher>,
    /// Known once the pool is open: what says so is read through this store.
    opened: OnceLock<Opened>,
}

/// How the pool is open.
enum Opened {
    /// It is not written, and of this txg.
    Unchanging(Txg),
    /// It is written.
    Written {
        engine: Weak<Engine>,
        gate: Arc<ReuseGate>,
        sharing: Sharing,
        events: Arc<Events>,
    },
}

impl PipelineStore {
    /// A store over `pipeline`, of a pool that charges space by deflate ratios.
    #[must_use]
    pub(crate) fn new(pipeline: Arc<Pipeline>) -> Self {
        Self {
            pipeline,
            deflates: AtomicBool::new(true),
            prefetcher: OnceLock::new(),
            opened: OnceLock::new(),
        }
    }

    /// What the cache may hold: the measure of what else may be kept in memory.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.pipeline.cache().limit_bytes()
    }

    /// Holes that are written from now on tell when they were made.
    pub(crate) fn write_hole_births(&self) {
        self.pipeline.set_hole_birth(true);
    }

    /// Log blocks that are allocated from now on are of the newer form.
    pub(crate) fn write_slim_logs(&self) {
        self.pipeline.set_slim_logs(true);
    }

    /// Says whether the pool charges space by deflate ratios, as all do that were made since version 3.
    pub(crate) fn set_deflates(&self, deflates: bool) {
        self.deflates.store(deflates, Ordering::Relaxed);
    }

    /// Sets the salt of checksums.
    pub(crate) fn set_salt(&self, salt: [u8; 32]) {
        self.pipeline.set_salt(codec::Salt(salt));
    }

    fn prefetcher(&self) -> &Prefetcher {
        self.prefetcher.get_or_init(|| {
            let (threads, bytes) = (PREFETCH_THREADS.count(), PREFETCH_BYTES.get());
            Prefetcher::new(Arc::clone(&self.pipeline), threads, bytes)
        })
    }

    /// Says that the pool is not written, and of which txg it is; only the first call of this or of
    /// [`Self::set_written`] counts.
    pub(crate) fn set_unchanging(&self, txg: Txg) {
        let _ = self.opened.set(Opened::Unchanging(txg));
    }

    /// Says that the pool is written: who is suspended when a sync meets a device that does not answer, or a reader one
    /// that is away, who tells of it, who knows when freed space is used again (then reads repair what they find bad),
    /// and which blocks may be shared.
    pub(crate) fn set_written(
        &self,
        engine: &Arc<Engine>,
        gate: &Arc<ReuseGate>,
        sharing: Sharing,
        events: &Arc<Events>,
    ) {
        let opened = Opened::Written {
            engine: Arc::downgrade(engine),
            gate: Arc::clone(gate),
            sharing,
            events: Arc::clone(events),
        };
        let _ = self.opened.set(opened);
        self.pipeline
            .set_repairs(Arc::new(GatedRepairs(Arc::clone(gate))));
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        match self.opened.get()? {
            Opened::Unchanging(_) => None,
            Opened::Written { engine, .. } => engine.upgrade(),
        }
    }

    fn sharing(&self) -> Option<&Sharing> {
        match self.opened.get()? {
            Opened::Unchanging(_) => None,
            Opened::Written { sharing, .. } => Some(sharing),
        }
    }

    /// Whether a read that failed so is to be done again: a sync cannot go on without its block,
    /// nor give up half-way, so it waits for the device. A task can: its caller was told that the pool is suspended, or
    /// would be, and reckons with it no more.
    fn wait_for_devices(&self, error: &ReadError) -> bool {
        if !SyncContext::waits_for_devices() || !error.is_of_devices() {
            return false;
        }
        self.engine()
            .is_some_and(|engine| engine.suspend(&error.to_string()).is_ok())
    }

    /// Whether a read that failed so is to be done again at once. One of an operation that can be done again fails, and
    /// its operation waits, when no device is there that has its block: the pool is suspended then. `before` is for the
    /// reads of one block to remember how often the pool had gone on.
    fn has_gone_on(&self, error: &ReadError, before: &mut Option<u64>) -> bool {
        if !txg::is_repeatable() || !error.is_of_absence() {
            return false;
        }
        let Some(Opened::Written { engine, events, .. }) = self.opened.get() else {
            return false;
        };
        let Some(engine) = engine.upgrade() else {
            return false;
        };
        // Had the pool gone on since this read, the device may be back: one that begins now can tell.
        let Some(resumptions) = before.replace(engine.resumptions()) else {
            return true;
        };
        match engine.await_devices(&error.to_string(), resumptions) {
            Absence::Over => true,
            Absence::Fails => false,
            Absence::Awaited { is_news } => {
                if is_news {
                    events.observe(self.pipeline.vdevs());
                    events.suspended(false);
                }
                false
            }
        }
    }

    /// Frees the space of a block, in a sync. The header of a gang on a vdev that is out of use is waited for, or
    /// its members would leak; one that is damaged is not.
    ///
    /// # Errors
    /// As [`Pipeline::free`].
    pub(crate) fn free(&self, pointer: &BlockPointer, txg: Txg) -> Result<(), FreeError> {
        let again = |error: &ReadError| self.is_away(error) && self.wait_for_devices(error);
        self.pipeline.free_patiently(pointer, txg, &again)
    }

    /// The block's content; a sync waits for devices that do not answer, and what can be done again for those that are
    /// away.
    fn read_patiently(
        &self,
        pointer: &BlockPointer,
        request: &ReadRequest,
    ) -> Result<Buffer, BlockError> {
        let mut before = None;
        loop {
            match self.pipeline.read(pointer, request) {
                Err(error) if self.wait_for_devices(&error) => {}
                Err(error) if self.has_gone_on(&error, &mut before) => {}
                Ok(data) => return Ok(data),
                Err(error) => {
                    let of_device = error.is_of_devices();
                    return Err(BlockError::new(error).of_device(of_device));
                }
            }
        }
    }

    /// Whether a block lies on a vdev that is out of use.
    fn is_away(&self, error: &ReadError) -> bool {
        let ReadError::Unreadable(unreadable) = error else {
            return false;
        };
        unreadable.attempts.iter().any(|attempt| {
            let top = self.pipeline.vdevs().top(attempt.dva.vdev);
            top.is_ok_and(|top| !top.condition().state.is_usable())
        })
    }

    /// What a block is charged with: its copies, deflated. Holes and embedded blocks cost nothing.
    #[must_use]
    pub(crate) fn charge(&self, pointer: &BlockPointer) -> u64 {
        if pointer.is_hole() || pointer.is_embedded() {
            return 0;
        }
        let dvas = pointer.dvas();
        if !self.deflates.load(Ordering::Relaxed) {
            return dvas.map(|dva| dva.asize).sum();
        }
        let layouts = self.pipeline.vdevs().layouts();
        // A vdev that is not there charges as a disk does.
        let charge = |dva: Dva| {
            let layout = layouts.of(dva.vdev);
            layout.map_or(dva.asize, |layout| layout.deflated(dva.asize))
        };
        dvas.map(charge).sum()
    }
}

fn requests(blocks: &[(BlockPointer, Bookmark)], seen: Txg) -> Vec<PrefetchRequest> {
    let request = |(block, place): &(BlockPointer, Bookmark)| PrefetchRequest {
        block: *block,
        bookmark: *place,
        seen,
        follow: None,
    };
    blocks.iter().map(request).collect()
}

/// What a walk through directories reads of that to which a block leads.
fn read_by_walks(data: &[u8], request: &PrefetchRequest) -> Vec<PrefetchRequest> {
    requests(&dmu::read_by_walks(data, request.bookmark), request.seen)
}

impl BlockStore for PipelineStore {
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        self.read_seen(pointer, place, Txg(0))
    }

    fn now(&self) -> Txg {
        match self.opened.get() {
            Some(Opened::Written { gate, .. }) => gate.now(),
            Some(Opened::Unchanging(txg)) => *txg,
            None => Txg::default(),
        }
    }

    fn read_seen(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
        seen: Txg,
    ) -> Result<Buffer, BlockError> {
        self.read_patiently(pointer, &ReadRequest::new(place).seen(seen))
    }

    fn read_structure(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
    ) -> Result<Buffer, BlockError> {
        self.read_patiently(pointer, &ReadRequest::new(place).for_structure())
    }

    fn prefetch(&self, blocks: &[(BlockPointer, Bookmark)]) {
        self.prefetch_seen(blocks, Txg(0));
    }

    fn prefetch_seen(&self, blocks: &[(BlockPointer, Bookmark)], seen: Txg) {
        self.prefetcher().prefetch(&requests(blocks, seen));
    }

    fn forget(&self, pointer: &BlockPointer) {
        self.pipeline.forget(pointer);
    }

    fn keeps(&self, set: ObjectSetId, is_metadata: bool) -> bool {
        self.pipeline.keeps(set, is_metadata)
    }

    fn end_of_block(&self, pointer: &BlockPointer, set: ObjectSetId) {
        self.pipeline.end_of_block(pointer, set);
    }

    fn is_cached(&self, pointer: &BlockPointer) -> bool {
        pointer.is_embedded() || self.pipeline.is_cached(pointer)
    }

    fn prefetch_scattered(&self, blocks: &[(BlockPointer, Bookmark)], seen: Txg, follow: bool) {
        let follow = follow.then_some(read_by_walks as pipeline::Follow);
        self.prefetcher()
            .prefetch_scattered(requests(blocks, seen), follow);
    }

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        self.charge(pointer)
    }

    fn reference_rules(&self, set: ObjectSetId, kind: &BlockKind) -> Option<ReferenceRules> {
        self.sharing()?.rules(set, kind)
    }

    fn will_share(&self, txg: Txg, pointer: &BlockPointer) -> bool {
        let Some(references) = self.sharing().and_then(Sharing::counter) else {
            return false;
        };
        references.expect(txg, pointer);
        true
    }
}
