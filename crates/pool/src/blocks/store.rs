//! Reading blocks for the objects above, and what a block is charged with.

use crate::services::PoolServices;
use base::lock::{LockClass, RwLock, rank};
use base::{Txg, VdevId};
use dmu::{BlockError, BlockStore, Place};
use format::{BlockPointer, features};
use pipeline::{AttemptFailure, Bookmark, Pipeline, Prefetcher, ReadError, ReadRequest, Wish};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use sys::Buffer;
use txg::{Engine, SyncContext};

static RATIOS: LockClass = LockClass::new("pool.deflate_ratios", rank::PIPELINE - 10);

/// The deflate ratio of a single disk, file or mirror: a sector is charged as a sector.
const RATIO_PLAIN: u64 = 512;

/// Threads that read ahead.
const PREFETCH_THREADS: usize = 4;
/// Bytes that may be on their way on account of reading ahead.
const PREFETCH_BYTES: u64 = 32 << 20;

/// Reads through the pool's pipeline.
pub(crate) struct PipelineStore {
    pipeline: Arc<Pipeline>,
    /// By top-level vdev, where it is not [`RATIO_PLAIN`]; none at all in pools that do not deflate.
    ratios: RwLock<BTreeMap<VdevId, u64>>,
    deflates: bool,
    /// Its threads start with the first wish.
    prefetcher: OnceLock<Prefetcher>,
    /// Known once the pool is open for writing.
    engine: OnceLock<Weak<Engine>>,
    /// Known once the pool is open for writing.
    services: OnceLock<Weak<PoolServices>>,
}

impl PipelineStore {
    /// A store over `pipeline`; `deflates`: the pool charges space by deflate ratios (all since version 9).
    #[must_use]
    pub(crate) fn new(pipeline: Arc<Pipeline>, deflates: bool) -> Self {
        Self {
            pipeline,
            ratios: RwLock::new(&RATIOS, BTreeMap::new()),
            deflates,
            prefetcher: OnceLock::new(),
            engine: OnceLock::new(),
            services: OnceLock::new(),
        }
    }

    /// Says who is suspended when a sync meets a device that does not answer; a second call is
    /// ignored.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        let _ = self.engine.set(Arc::downgrade(engine));
    }

    /// Says who knows which blocks are shared; a second call is ignored.
    pub(crate) fn set_services(&self, services: &Arc<PoolServices>) {
        let _ = self.services.set(Arc::downgrade(services));
    }

    /// Whether a read that failed so is to be done again: a sync cannot go on without its block,
    /// nor give up half-way, so it waits for the device.
    fn wait_for_devices(&self, error: &ReadError) -> bool {
        if !SyncContext::is_current() || !is_of_devices(error) {
            return false;
        }
        let engine = self.engine.get().and_then(Weak::upgrade);
        engine.is_some_and(|engine| engine.suspend(&error.to_string()).is_ok())
    }

    /// What a block is charged with: its copies, deflated. Holes and embedded blocks cost nothing.
    #[must_use]
    pub(crate) fn charge(&self, pointer: &BlockPointer) -> u64 {
        if pointer.is_hole() || pointer.is_embedded() {
            return 0;
        }
        let ratios = self.ratios.read();
        // In an encrypted pointer the third address is a salt and half an initialisation vector.
        let copies = if pointer.is_encrypted() { 2 } else { 3 };
        let charge = |dva: format::block_pointer::Dva| {
            if !self.deflates {
                return dva.asize;
            }
            let ratio = ratios.get(&dva.vdev).copied().unwrap_or(RATIO_PLAIN);
            (dva.asize >> 9).saturating_mul(ratio)
        };
        pointer.dvas().take(copies).map(charge).sum()
    }
}

/// The pipeline's name for a place.
pub(crate) fn bookmark(place: Place) -> Bookmark {
    Bookmark {
        object_set: place.object_set,
        object: place.object,
        level: i8::try_from(place.level).unwrap_or(i8::MAX),
        block: place.block.cast_unsigned(),
    }
}

/// Whether some device did not answer, so that the block may be there all the same.
fn is_of_devices(error: &ReadError) -> bool {
    let ReadError::Unreadable(unreadable) = error else {
        return false;
    };
    unreadable
        .attempts
        .iter()
        .any(|attempt| match &attempt.failure {
            AttemptFailure::Device(_) => true,
            AttemptFailure::Checksum(mismatch) => has_silent_leaf(&mismatch.source),
            AttemptFailure::GangMember(member) => is_of_devices(member),
            _ => false,
        })
}

/// Whether some leaf of a vdev gave no bytes at all.
fn has_silent_leaf(error: &vdev::VdevError) -> bool {
    let vdev::VdevError::ReadFailed { failures, .. } = error else {
        return false;
    };
    failures.iter().any(|leaf| {
        matches!(
            leaf.failure,
            vdev::Failure::Device(_) | vdev::Failure::Unavailable(..)
        )
    })
}

impl BlockStore for PipelineStore {
    fn read(&self, pointer: &BlockPointer, place: Place) -> Result<Buffer, BlockError> {
        let request = ReadRequest::new(bookmark(place));
        loop {
            match self.pipeline.read(pointer, &request) {
                Err(error) if self.wait_for_devices(&error) => {}
                result => return result.map_err(BlockError::new),
            }
        }
    }

    fn prefetch(&self, blocks: &[(BlockPointer, Place)]) {
        let start =
            || Prefetcher::new(Arc::clone(&self.pipeline), PREFETCH_THREADS, PREFETCH_BYTES);
        let wish = |(block, place): &(BlockPointer, Place)| Wish {
            block: *block,
            bookmark: bookmark(*place),
        };
        let wishes: Vec<Wish> = blocks.iter().map(wish).collect();
        self.prefetcher.get_or_init(start).prefetch(&wishes);
    }

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        self.charge(pointer)
    }

    fn will_share(&self, txg: Txg, pointer: &BlockPointer) -> bool {
        let services = self.services.get().and_then(Weak::upgrade);
        let shares =
            |services: &Arc<PoolServices>| services.features.is_enabled(&features::BLOCK_CLONING);
        let Some(services) = services.filter(shares) else {
            return false;
        };
        services.references.expect(txg, pointer);
        true
    }
}
