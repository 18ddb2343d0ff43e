//! Reserving dirty credit: delayed smoothly, or parked.

use base::sync::atomic::Ordering;
use base::sync::thread;
use std::sync::Arc;
use std::time::Duration;

use base::clock::monotonic_ns;

use super::Engine;
use crate::credit::Credit;
use crate::error::TxgError;
use crate::manner::{self, Awaited};
use crate::patience::Patience;

impl Engine {
    /// Reserves `bytes` of dirty credit: delayed smoothly as the limit comes nearer, parked at it.
    /// Must not be called while a txg is held.
    ///
    /// # Errors
    /// The engine ended; or it is suspended, and there is no room any more or nobody is to wait.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Result<Credit, TxgError> {
        self.check_over()?;
        if self.suspended.load(Ordering::Relaxed) && self.fail_at_once.load(Ordering::Relaxed) {
            self.state.lock().check_progress()?;
        }
        if let Some(credit) = self.reserved_before(bytes)? {
            return Ok(credit);
        }
        let hurries = manner::hurries();
        let room = if hurries && self.room.has_queue() {
            None
        } else {
            self.dirty.try_add(bytes)
        };
        let after = match room {
            Some(after) => after,
            None if hurries => return Err(manner::postpone(self, Awaited::Room(bytes))),
            None => self.park(bytes)?,
        };
        let credit = Credit::new(self, bytes);
        // Nothing is written out meanwhile: waiting smoothly helps nobody.
        if self.suspended.load(Ordering::Relaxed) {
            return Ok(credit);
        }
        if let Some(due_ns) = self.delayed_until_ns(after, bytes) {
            self.kick_for_bytes(self.holds.open());
            if hurries {
                return Err(manner::postpone(self, Awaited::Delay { credit, due_ns }));
            }
            thread::sleep(Duration::from_nanos(due_ns.saturating_sub(monotonic_ns())));
        }
        Ok(credit)
    }

    /// Until when a reservation of `bytes` waits with which `after` bytes are dirty; none: it does not.
    pub(super) fn delayed_until_ns(&self, after: u64, bytes: u64) -> Option<u64> {
        let limit = self.dirty.limit();
        let delay_ns = self.config.delay_ns(after, limit);
        if delay_ns == 0 {
            return None;
        }
        let now_ns = monotonic_ns();
        let due_ns = self.throttle.due_ns(now_ns, delay_ns, bytes, limit);
        self.meters.delay_ns.record(due_ns.saturating_sub(now_ns));
        Some(due_ns)
    }

    /// Reserves `bytes` at once or not at all.
    #[must_use]
    pub fn try_reserve(self: &Arc<Self>, bytes: u64) -> Option<Credit> {
        let (total, limit) = (self.dirty.total(), self.dirty.limit());
        if self.config.delay_ns(total, limit) != 0 {
            return None;
        }
        self.dirty.try_add(bytes).map(|_| Credit::new(self, bytes))
    }

    fn park(&self, bytes: u64) -> Result<u64, TxgError> {
        self.parked.fetch_add(1, Ordering::SeqCst);
        self.meters.parked.increment();
        let result = self.park_until_room(bytes);
        self.parked.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn park_until_room(&self, bytes: u64) -> Result<u64, TxgError> {
        // A wake-up between the check and the wait may be missed; the pause bounds what that costs.
        const PAUSE: Duration = Duration::from_millis(5);
        let mut patience = Patience::default();
        loop {
            self.kick_for_bytes(self.holds.open());
            if let Some(after) = self.dirty.try_add(bytes) {
                return Ok(after);
            }
            patience.check(&self.state.lock())?;
            let mut guard = self.reserve_lock.lock();
            self.reserve_wake.wait_for(&mut guard, PAUSE);
        }
    }
}
