//! Blocks that were read from the pool and wait to be written to a cache device: at most so many bytes.

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{ObjectSetId, Txg};
use format::Dva;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use sys::Buffer;

use crate::index::CopyKey;

static OFFERS: LockClass = LockClass::new("l2arc.offers", rank::CACHE + 22);

/// A block that was read from the pool.
#[derive(Clone, Debug)]
pub struct Offer {
    /// Whose block it is.
    pub set: ObjectSetId,
    /// Its first address.
    pub address: Dva,
    /// Its physical birth.
    pub birth: Txg,
    /// Bytes of its content.
    pub logical_size: u64,
    /// The number of its compression.
    pub compression: u8,
    /// Whether it is metadata.
    pub is_metadata: bool,
    /// Whether it is encrypted.
    pub is_encrypted: bool,
    /// Whether it was read ahead.
    pub is_prefetched: bool,
    /// Its bytes as they are stored in the pool, proven by its checksum.
    pub stored: Buffer,
}

impl Offer {
    /// The block's name.
    #[must_use]
    pub const fn key(&self) -> CopyKey {
        CopyKey {
            vdev: self.address.vdev,
            offset: self.address.offset,
            birth: self.birth,
        }
    }
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Offer>,
    /// Object sets of which data, or metadata, are not wanted.
    unwanted: HashSet<(ObjectSetId, bool)>,
    is_closed: bool,
}

/// See the module.
pub(crate) struct Offers {
    state: Mutex<State>,
    /// Bytes that may still be offered before the next feed. Changed under the lock, read without it.
    allowance: AtomicU64,
    changed: Condvar,
}

impl Offers {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::new(&OFFERS, State::default()),
            allowance: AtomicU64::new(0),
            changed: Condvar::new(),
        }
    }

    /// Takes an offer, if there is room for it before the next feed; whether it did.
    pub(crate) fn put(&self, offer: Offer) -> bool {
        let bytes = offer.stored.memory_size() as u64;
        let mut state = self.state.lock();
        let is_wanted = !state.unwanted.contains(&(offer.set, offer.is_metadata));
        let rest = self.allowance.load(Ordering::Relaxed).checked_sub(bytes);
        let Some(rest) = rest.filter(|_| is_wanted && !state.is_closed) else {
            return false;
        };
        self.allowance.store(rest, Ordering::Relaxed);
        state.waiting.push_back(offer);
        if state.waiting.len() == 1 {
            self.changed.notify_all();
        }
        true
    }

    /// So many bytes can be offered from now on, until they are taken.
    pub(crate) fn allow(&self, bytes: u64) {
        let state = self.state.lock();
        self.allowance.store(bytes, Ordering::Relaxed);
        drop(state);
    }

    /// Whether one more could be taken: cheap enough to ask before a block's bytes are copied.
    pub(crate) fn has_room(&self, bytes: u64) -> bool {
        self.allowance.load(Ordering::Relaxed) >= bytes
    }

    /// Waits until there are offers; none when it is closed.
    pub(crate) fn wait(&self) -> bool {
        let mut state = self.state.lock();
        while state.waiting.is_empty() && !state.is_closed {
            self.changed.wait(&mut state);
        }
        !state.is_closed
    }

    /// Waits for a time; false when it is closed.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let mut state = self.state.lock();
        if !state.is_closed {
            let _woken_or_not = self.changed.wait_for(&mut state, time);
        }
        !state.is_closed
    }

    /// What nobody wants of the next offers.
    pub(crate) fn set_unwanted(&self, unwanted: HashSet<(ObjectSetId, bool)>) {
        self.state.lock().unwanted = unwanted;
    }

    /// What was offered.
    pub(crate) fn take(&self) -> VecDeque<Offer> {
        std::mem::take(&mut self.state.lock().waiting)
    }

    /// Nothing is taken from now on, and what waited is dropped.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.is_closed = true;
        state.waiting.clear();
        drop(state);
        self.changed.notify_all();
    }
}
