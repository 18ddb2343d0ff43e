//! What blocks of dnodes are sealed with that are received, until their pointers say it.

use std::collections::BTreeMap;

use base::lock::{LockClass, Mutex, rank};
use format::BlockPointer;
use format::block_pointer::SealedForm;

static SEALS: LockClass = LockClass::new("dmu.seals", rank::DMU + 37);

/// The seals of blocks of dnodes that were not written with them yet.
pub(crate) struct Seals(Mutex<BTreeMap<u64, SealedForm>>);

impl Seals {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&SEALS, BTreeMap::new()))
    }

    pub(super) fn insert(&self, block: u64, form: SealedForm) {
        self.0.lock().insert(block, form);
    }

    pub(super) fn get(&self, block: u64) -> Option<SealedForm> {
        self.0.lock().get(&block).copied()
    }

    /// The pointer says it now, unless another came since.
    pub(super) fn forget(&self, block: u64, written: &BlockPointer) {
        let mut seals = self.0.lock();
        let is_it = |form: &SealedForm| form.iv == written.iv() && form.mac == written.mac();
        if seals.get(&block).is_some_and(is_it) {
            seals.remove(&block);
        }
    }
}
