//! Waiting for a device that failed: the sync thread sleeps, nobody else does.
//!
//! While the engine is suspended nothing is acknowledged as durable: who waits for a txg gets an
//! error at once. Changes in memory go on until the dirty limit; there they wait for a moment, in
//! case the device comes back, and then fail. Nothing that was accepted is forgotten: the sync goes
//! on where it stopped. Operations that find a block's devices away before they have changed anything are
//! kept by their front ends, without a thread, and done again when the engine goes on ([`crate::repeatable`]).

use std::sync::Arc;

use base::Txg;
use base::sync::atomic::Ordering;

use super::Engine;
use crate::error::TxgError;
use crate::repetition::{self, Absence, AwaitedDevices};
use crate::state::State;

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
        self.begin_suspension(&mut state, reason);
        state.stuck += 1;
        let before = state.resumptions;
        while state.resumptions == before && state.ended.is_none() {
            self.resume_wake.wait(&mut state);
        }
        state.stuck -= 1;
        state.ended.clone().map_or(Ok(()), Err)
    }

    /// Suspends the engine, unless it is or has ended; whether it was not.
    fn begin_suspension(&self, state: &mut State, reason: &str) -> bool {
        if state.ended.is_some() || state.suspended.is_some() {
            return false;
        }
        state.suspended = Some(reason.to_owned());
        self.suspended.store(true, Ordering::Release);
        self.meters.suspended.increment();
        self.waiters.notify_all();
        self.wake_reservers();
        true
    }

    /// A read found no device that has its block, and again after the engine had been told to go on so often
    /// ([`Engine::resumptions`]). The engine is suspended, if reads are to wait, and the operation of the calling
    /// thread is to be done again.
    pub fn await_devices(self: &Arc<Self>, reason: &str, resumptions: u64) -> Absence {
        let mut state = self.state.lock();
        let never_goes_on = state.ended.is_some() || !self.started.load(Ordering::SeqCst);
        if never_goes_on || self.fails_at_once() {
            return Absence::Fails;
        }
        if state.resumptions != resumptions {
            return Absence::Over;
        }
        let is_news = self.begin_suspension(&mut state, reason);
        drop(state);
        repetition::want(AwaitedDevices::new(Arc::clone(self), resumptions));
        Absence::Awaited { is_news }
    }

    /// How often the engine was told to go on. Who finds a device away looks at this and asks the device again: if it
    /// is away still, it was not seen before it came back.
    #[must_use]
    pub fn resumptions(&self) -> u64 {
        self.state.lock().resumptions
    }

    /// Has `then` called when the engine goes on or has ended; at once if it has, since there had been so many
    /// resumptions. Of those of one `who` the last is called alone.
    pub(crate) fn call_when_resumed(
        &self,
        resumptions: u64,
        who: u64,
        then: Box<dyn FnOnce() + Send>,
    ) {
        let state = self.state.lock();
        if state.ended.is_none() && state.resumptions == resumptions {
            let before = self.awaiting.lock().insert(who, then);
            drop(state);
            drop(before);
            return;
        }
        drop(state);
        then();
    }

    /// Calls all who wait for the engine to go on.
    pub(super) fn call_awaiting(&self) {
        let all = std::mem::take(&mut *self.awaiting.lock());
        all.into_values().for_each(|then| then());
    }

    /// Whether the engine is suspended and no sync waits for it: operations do that found devices away.
    #[must_use]
    pub fn is_suspended_for_reads(&self) -> bool {
        let state = self.state.lock();
        state.suspended.is_some() && state.stuck == 0
    }

    /// Lets the sync go on where it stopped; answers the txg that waited. Call it when the devices
    /// have been repaired; if they fail again, the engine is suspended again.
    pub fn resume(&self) -> Option<Txg> {
        let mut state = self.state.lock();
        // Also when nobody waits yet: somebody may be about to.
        state.resumptions += 1;
        let was_suspended = state.suspended.take().is_some();
        let stopped = state.syncing.filter(|_| was_suspended);
        self.suspended.store(false, Ordering::Release);
        self.resume_wake.notify_all();
        drop(state);
        self.wake_reservers();
        self.call_awaiting();
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

    /// Whether changes fail at once while the engine is suspended, and reads of what is on devices that are away.
    #[must_use]
    pub fn fails_at_once(&self) -> bool {
        self.fail_at_once.load(Ordering::Relaxed)
    }

    /// Has changes fail at once while the engine is suspended (`failmode=continue`), rather than
    /// go on as long as there is room (`failmode=wait`), and reads for which no device is there, rather than wait.
    pub fn fail_at_once(&self, fail: bool) {
        self.fail_at_once.store(fail, Ordering::Relaxed);
    }
}
