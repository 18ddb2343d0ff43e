//! Dirty credits: no byte is dirtied that was not reserved.

use std::sync::Arc;

use base::Txg;

use crate::engine::Engine;

/// Bytes that the holder may dirty. What is left unused goes back when it is dropped.
#[must_use]
pub struct Credit {
    engine: Arc<Engine>,
    bytes: u64,
}

impl Credit {
    pub(crate) fn new(engine: &Arc<Engine>, bytes: u64) -> Self {
        Self {
            engine: Arc::clone(engine),
            bytes,
        }
    }

    /// Makes it one of `bytes`; false, and it stays what it was, when there is no room for more.
    pub(crate) fn fit(&mut self, bytes: u64) -> bool {
        let dirty = self.engine.dirty();
        if let Some(spare) = self.bytes.checked_sub(bytes) {
            dirty.subtract_total(spare);
            dirty.meters.returned.add(spare);
        } else if dirty.try_add(bytes - self.bytes).is_none() {
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// How many bytes may still be dirtied.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Turns `bytes` of this credit into dirty bytes of `txg`. What was not reserved is counted as
    /// well, and as an overrun: the reservation was wrong, the memory is in use all the same.
    pub fn spend(&mut self, txg: Txg, bytes: u64) {
        let overrun = bytes.saturating_sub(self.bytes);
        if overrun != 0 {
            self.engine.dirty().add_overrun(overrun);
        }
        self.bytes -= bytes - overrun;
        self.engine.dirty().meters.spent.add(bytes - overrun);
        if bytes != 0 {
            self.engine.book_dirty(txg, bytes);
        }
    }
}

impl Drop for Credit {
    fn drop(&mut self) {
        if self.bytes != 0 {
            let dirty = self.engine.dirty();
            dirty.subtract_total(self.bytes);
            dirty.meters.returned.add(self.bytes);
            self.engine.wake_reservers();
        }
    }
}
