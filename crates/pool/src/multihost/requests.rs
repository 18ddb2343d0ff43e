//! Whether a pool is held against other hosts, as its property says.

use std::sync::Arc;

use base::thread;
use dsl::property::pool::MULTIHOST;

use crate::error::{PoolError, Result};
use crate::pool::Pool;

impl Pool {
    /// Has the pool be held as the property `multihost` says, and waits until its newest uberblock says so: another
    /// host goes by that.
    ///
    /// # Errors
    /// No thread can be started, or the pool has stopped.
    pub(crate) fn follow_multihost(&self) -> Result<()> {
        if self.hold_as_set()?
            && let Some(writer) = &self.writer
        {
            self.services.config.change(|_| ());
            writer.engine.wait_synced(None)?;
        }
        Ok(())
    }

    /// Has the pool be held as the property `multihost` says from its next txg on; whether that is a change.
    ///
    /// # Errors
    /// No thread can be started.
    pub(crate) fn hold_as_set(&self) -> Result<bool> {
        let Some(writer) = &self.writer else {
            return Ok(false);
        };
        // A property that cannot be read counts as its default.
        let on = self.get(MULTIHOST).is_ok_and(|found| found.value);
        let own = &writer.multihost;
        let is_change = own.turn(on);
        let mut thread = own.thread.lock();
        if on && thread.is_none() {
            let (own, engine) = (Arc::clone(own), Arc::clone(&writer.engine));
            let spawned = thread::named("pool-multihost", sys::thread::ORDINARY)
                .spawn(move || own.run(&engine));
            *thread = Some(spawned.map_err(|_| PoolError::Scan("no thread can be started"))?);
        }
        Ok(is_change)
    }

    /// Whether the pool writes nothing any more because it could not say for too long that this host has it.
    #[must_use]
    pub fn is_multihost_overdue(&self) -> bool {
        let writer = self.writer.as_ref();
        writer.is_some_and(|writer| writer.multihost.is_overdue())
    }
}
