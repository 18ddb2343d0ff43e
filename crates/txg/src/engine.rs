//! The thin driver of the state machine: two threads, one lock, four condition variables.

mod hold;
mod reserve;
mod room;
mod suspend;

use base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use base::sync::thread::JoinHandle;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::Txg;
use base::clock::{real_now, since};
use base::invariant::Findings;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::metrics::registry;

use crate::config::EngineConfig;
use crate::context::SyncContext;
use crate::dirty::{Dirty, DirtyCounts};
use crate::error::{SyncFailure, TxgError};
use crate::frees::Frees;
use crate::holds::{Holds, share_thread_index};
use crate::meters::{Meters, nanoseconds};
use crate::state::{CloseReason, State};
use crate::throttle::Throttle;
use room::Room;

pub use hold::TxgHold;

static STATE: LockClass = LockClass::new("txg.state", rank::TXG + 20);
static AWAITING: LockClass = LockClass::new("txg.awaiting", rank::TXG + 21);
static RESERVE: LockClass = LockClass::new("txg.reserve", rank::TXG + 10);
static THREADS: LockClass = LockClass::new("txg.threads", rank::TXG);

/// Txgs that are open, closing or on their way to disk at once, at most.
pub const TXGS_UNDER_WAY: u64 = 3;

/// What syncs a txg: supplied by the pool.
pub trait SyncTarget: Send + Sync {
    /// Writes everything that belongs to `txg` and its uberblock. Called in txg order, by one
    /// thread. A device that may come back is waited for with [`Engine::suspend`]; an error ends
    /// the engine.
    ///
    /// # Errors
    /// What made the txg impossible to write.
    fn sync(&self, txg: Txg) -> Result<(), SyncFailure>;
}

/// The transaction engine of a pool.
pub struct Engine {
    config: EngineConfig,
    holds: Holds,
    dirty: Arc<Dirty>,
    frees: Frees,
    state: Mutex<State>,
    /// The quiescer sleeps here: a request, a dropped hold, a free place for a quiesced txg.
    quiesce_wake: Condvar,
    /// The sync thread sleeps here.
    sync_wake: Condvar,
    /// Those who wait for a txg to be open or synced.
    waiters: Condvar,
    /// The sync thread and its helpers sleep here while the engine is suspended.
    resume_wake: Condvar,
    /// Whom to tell when the engine goes on or ends, each once. Looked at with or after `state`.
    awaiting: Mutex<BTreeMap<u64, Box<dyn FnOnce() + Send>>>,
    /// Follows `State::suspended`: looked at without the lock before each reservation.
    suspended: AtomicBool,
    /// Whether reservations fail at once, rather than wait, while the engine is suspended.
    fail_at_once: AtomicBool,
    reserve_lock: Mutex<()>,
    reserve_wake: Condvar,
    /// Those who wait without a thread.
    room: Room,
    throttle: Throttle,
    /// Whether somebody is parked for dirty credit.
    parked: AtomicU64,
    /// The txg that was last asked to close because of bytes: asked once.
    kicked: AtomicU64,
    started: AtomicBool,
    /// Follows `State::ended`: looked at without the lock before each hold and reservation.
    over: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
    meters: Arc<Meters>,
}

impl Engine {
    /// An engine whose open txg is `config.first`. Nothing syncs before [`Engine::start`].
    #[must_use]
    pub fn new(config: EngineConfig) -> Arc<Self> {
        let first = config.first;
        let dirty = Arc::new(Dirty::new(config.dirty_bytes_max, &config.findings));
        registry().add_source("dirty", &dirty);
        Arc::new(Self {
            holds: Holds::new(first),
            dirty,
            frees: Frees::default(),
            state: Mutex::new(&STATE, State::new(first)),
            quiesce_wake: Condvar::new(),
            sync_wake: Condvar::new(),
            waiters: Condvar::new(),
            resume_wake: Condvar::new(),
            awaiting: Mutex::new(&AWAITING, BTreeMap::new()),
            suspended: AtomicBool::new(false),
            fail_at_once: AtomicBool::new(false),
            reserve_lock: Mutex::new(&RESERVE, ()),
            reserve_wake: Condvar::new(),
            room: Room::new(),
            throttle: Throttle::default(),
            parked: AtomicU64::new(0),
            kicked: AtomicU64::new(0),
            started: AtomicBool::new(false),
            over: AtomicBool::new(false),
            threads: Mutex::new(&THREADS, Vec::new()),
            meters: Meters::listed(),
            config,
        })
    }

    /// Starts the quiesce and sync threads; a second call does nothing.
    pub fn start(self: &Arc<Self>, target: Arc<dyn SyncTarget>) {
        if self.started.swap(true, Ordering::SeqCst) {
            return;
        }
        let quiescer = Arc::clone(self);
        let syncer = Arc::clone(self);
        let spawned = [
            base::thread::named("txg-quiesce", sys::thread::ORDINARY)
                .spawn(move || quiescer.quiesce_loop()),
            base::thread::named("txg-sync", sys::thread::BACKGROUND)
                .spawn(move || syncer.sync_loop(target.as_ref())),
        ];
        let mut threads = self.threads.lock();
        for thread in spawned {
            match thread {
                Ok(handle) => threads.push(handle),
                Err(error) => self.end(TxgError::SyncFailed {
                    txg: self.holds.open(),
                    reason: format!("cannot start a thread: {error}"),
                }),
            }
        }
    }

    /// Stops both threads after the txg that is being synced, and waits for them. What was not
    /// synced is lost: callers wait for their txg first.
    pub fn stop(&self) {
        self.end(TxgError::Stopped);
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            if !thread.is_current() {
                // A thread that panicked has already ended the engine.
                let _ = thread.join();
            }
        }
    }

    /// Where a broken invariant of the pool is noted, by any thread: nothing is synced any more then.
    #[must_use]
    pub const fn findings(&self) -> &Arc<Findings> {
        &self.config.findings
    }

    fn end(&self, why: TxgError) {
        let mut state = self.state.lock();
        state.ended.get_or_insert(why);
        self.over.store(true, Ordering::Release);
        drop(state);
        self.quiesce_wake.notify_all();
        self.sync_wake.notify_all();
        self.waiters.notify_all();
        self.resume_wake.notify_all();
        self.wake_reservers();
        self.call_awaiting();
    }

    /// Nothing that is accepted now would reach the disk once the engine has ended.
    fn check_over(&self) -> Result<(), TxgError> {
        if self.over.load(Ordering::Acquire) {
            self.state.lock().check_progress()?;
        }
        Ok(())
    }

    /// How many blocks a txg in flight is to free, as far as it was said beforehand.
    #[must_use]
    pub fn blocks_to_free(&self, txg: Txg) -> u64 {
        self.frees.of(txg)
    }

    /// The most blocks that one txg ever was to free.
    #[must_use]
    pub fn blocks_to_free_max(&self) -> u64 {
        self.frees.max()
    }

    /// The open txg.
    #[must_use]
    pub fn open_txg(&self) -> Txg {
        self.holds.open()
    }

    /// The last txg that is on disk.
    #[must_use]
    pub fn synced_txg(&self) -> Txg {
        self.state.lock().synced
    }

    /// Why nothing is synced any more, unless the engine was simply stopped.
    #[must_use]
    pub fn failure(&self) -> Option<TxgError> {
        let ended = self.state.lock().ended.clone();
        ended.filter(|why| *why != TxgError::Stopped)
    }

    /// The txg that is being written.
    #[must_use]
    pub fn syncing_txg(&self) -> Option<Txg> {
        self.state.lock().syncing
    }

    /// Waits until `txg` (without one: the open txg) is on disk, asking for it to close.
    ///
    /// # Errors
    /// The engine ended, or is suspended, before the txg was synced.
    pub fn wait_synced(self: &Arc<Self>, txg: Option<Txg>) -> Result<(), TxgError> {
        let txg = txg.unwrap_or_else(|| self.holds.open());
        let mut state = self.state.lock();
        if state.synced < txg && state.request(txg, CloseReason::Request) {
            self.quiesce_wake.notify_all();
        }
        loop {
            if state.synced >= txg {
                return Ok(());
            }
            state.check_progress()?;
            self.must_wait()?;
            self.waiters.wait(&mut state);
        }
    }

    /// Waits until `txg` is open (without one: the one after the open txg), asking for its
    /// predecessor to close.
    ///
    /// # Errors
    /// The engine ended, or is suspended, before the txg was open.
    pub fn wait_open(self: &Arc<Self>, txg: Option<Txg>) -> Result<(), TxgError> {
        let txg = txg.unwrap_or_else(|| self.holds.open().next());
        let mut state = self.state.lock();
        if self.holds.open() < txg && state.request(txg.previous(), CloseReason::Request) {
            self.quiesce_wake.notify_all();
        }
        loop {
            if self.holds.open() >= txg {
                return Ok(());
            }
            state.check_progress()?;
            self.must_wait()?;
            self.waiters.wait(&mut state);
        }
    }

    /// Asks for the open txg to close, without waiting.
    pub fn kick(&self) {
        self.ask(self.holds.open(), CloseReason::Request);
    }

    /// Asks for the open txg to close because memory is short, without waiting.
    pub fn kick_for_memory(&self) {
        self.ask(self.holds.open(), CloseReason::Memory);
    }

    fn ask(&self, txg: Txg, reason: CloseReason) {
        if self.state.lock().request(txg, reason) {
            self.quiesce_wake.notify_all();
        }
    }

    /// The dirty counters now.
    #[must_use]
    pub fn dirty_counts(&self) -> DirtyCounts {
        DirtyCounts {
            total_bytes: self.dirty.total(),
            unsynced_bytes: self.dirty.unsynced(),
            high_water_bytes: self.dirty.high_water(),
            limit_bytes: self.dirty.limit(),
            overrun_bytes: self.dirty.overrun(),
        }
    }

    /// How often a txg closed, by reason: bytes, age, request, memory.
    #[must_use]
    pub fn close_counts(&self) -> [(&'static str, u64); 4] {
        self.meters.close_counts()
    }

    /// Sets the dirty limit.
    pub fn set_dirty_limit(&self, bytes: u64) {
        self.dirty.set_limit(bytes.max(1));
        self.wake_reservers();
    }

    /// `bytes` of `txg` have been handed to the devices: they are no longer dirty memory.
    pub fn written(&self, txg: Txg, bytes: u64) {
        self.dirty.settle(txg, Some(bytes));
        self.wake_reservers();
    }

    pub(crate) fn book_dirty(&self, txg: Txg, bytes: u64) {
        if self.dirty.book(txg, bytes) >= self.config.sync_bytes() {
            self.kick_for_bytes(txg);
        }
    }

    fn kick_for_bytes(&self, txg: Txg) {
        if self.kicked.fetch_max(txg.0, Ordering::Relaxed) < txg.0 {
            self.ask(txg, CloseReason::Bytes);
        }
    }

    pub(crate) fn dirty(&self) -> &Dirty {
        &self.dirty
    }

    pub(crate) fn wake_quiescer(&self) {
        // Taking the lock orders this wake-up after the quiescer's look at the counters.
        drop(self.state.lock());
        self.quiesce_wake.notify_all();
    }

    pub(crate) fn wake_reservers(&self) {
        if self.parked.load(Ordering::SeqCst) != 0 {
            self.reserve_wake.notify_all();
        }
        self.room.wake();
    }

    fn quiesce_loop(&self) {
        let timeout = Duration::from_nanos(self.config.timeout_ns);
        let mut opened = real_now();
        let mut state = self.state.lock();
        while state.ended.is_none() {
            let aged = since(opened) >= timeout;
            let Some(reason) = state.may_close(self.holds.open(), aged) else {
                if state.quiesced.is_some() {
                    self.quiesce_wake.wait(&mut state);
                } else {
                    let left = timeout.saturating_sub(since(opened));
                    self.quiesce_wake
                        .wait_for(&mut state, left.max(Duration::from_micros(50)));
                }
                continue;
            };
            let start = real_now();
            let txg = self.holds.close();
            while !self.holds.is_quiet(txg) && state.ended.is_none() {
                self.quiesce_wake.wait(&mut state);
            }
            if state.ended.is_some() {
                break;
            }
            opened = real_now();
            // Counted before anybody can see that the next one is open.
            self.meters.closed(reason, opened - start);
            self.dirty.opens(txg.next());
            self.frees.opens(txg.next(), self.findings());
            self.holds.open_next();
            self.waiters.notify_all();
            state.quiesced = Some(txg);
            self.sync_wake.notify_all();
        }
    }

    /// Whether no invariant was found to be broken so far.
    fn unbroken(&self) -> Result<(), SyncFailure> {
        let checked = self.findings().check();
        checked.map_err(|violation| SyncFailure {
            reason: violation.to_string(),
        })
    }

    fn sync_loop(&self, target: &dyn SyncTarget) {
        if let Some(index) = self.config.sync_thread_index {
            share_thread_index(index);
        }
        let mut state = self.state.lock();
        while state.ended.is_none() {
            let Some(txg) = state.begin_sync() else {
                self.sync_wake.wait(&mut state);
                continue;
            };
            drop(state);
            self.quiesce_wake.notify_all();
            let (start, settled) = (real_now(), self.dirty.settled());
            let outcome = self.unbroken().and_then(|()| sync_once(target, txg));
            let elapsed_ns = nanoseconds(since(start));
            self.meters.sync_ns.record(elapsed_ns);
            self.dirty.settle(txg, None);
            let wrote = self.dirty.settled() - settled;
            self.throttle.wrote(wrote, elapsed_ns, self.dirty.limit());
            self.dirty.synced(txg);
            self.frees.synced(txg);
            state = self.state.lock();
            let failed = match outcome {
                Ok(()) => {
                    state.end_sync();
                    // Found too late for this txg, which is on disk: the next one comes to nothing.
                    self.unbroken().err().map(|failure| (txg.next(), failure))
                }
                // What was found to be broken comes first: the error may follow from it.
                Err(failure) => Some((txg, self.unbroken().err().unwrap_or(failure))),
            };
            if let Some((txg, SyncFailure { reason })) = failed {
                state
                    .ended
                    .get_or_insert(TxgError::SyncFailed { txg, reason });
                self.over.store(true, Ordering::Release);
                self.quiesce_wake.notify_all();
            }
            self.waiters.notify_all();
            self.wake_reservers();
        }
        drop(state);
        // Should the sync have failed for good: the pool does not go on any more.
        self.call_awaiting();
    }
}

base::sync::thread_local! {
    static CATCHES_PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of the calling thread ends an engine, with all else going on, because the thread syncs. Its helpers
/// are not meant: nobody would wait for what one of them left undone.
#[must_use]
pub fn catches_panics() -> bool {
    CATCHES_PANICS.with(Cell::get)
}

/// Syncs a txg. A panic is a failed assertion: it ends the engine before the uberblock is written.
fn sync_once(target: &dyn SyncTarget, txg: Txg) -> Result<(), SyncFailure> {
    let run = std::panic::AssertUnwindSafe(|| {
        let _context = SyncContext::enter(true);
        target.sync(txg)
    });
    CATCHES_PANICS.with(|catches| catches.set(true));
    let outcome = std::panic::catch_unwind(run);
    CATCHES_PANICS.with(|catches| catches.set(false));
    outcome.unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("a panic without words");
        Err(SyncFailure {
            reason: format!("an assertion failed while syncing: {text}"),
        })
    })
}

#[cfg(all(test, shuttle))]
mod models;
#[cfg(all(test, not(shuttle)))]
mod tests;
