//! What an object set and its objects have in common.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use base::{ObjectId, ObjectSetId};
use format::DnodePhys;
use format::dnode::SLOTS_PER_BLOCK;
use format::zap::micro;
use sys::Buffer;

use super::dirty::DirtyLists;
use super::meta::Meta;
use super::passes::Passes;
use super::seals::Seals;
use crate::error::Result;
use crate::store::BlockStore;
use crate::tunables;

/// The largest block of zeros that is shared.
const ZEROS: usize = 128 * 1024;

/// What an object set and its objects have in common.
pub(crate) struct Shared {
    pub(crate) id: ObjectSetId,
    pub(crate) store: Arc<dyn BlockStore>,
    /// The array of dnodes.
    pub(crate) meta: Meta,
    writable: bool,
    /// It was taken out of service: what is dirty in it is never written.
    is_stopped: AtomicBool,
    /// Micro ZAPs above 128 KiB may be written. What is not said when it is opened is no.
    has_large_micro_zaps: AtomicBool,
    pub(crate) dirty: DirtyLists,
    pub(crate) passes: Passes,
    /// What it is sealed with elsewhere, if it is being received so.
    pub(crate) seals: OnceLock<Seals>,
}

/// Zeros of all object sets.
static ZERO_BLOCK: LazyLock<Buffer> = LazyLock::new(|| Buffer::zeroed(ZEROS));

impl Shared {
    pub(crate) fn new(
        id: ObjectSetId,
        store: Arc<dyn BlockStore>,
        meta_dnode: &DnodePhys,
        writable: bool,
    ) -> Self {
        Self {
            id,
            store,
            meta: Meta::new(meta_dnode),
            writable,
            is_stopped: AtomicBool::new(false),
            has_large_micro_zaps: AtomicBool::new(false),
            dirty: DirtyLists::new(),
            passes: Passes::new(),
            seals: OnceLock::new(),
        }
    }

    /// Takes the object set out of service.
    pub(crate) fn stop(&self) {
        self.is_stopped.store(true, Ordering::Release);
    }

    /// Whether that was done.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Whether it may be changed now.
    pub(crate) fn is_writable(&self) -> bool {
        self.writable && !self.is_stopped()
    }

    /// From now on micro ZAPs above 128 KiB may be written.
    pub(crate) fn allow_large_micro_zaps(&self) {
        self.has_large_micro_zaps.store(true, Ordering::Relaxed);
    }

    /// Up to which size a micro ZAP grows. One that is larger stays, until it is full.
    pub(crate) fn micro_zap_bytes_max(&self) -> usize {
        let format = match self.has_large_micro_zaps.load(Ordering::Relaxed) {
            true => micro::SIZE_MAX_LARGE,
            false => micro::SIZE_MAX,
        };
        tunables::MICRO_ZAP_BYTES_MAX.count().min(format)
    }

    /// Reads the block of dnodes that holds an object's.
    pub(crate) fn read_dnodes_of(&self, id: ObjectId) -> Result<Buffer> {
        self.meta.read_block(self, id.0 / SLOTS_PER_BLOCK as u64)
    }

    /// A block of zeros.
    pub(crate) fn zeros(&self, size: usize) -> Buffer {
        if size <= ZEROS {
            ZERO_BLOCK.slice(0..size)
        } else {
            Buffer::zeroed(size)
        }
    }
}
