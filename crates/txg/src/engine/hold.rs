//! Holding the open txg.

use std::sync::Arc;

use base::Txg;

use super::Engine;
use crate::error::TxgError;
use crate::holds::Entered;
use crate::{manner, repetition};

/// A hold of a txg: it cannot be synced before this is dropped.
#[must_use]
pub struct TxgHold {
    engine: Arc<Engine>,
    shard: usize,
    txg: Txg,
}

impl TxgHold {
    /// Nothing while the open txg is closing.
    fn try_new(engine: &Arc<Engine>) -> Option<Self> {
        match engine.holds.enter() {
            Entered::Held(shard, txg) => Some(Self {
                engine: Arc::clone(engine),
                shard,
                txg,
            }),
            Entered::Closed => None,
            Entered::Withdrawn => {
                engine.wake_quiescer();
                None
            }
        }
    }

    /// The txg that is held.
    #[must_use]
    pub const fn txg(&self) -> Txg {
        self.txg
    }

    /// The engine whose txg is held.
    #[must_use]
    pub const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

impl Drop for TxgHold {
    fn drop(&mut self) {
        let findings = self.engine.findings();
        if self.engine.holds.leave(self.shard, self.txg, findings) {
            self.engine.wake_quiescer();
        }
    }
}

impl Engine {
    /// Holds the open txg; while one is closing, waits for the next. A thread that holds a txg must
    /// not ask for another hold: the next txg opens only when all holds of the last are gone.
    ///
    /// # Errors
    /// The engine ended.
    pub fn hold(self: &Arc<Self>) -> Result<TxgHold, TxgError> {
        self.check_over()?;
        loop {
            if let Some(hold) = TxgHold::try_new(self) {
                manner::changes_begin();
                repetition::changes_begin();
                return Ok(hold);
            }
            self.must_wait()?;
            let mut state = self.state.lock();
            while self.holds.is_closed() {
                if let Some(why) = &state.ended {
                    return Err(why.clone());
                }
                self.waiters.wait(&mut state);
            }
        }
    }

    /// Holds a txg that frees `blocks` blocks more: the open one, or when that has `limit` blocks to free already, the
    /// next one that has room. Beyond the limit a txg takes one caller, so that each comes to its turn.
    ///
    /// # Errors
    /// The engine ended, or is suspended, before there was room.
    pub fn hold_to_free(self: &Arc<Self>, blocks: u64, limit: u64) -> Result<TxgHold, TxgError> {
        loop {
            let hold = self.hold()?;
            let txg = hold.txg();
            if blocks == 0 || self.frees.try_book(txg, blocks, limit) {
                return Ok(hold);
            }
            drop(hold);
            self.meters.frees_waited.increment();
            self.wait_open(Some(txg.next()))?;
        }
    }
}
