//! Waiting for a device that failed: the sync thread sleeps, nobody else does.
//!
//! While the engine is suspended nothing is acknowledged as durable: who waits for a txg gets an
//! error at once. Changes in memory go on until the dirty limit; there they wait for a moment, in
//! case the device comes back, and then fail. Nothing that was accepted is forgotten: the sync goes
//! on where it stopped.

use base::Txg;
use base::sync::atomic::Ordering;

use super::Engine;
use crate::error::TxgError;

impl Engine {
    /// Suspends the engine because of `reason` and waits until it is resumed. For threads that
    /// sync: everybody else is told and does not wait.
    ///
    /// # Errors
    /// The engine ended meanwhile, or never started, so that nobody would resume it: the txg is
    /// given up.
    pub fn suspend(&self, reason: &str) -> Result<(), TxgError> {
        if !self.started.load(Ordering::SeqCst) {
            let reason = reason.to_owned();
            return Err(TxgError::Suspended { reason });
        }
        let mut state = self.state.lock();
        if state.ended.is_none() && state.suspended.is_none() {
            state.suspended = Some(reason.to_owned());
            self.suspended.store(true, Ordering::Release);
            self.meters.suspended.increment();
            self.waiters.notify_all();
            self.wake_reservers();
        }
        while state.suspended.is_some() {
            if let Some(why) = &state.ended {
                return Err(why.clone());
            }
            self.resume_wake.wait(&mut state);
        }
        state.ended.clone().map_or(Ok(()), Err)
    }

    /// Lets the sync go on where it stopped; answers the txg that waited. Call it when the devices
    /// have been repaired; if they fail again, the engine is suspended again.
    pub fn resume(&self) -> Option<Txg> {
        let mut state = self.state.lock();
        state.suspended.take()?;
        let stopped = state.syncing;
        self.suspended.store(false, Ordering::Release);
        self.resume_wake.notify_all();
        drop(state);
        self.wake_reservers();
        stopped
    }

    /// Why the engine is suspended, when it is.
    #[must_use]
    pub fn suspension(&self) -> Option<String> {
        if !self.suspended.load(Ordering::Acquire) {
            return None;
        }
        self.state.lock().suspended.clone()
    }

    /// Whether changes fail at once while the engine is suspended.
    #[must_use]
    pub fn fails_at_once(&self) -> bool {
        self.fail_at_once.load(Ordering::Relaxed)
    }

    /// Has changes fail at once while the engine is suspended (`failmode=continue`), rather than
    /// go on as long as there is room (`failmode=wait`).
    pub fn fail_at_once(&self, fail: bool) {
        self.fail_at_once.store(fail, Ordering::Relaxed);
    }
}
