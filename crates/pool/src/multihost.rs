//! Pools that several hosts can reach (`multihost=on`): one of them at a time has it.
//!
//! The host that has the pool says so all the time: it writes the newest uberblock again, with the time and a number,
//! into a slot of the ring that is kept for that ([`Multihost`]). An import looks for some time whether anybody does
//! ([`activity`]), and then says itself that it takes the pool, before it writes anything else. A host that could not
//! write for too long takes the pool for another one's, and writes nothing more (`vdev::Fence`): its next txg finds no
//! device, and the pool is suspended. `zpool clear` asks the devices whether anybody took it meanwhile.
//!
//! Invariant: no other host's wait is over while this one's fence is open. A wait is twice as long as a fence, from the
//! last write that the other host can have seen.

pub(crate) mod activity;
mod requests;

use std::sync::Arc;
use std::time::Duration;

use base::clock::{Clock, monotonic_ns};
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::random::Rng;
use base::thread::JoinHandle;
use format::Uberblock;
use format::uberblock::MultihostConfig;
use txg::Engine;
use vdev::VdevTree;

use crate::config::state::ConfigState;
use crate::error::{PoolError, Result};
use crate::sync::syncer::LastSynced;
use crate::tunables::{MULTIHOST_FAIL_INTERVALS, MULTIHOST_INTERVAL_MS};
use crate::vdevs::dtl;

static STATE: LockClass = LockClass::new("pool.multihost", rank::LAST - 41);
static THREAD: LockClass = LockClass::new("pool.multihost_thread", rank::POOL + 16);

/// The most that a number among the writes of a second can be.
const SEQUENCE_MAX: u64 = 0xffff;
/// A wait for a write is remembered for about so many writes.
const DELAY_MEMORY: u64 = 128;

/// Who has a pool says so: see the module.
pub(crate) struct Multihost {
    vdevs: Arc<VdevTree>,
    last: Arc<LastSynced>,
    config: Arc<ConfigState>,
    clock: Arc<dyn Clock>,
    rng: Arc<dyn Rng>,
    state: Mutex<State>,
    wake: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct State {
    on: bool,
    stops: bool,
    /// The time and number of the last write.
    timestamp: u64,
    sequence: u64,
    /// When the last write that a device took was begun.
    written_ns: u64,
    /// How long writes are apart, at most, of late.
    delay_ns: u64,
    /// Which leaf is next.
    next: usize,
    /// The uberblock of the last txg that was to be written.
    committed: Option<Uberblock>,
    /// The last fence that was found closed has been told of.
    is_told: bool,
}

impl Multihost {
    pub(crate) fn new(
        vdevs: &Arc<VdevTree>,
        last: &Arc<LastSynced>,
        config: &Arc<ConfigState>,
        (clock, rng): (&Arc<dyn Clock>, &Arc<dyn Rng>),
    ) -> Arc<Self> {
        Arc::new(Self {
            vdevs: Arc::clone(vdevs),
            last: Arc::clone(last),
            config: Arc::clone(config),
            clock: Arc::clone(clock),
            rng: Arc::clone(rng),
            state: Mutex::new(&STATE, State::default()),
            wake: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
        })
    }

    /// Says in the uberblock of a txg how often the host that has the pool writes.
    pub(crate) fn stamp(&self, uberblock: &mut Uberblock) {
        let mut state = self.state.lock();
        if state.on {
            mark(uberblock, state.delay_ns, 0);
        }
        state.committed = Some(*uberblock);
    }

    /// Whether it took too long to say that this host has the pool: nothing is written any more.
    pub(crate) fn is_overdue(&self) -> bool {
        !self.vdevs.fence().is_open()
    }

    /// The pool was claimed by this write: the next ones follow it.
    pub(crate) fn follow(&self, claim: &Uberblock) {
        let mut state = self.state.lock();
        state.timestamp = claim.timestamp;
        state.sequence = claim.multihost_sequence();
    }

    /// Begins or ceases to hold the pool; whether that is a change.
    fn turn(&self, on: bool) -> bool {
        let mut state = self.state.lock();
        if state.on == on {
            return false;
        }
        state.on = on;
        state.written_ns = monotonic_ns();
        state.delay_ns = interval().as_nanos() as u64;
        self.vdevs.fence().open_until(match on {
            true => closes_at(state.written_ns),
            false => u64::MAX,
        });
        true
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        self.state.lock().stops = true;
        self.wake.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }

    fn run(&self, engine: &Engine) {
        loop {
            // Each leaf is written once in an interval.
            let leaves = u32::try_from(dtl::leaves(&self.vdevs).len()).unwrap_or(u32::MAX);
            let pause = interval() / leaves.max(1);
            {
                let mut state = self.state.lock();
                if state.stops {
                    return;
                }
                self.wake
                    .wait_for(&mut state, pause.max(Duration::from_millis(1)));
                if state.stops {
                    return;
                }
                if !state.on {
                    continue;
                }
            }
            if engine.suspension().is_some() {
                continue;
            }
            if self.is_overdue() {
                self.tell_overdue(engine);
            } else {
                self.write();
            }
        }
    }

    /// Has the next txg find out, and suspend the pool.
    fn tell_overdue(&self, engine: &Engine) {
        if std::mem::replace(&mut self.state.lock().is_told, true) {
            return;
        }
        self.config.change(|_| ());
        engine.kick();
    }

    /// Says once that this host has the pool: on one label of the next leaf.
    fn write(&self) {
        let leaves = dtl::leaves(&self.vdevs);
        let mut leaves: Vec<_> = leaves.iter().filter(|leaf| leaf.takes_labels()).collect();
        if leaves.is_empty() {
            return;
        }
        let Some((uberblock, next)) = self.next_write() else {
            return;
        };
        let begun_ns = monotonic_ns();
        let leaf = leaves.swap_remove(next % leaves.len());
        let label = usize::try_from(self.rng.below(4)).unwrap_or(0);
        if leaf.write_multihost(&uberblock, label).is_err() {
            return;
        }
        let mut state = self.state.lock();
        let apart_ns = begun_ns.saturating_sub(state.written_ns);
        let kept_ns = state.delay_ns - state.delay_ns / DELAY_MEMORY;
        state.delay_ns = apart_ns.max(kept_ns).max(1);
        state.written_ns = begun_ns;
        state.is_told = false;
        if state.on {
            self.vdevs.fence().open_until(closes_at(begun_ns));
        }
    }

    /// The newest uberblock with the time and the number of the next write, and which leaf gets it; none where a forged
    /// time leaves no later one: the fence closes then.
    fn next_write(&self) -> Option<(Uberblock, usize)> {
        let mut uberblock = self.last.get();
        let now_s = self.clock.now_s();
        let mut state = self.state.lock();
        let newest = state.timestamp.max(uberblock.timestamp);
        if now_s > newest {
            (state.timestamp, state.sequence) = (now_s, 1);
        } else if state.timestamp < newest {
            (state.timestamp, state.sequence) = (newest, 1);
        } else if state.sequence >= SEQUENCE_MAX {
            (state.timestamp, state.sequence) = (newest.checked_add(1)?, 1);
        } else {
            state.sequence += 1;
        }
        uberblock.timestamp = state.timestamp;
        mark(&mut uberblock, state.delay_ns, state.sequence);
        state.next = state.next.wrapping_add(1);
        Some((uberblock, state.next))
    }

    /// The newest uberblock that this host can have written.
    fn newest_of_ours(&self) -> Uberblock {
        let mut held = self.last.get();
        let state = self.state.lock();
        if state.timestamp >= held.timestamp {
            held.timestamp = state.timestamp;
            mark(&mut held, state.delay_ns, state.sequence);
        }
        match state.committed {
            Some(committed) if committed.compare_age(&held).is_gt() => committed,
            Some(_) | None => held,
        }
    }

    /// Takes the pool again that could not be held, if nobody else took it.
    pub(crate) fn take_again(&self) -> Result<()> {
        if !self.state.lock().on {
            return Ok(());
        }
        let ours = self.newest_of_ours();
        let leaves = dtl::leaves(&self.vdevs);
        let devices = leaves.iter().filter_map(|leaf| leaf.device());
        let seen = activity::newest_on(devices);
        if let Some((newest, user)) = seen
            && newest.compare_age(&ours).is_gt()
        {
            return Err(PoolError::ActiveElsewhere(user));
        }
        // The others are told before anything else is written.
        let fence = self.vdevs.fence();
        fence.open_until(closes_at(monotonic_ns()));
        self.write();
        Ok(())
    }
}

fn interval() -> Duration {
    Duration::from_millis(MULTIHOST_INTERVAL_MS.get())
}

/// When a pool is not this host's any more for certain, after a write at that moment.
fn closes_at(written_ns: u64) -> u64 {
    match MULTIHOST_FAIL_INTERVALS.get() {
        0 => u64::MAX,
        count => {
            let interval_ns = interval().as_nanos() as u64;
            written_ns.saturating_add(interval_ns.saturating_mul(count.max(2)))
        }
    }
}

/// What an uberblock says of who has the pool.
fn mark(uberblock: &mut Uberblock, delay_ns: u64, sequence: u64) {
    let at = MultihostConfig::AT;
    let mut word = at.interval.set(0, MULTIHOST_INTERVAL_MS.get());
    word = at.fail_intervals.set(word, MULTIHOST_FAIL_INTERVALS.get());
    word = at.sequence.set(word, sequence);
    for valid in [
        at.interval_valid,
        at.sequence_valid,
        at.fail_intervals_valid,
    ] {
        word = valid.set(word, 1);
    }
    uberblock.multihost_delay_ns = delay_ns.max(1);
    uberblock.multihost_config = word;
}

#[cfg(test)]
mod tests;
