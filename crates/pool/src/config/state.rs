//! The pool's configuration in memory: what is in it, whether it must be written, and where it is stored.

use crate::config::PoolConfig;
use crate::error::Result;
use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg};
use dmu::{ObjectSet, Tx};
use format::config::keys;
use format::nvlist;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static CONFIG: LockClass = LockClass::new("pool.config", rank::DMU - 30);

/// The block size of the object that stores it: it is padded to whole blocks.
const BLOCK_SIZE: usize = 16 << 10;

/// The configuration, and whether the disk has it.
pub(crate) struct ConfigState {
    inner: Mutex<Inner>,
    /// The object that stores it; 0 while a new pool has none yet.
    object: AtomicU64,
}

struct Inner {
    config: PoolConfig,
    /// Changed since it was last stored in the pool.
    store: bool,
    /// Stored, but not in the labels yet.
    label: bool,
}

impl ConfigState {
    pub(crate) fn new(config: PoolConfig, object: ObjectId) -> Self {
        let inner = Inner {
            config,
            store: false,
            label: false,
        };
        Self {
            inner: Mutex::new(&CONFIG, inner),
            object: AtomicU64::new(object.0),
        }
    }

    /// Says which object stores it, in a new pool.
    pub(crate) fn set_object(&self, object: ObjectId) {
        self.object.store(object.0, Ordering::Release);
    }

    /// A copy as of now.
    pub(crate) fn get(&self) -> PoolConfig {
        self.inner.lock().config.clone()
    }

    /// Looks at it.
    pub(crate) fn with<R>(&self, look: impl FnOnce(&PoolConfig) -> R) -> R {
        look(&self.inner.lock().config)
    }

    /// Changes it; the next txg stores it and writes all labels.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut PoolConfig) -> R) -> R {
        let mut inner = self.inner.lock();
        inner.store = true;
        change(&mut inner.config)
    }

    /// Whether it changed since it was last stored in the pool.
    pub(crate) fn is_unstored(&self) -> bool {
        self.inner.lock().store
    }

    /// Stores it in the pool, if it changed.
    pub(crate) fn store(&self, objects: &Arc<ObjectSet>, txg: Txg) -> Result<()> {
        let list = {
            let mut inner = self.inner.lock();
            if !inner.store {
                return Ok(());
            }
            (inner.store, inner.label) = (false, true);
            inner.config.list.set(keys::TXG, txg.0);
            inner.config.to_mos()
        };
        let mut bytes = nvlist::encode_xdr(&list);
        let length = bytes.len() as u64;
        bytes.resize(bytes.len().next_multiple_of(BLOCK_SIZE), 0);
        let tx = Tx::syncing(txg);
        let object = objects.object(ObjectId(self.object.load(Ordering::Acquire)))?;
        object.write(&tx, 0, &bytes)?;
        object.modify_bonus(&tx, |bonus| {
            for (to, from) in bonus.iter_mut().zip(length.to_ne_bytes()) {
                *to = from;
            }
        })?;
        Ok(())
    }

    /// What labels must be written with now, if any.
    pub(crate) fn for_labels(&self) -> Option<PoolConfig> {
        let inner = self.inner.lock();
        inner.label.then(|| inner.config.clone())
    }

    /// The labels have it.
    pub(crate) fn labels_written(&self) {
        self.inner.lock().label = false;
    }
}
