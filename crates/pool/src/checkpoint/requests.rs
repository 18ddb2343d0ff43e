//! What users ask of checkpoints.

use std::sync::{Arc, Weak};

use base::{Txg, thread};
use dsl::SpaceClass;
use format::features;

use super::{Request, Standing};
use crate::error::{PoolError, Result};
use crate::logs::intent_logs::newest_claimed;
use crate::pool::Pool;

/// No log that was written here is so many txgs ahead of an uberblock: with one every few seconds these are weeks.
const AHEAD_MAX: u64 = 1 << 20;

impl Pool {
    /// Keeps the state that the pool has when this is called.
    ///
    /// # Errors
    /// There is a checkpoint, or what one kept is still being freed; the pool is full, or cannot be written.
    pub fn take_checkpoint(&self) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        if !self.features().is_enabled(&features::ZPOOL_CHECKPOINT) {
            return Err(PoolError::Invalid {
                reason: "operation not supported on this type of pool".to_owned(),
            });
        }
        writer.checkpoint.standing().check_none()?;
        if self.is_expanding() {
            return Err(PoolError::Invalid {
                reason: "raidz expansion in progress".to_owned(),
            });
        }
        if self.is_removing() {
            return Err(PoolError::Invalid {
                reason: "device removal in progress".to_owned(),
            });
        }
        if self.dsl.root_directory()?.available(SpaceClass::Normal)? == 0 {
            return Err(PoolError::NoSpace);
        }
        // What was done until now is in the uberblock that is kept.
        writer.engine.wait_synced(None)?;
        self.reach(newest_claimed(&self.dsl, &self.pipeline)?)?;
        self.change_checkpoint(Request::Take)
    }

    /// Goes on until the last uberblock is of that txg, or a later one: what is in use as of the checkpoint is told by
    /// its birth.
    fn reach(&self, txg: Txg) -> Result<()> {
        let writer = self.writer()?;
        let last = || writer.syncer.last.get().txg;
        if txg.0.saturating_sub(last().0) > AHEAD_MAX {
            let reason = "an intent log that waits for its replay is of a later txg".to_owned();
            return Err(PoolError::Invalid { reason });
        }
        while last() < txg {
            // A txg in which nothing changes costs little, and writes no uberblock.
            if writer.engine.synced_txg() >= txg.previous() {
                self.services.config.change(|_| ());
            }
            writer.engine.wait_synced(None)?;
        }
        Ok(())
    }

    /// Gives up the checkpoint. What it kept is freed from now on; that goes on when this returns.
    ///
    /// # Errors
    /// There is none, or the pool cannot be written.
    pub fn discard_checkpoint(&self) -> Result<()> {
        let writer = self.writer()?;
        self.check_running()?;
        let _one = writer.vdev_changes.alone();
        match writer.checkpoint.standing() {
            Standing::None => Err(PoolError::NoCheckpoint),
            Standing::Discarding => Err(PoolError::DiscardingCheckpoint),
            Standing::Taken(_) => self.change_checkpoint(Request::Discard),
        }
    }

    fn change_checkpoint(&self, request: Request) -> Result<()> {
        let writer = self.writer()?;
        writer.checkpoint.want(request);
        writer.engine.wait_synced(None)?;
        writer.checkpoint.outcome()
    }

    /// Refuses a change of devices that a pool could not be taken back over.
    pub(crate) fn check_no_checkpoint(&self) -> Result<()> {
        self.writer()?.checkpoint.standing().check_none()
    }

    /// When a checkpoint is gone, what waited for it is done: replacements end, spares step in.
    pub(crate) fn watch_checkpoint(self: &Arc<Self>) {
        let Some(writer) = &self.writer else { return };
        let pool = Arc::downgrade(self);
        writer.checkpoint.on_ended(Box::new(move || {
            let pool = Weak::clone(&pool);
            // The thread that syncs calls this, and must not wait for itself.
            let thread = thread::named("pool-checkpoint", sys::thread::BACKGROUND);
            let started = thread.spawn(move || {
                if let Some(pool) = pool.upgrade() {
                    // A pool that cannot be written now does it after the next import.
                    let _ = pool.end_replacements();
                    pool.step_in();
                }
            });
            // Without a thread, the same.
            drop(started);
        }));
    }
}
