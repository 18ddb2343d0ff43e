//! Scrub: every copy of every block is read and verified, and repaired where it is wrong.
//!
//! A thread walks the object sets, oldest snapshots first, so that each block is seen with the
//! first dataset that has it ([`course`]), and collects where their copies lie ([`pending`]). When
//! memory for that is used up, or everything was seen, all that was collected is looked at in the
//! order of places ([`issue`]); then the walk goes on. Both work in short slices, each under a hold
//! of the reuse gate: what a slice looks at cannot be overwritten meanwhile. The place up to which
//! everything was looked at is stored every few seconds, with every change of the datasets still to
//! be seen, when it is paused and at export: after a restart it goes on from there, and so does
//! OpenZFS.
//!
//! ```text
//! none/finished/cancelled --start--> running <--start/pause--> paused --stop--> cancelled
//!                                    running --all seen--> finished
//! ```

mod ahead;
mod course;
mod issue;
mod logs;
mod pending;
pub(crate) mod walk;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::{self, JoinHandle};
use base::{ObjectId, Txg};
use dsl::Succession;
use format::config::keys;

use crate::dtl;
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::scan::{
    FLAG_PAUSED, FUNCTION_RESILVER, FUNCTION_SCRUB, STATE_CANCELED, STATE_SCANNING, ScanPhys,
};
use crate::sync_tasks::ScanChange;
use ahead::Ahead;
use course::Course;
use logs::LogPlace;
pub(crate) use pending::PendingBlocks;

static CONTROL: LockClass = LockClass::new("pool.scrub", rank::POOL + 20);
static AHEAD: LockClass = LockClass::new("pool.scan_ahead", rank::POOL + 21);
static THREAD: LockClass = LockClass::new("pool.scrub_thread", rank::POOL + 15);

/// What the thread is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PrefetchRequest {
    Run,
    Pause,
    Stop,
    /// The pool closes: the scrub stays as stored.
    Leave,
}

struct Control {
    request: PrefetchRequest,
    /// The state of the scrub that runs or is paused.
    scan: Option<ScanPhys>,
    /// Which scan this is: changes with every one that begins.
    number: u64,
    /// Where the walk is.
    course: Course,
    /// Where it was when all that it had collected was looked at: what is stored.
    kept: Course,
    /// What was collected is being looked at, until there is nothing left of it.
    is_issuing: bool,
    /// How far the intent log of the object set under way was looked at.
    log: LogPlace,
    /// When it was paused, or found so at import: seconds since 1970.
    paused_at_s: u64,
    /// Somebody starts a scan, or goes on with one: others who would wait for the outcome.
    is_starting: bool,
    /// The pool closes: none is started.
    is_closed: bool,
}

/// While it lives, nobody else starts a scan.
struct Starting<'a>(&'a Scrub);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.control.lock().is_starting = false;
        self.0.changed.notify_all();
    }
}

/// Where a scrub was.
pub(crate) struct Way {
    /// Which scrub.
    number: u64,
    course: Course,
    kept: Course,
}

/// The scrub of a pool that is open for writing.
pub(crate) struct Scrub {
    control: Mutex<Control>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
    pending: Arc<PendingBlocks>,
    /// What was read ahead of the walk; empty while a slice works with it.
    ahead: Mutex<Ahead>,
}

impl Scrub {
    pub(crate) fn new(pending: &Arc<PendingBlocks>) -> Arc<Self> {
        let control = Control {
            request: PrefetchRequest::Run,
            scan: None,
            number: 0,
            course: Course::begin(ScanPhys::default()),
            kept: Course::begin(ScanPhys::default()),
            is_issuing: false,
            log: LogPlace::default(),
            paused_at_s: 0,
            is_starting: false,
            is_closed: false,
        };
        Arc::new(Self {
            control: Mutex::new(&CONTROL, control),
            changed: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
            pending: Arc::clone(pending),
            ahead: Mutex::new(&AHEAD, Ahead::default()),
        })
    }

    /// The state of the scrub that runs or is paused.
    pub(crate) fn current(&self) -> Option<ScanPhys> {
        self.control.lock().scan
    }

    /// The same as it is shown: the end of one that is paused is when it was paused.
    pub(crate) fn shown(&self) -> Option<ScanPhys> {
        let control = self.control.lock();
        let scan = control.scan?;
        let ended = if scan.is_paused() {
            control.paused_at_s
        } else {
            scan.ended
        };
        Some(ScanPhys { ended, ..scan })
    }

    /// One after the other, for between the look whether a scan runs and its start is a txg.
    fn starting(&self) -> Starting<'_> {
        let mut control = self.control.lock();
        while control.is_starting {
            self.changed.wait(&mut control);
        }
        control.is_starting = true;
        Starting(self)
    }

    /// Ends the thread, for the pool closes; what is stored stays.
    pub(crate) fn close(&self) {
        self.control.lock().is_closed = true;
        self.leave();
    }

    /// The pool stays open.
    pub(crate) fn stay(&self) {
        self.control.lock().is_closed = false;
    }

    /// Ends the thread; what is stored stays.
    fn leave(&self) {
        self.control.lock().request = PrefetchRequest::Leave;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    fn wait(&self) -> PrefetchRequest {
        let mut control = self.control.lock();
        while control.request == PrefetchRequest::Pause {
            self.changed.wait(&mut control);
        }
        control.request
    }

    /// What is to be stored of the scrub that runs or is paused, with its queue.
    pub(crate) fn stored(&self) -> Option<(ScanPhys, BTreeMap<ObjectId, Txg>)> {
        let control = self.control.lock();
        Some(control.kept.stored(&control.scan?))
    }

    /// Where the scrub is.
    pub(crate) fn way(&self) -> Way {
        let control = self.control.lock();
        Way {
            number: control.number,
            course: control.course.clone(),
            kept: control.kept.clone(),
        }
    }

    /// Changes that were followed were undone: goes back to where the scrub was before. Both places: what was
    /// collected up to the one and looked at up to the other stays so, and what came since is done again. A scrub that
    /// began meanwhile has met no dataset yet, and followed nothing.
    pub(crate) fn go_back(&self, way: Way) {
        let mut control = self.control.lock();
        if control.number == way.number {
            control.course.go_back(way.course);
            control.kept.go_back(way.kept);
        }
    }

    /// Follows a change of the datasets; whether there is a scrub to follow it.
    pub(crate) fn follow(&self, succession: Succession) -> bool {
        let mut control = self.control.lock();
        let running = control.scan.is_some();
        if running {
            control.course.follow(succession);
            control.kept.follow(succession);
        }
        running
    }
}

impl Pool {
    /// Starts a scrub, or goes on with one that is paused.
    ///
    /// # Errors
    /// One is running, or the pool is read-only or stopped.
    pub fn start_scrub(self: &Arc<Self>) -> Result<()> {
        let writer = self.writer()?;
        let scrub = &writer.scrub;
        let _starting = scrub.starting();
        let running = scrub.current();
        if running.is_some_and(|scan| scan.function == FUNCTION_RESILVER) {
            return Err(PoolError::Scan("currently resilvering"));
        }
        match running {
            Some(scan) if !scan.is_paused() => {
                return Err(PoolError::Scan(
                    "currently scrubbing; use 'zpool scrub -s' to cancel scrub",
                ));
            }
            Some(_) => {
                let mut control = scrub.control.lock();
                if let Some(scan) = &mut control.scan {
                    scan.flags &= !FLAG_PAUSED;
                    self.services.events.scan(scan, "resume");
                }
                control.request = PrefetchRequest::Run;
                drop(control);
                scrub.changed.notify_all();
                return self.store_scan(ScanChange::Update);
            }
            None => {}
        }
        scrub.leave();
        let scan = ScanPhys {
            function: FUNCTION_SCRUB,
            state: STATE_SCANNING,
            txg_max: writer.engine.open_txg().0,
            started: self.clock().now_s(),
            to_examine: self.space().allocated,
            ..ScanPhys::default()
        };
        self.store_scan(ScanChange::Start(scan))?;
        self.run_scrub(scan, Course::begin(scan))
    }

    /// Goes on with a scrub that was running when the pool was last open.
    pub(crate) fn resume_scrub(self: &Arc<Self>) -> Result<()> {
        let Some(mut scan) = ScanPhys::load(&self.services.directory)? else {
            return Ok(());
        };
        if !scan.is_running() || self.writer.is_none() {
            return Ok(());
        }
        if scan.function == FUNCTION_RESILVER {
            // The device that it was for is not here.
            let ended = self.clock().now_s();
            (scan.state, scan.ended) = (STATE_CANCELED, ended);
            return self.store_scan(ScanChange::End(scan));
        }
        if scan.bookmark == [0; 4] {
            (scan.examined, scan.processed, scan.errors, scan.skipped) = (0, 0, 0, 0);
        }
        let _starting = self.writer()?.scrub.starting();
        let queue = self.services.stored_queue(&scan)?;
        let exists = |id: ObjectId| self.dsl.dataset_by_id(id).is_ok();
        self.run_scrub(scan, Course::resume(scan, queue, &exists))
    }

    /// Goes on with a scan that an export ended which then failed, from the last place that is stored.
    pub(crate) fn go_on_with_scan(self: &Arc<Self>) -> Result<()> {
        let scrub = &self.writer()?.scrub;
        let _starting = scrub.starting();
        if scrub.thread.lock().is_some() {
            return Ok(());
        }
        let left = {
            let control = scrub.control.lock();
            control.scan.map(|scan| (scan, control.kept.clone()))
        };
        left.map_or(Ok(()), |(scan, kept)| self.run_scrub(scan, kept))
    }

    /// Starts a resilver if a device is there that missed txgs; whether one was.
    pub(crate) fn resilver_if_needed(self: &Arc<Self>) -> Result<bool> {
        let writer = self.writer()?;
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        let mut writable = leaves.filter(|leaf| leaf.is_writable());
        if writable.all(|leaf| leaf.missing().is_empty()) {
            return Ok(false);
        }
        let _starting = writer.scrub.starting();
        writer.scrub.leave();
        let Some((first, last)) = self.begin_resilver() else {
            return Ok(false);
        };
        let scan = ScanPhys {
            function: FUNCTION_RESILVER,
            state: STATE_SCANNING,
            txg_min: first.0.saturating_sub(1),
            txg_max: last.0 + 1,
            started: self.clock().now_s(),
            to_examine: self.space().allocated,
            ..ScanPhys::default()
        };
        self.store_scan(ScanChange::Start(scan))?;
        self.run_scrub(scan, Course::begin(scan))?;
        Ok(true)
    }

    /// From here until [`Pool::note_resilvered`] devices note what the resilver leaves behind. The first and the last
    /// txg that one of them missed; everything of these txgs is on disk before the walk begins, for its start is
    /// stored first.
    fn begin_resilver(&self) -> Option<(Txg, Txg)> {
        let leaves = dtl::leaves(&self.vdevs).into_iter();
        let bounds = leaves.filter(|leaf| leaf.is_writable()).filter_map(|leaf| {
            leaf.begin_resilver();
            leaf.missing().bounds()
        });
        bounds.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
    }

    /// A resilver has seen everything that it could: the devices that it was for have what they missed, but for what
    /// it left behind.
    fn note_resilvered(&self) {
        for leaf in dtl::leaves(&self.vdevs) {
            if !leaf.end_resilver() {
                continue;
            }
            self.services.config.change(|config| {
                if let Some(leaf) = config.root.find_mut(leaf.guid()) {
                    leaf.list.remove(keys::RESILVER_TXG);
                }
            });
        }
    }

    /// Some blocks that are not younger than `birth` were not seen by the scan.
    fn leave_behind_through(&self, birth: Txg) {
        for leaf in dtl::leaves(&self.vdevs) {
            leaf.note_left_through(birth);
        }
    }

    fn run_scrub(self: &Arc<Self>, scan: ScanPhys, course: Course) -> Result<()> {
        let writer = self.writer()?;
        let scrub = Arc::clone(&writer.scrub);
        let number = scrub.pending.begin();
        // What the txg under way has freed already is not known.
        if let Err(error) = writer.engine.wait_synced(None) {
            scrub.pending.end(number);
            return Err(error.into());
        }
        {
            let mut control = scrub.control.lock();
            if control.is_closed {
                drop(control);
                scrub.pending.end(number);
                return Err(PoolError::Scan("the pool is being closed"));
            }
            control.scan = Some(scan);
            control.number = number;
            control.kept = course.clone();
            control.course = course;
            control.is_issuing = false;
            control.log = LogPlace::default();
            *scrub.ahead.lock() = Ahead::default();
            control.paused_at_s = self.clock().now_s();
            self.services.errors.set_scanning(true);
            control.request = if scan.is_paused() {
                PrefetchRequest::Pause
            } else {
                PrefetchRequest::Run
            };
        }
        let pool = Arc::downgrade(self);
        let own = Arc::clone(&scrub);
        let thread = thread::named("pool-scrub", sys::thread::BACKGROUND)
            .spawn(move || work::run(&pool, &own, number));
        match thread {
            Ok(thread) => {
                *scrub.thread.lock() = Some(thread);
                Ok(())
            }
            Err(_) => {
                scrub.control.lock().scan = None;
                scrub.pending.end(number);
                Err(PoolError::Scan("no thread can be started"))
            }
        }
    }

    /// Ends the scrub; what was repaired stays so.
    ///
    /// # Errors
    /// None is running, or the pool is read-only or stopped.
    pub fn stop_scrub(&self) -> Result<()> {
        let writer = self.writer()?;
        let scan = writer
            .scrub
            .current()
            .ok_or(PoolError::Scan("there is no active scrub"))?;
        {
            let mut control = writer.scrub.control.lock();
            control.request = PrefetchRequest::Stop;
            control.scan = None;
        }
        writer.scrub.changed.notify_all();
        let ended = ScanPhys {
            state: STATE_CANCELED,
            ended: self.clock().now_s(),
            flags: 0,
            ..scan
        };
        self.services.errors.set_scanning(false);
        self.store_scan(ScanChange::End(ended))
    }

    /// Pauses the scrub.
    ///
    /// # Errors
    /// None is running, it is paused already, or the pool is read-only or stopped.
    pub fn pause_scrub(&self) -> Result<()> {
        let writer = self.writer()?;
        {
            let mut control = writer.scrub.control.lock();
            let scan = control.scan.as_mut();
            let scan = scan.ok_or(PoolError::Scan("there is no active scrub"))?;
            if scan.is_paused() {
                return Err(PoolError::Scan(
                    "scrub is paused; use 'zpool scrub' to resume scrub",
                ));
            }
            scan.flags |= FLAG_PAUSED;
            self.services.events.scan(scan, "paused");
            control.request = PrefetchRequest::Pause;
            control.paused_at_s = self.clock().now_s();
        }
        self.store_scan(ScanChange::Update)
    }

    fn store_scan(&self, change: ScanChange) -> Result<()> {
        let writer = self.writer()?;
        writer.syncer.sync_tasks.change_scan_next(change);
        Ok(writer.engine.wait_synced(None)?)
    }
}

/// How long a waiting caller sleeps between looks.
pub(crate) const WAIT_PAUSE: Duration = Duration::from_millis(20);

/// How often a waiting caller looks whether the end of a scan is stored: 10 s, for one that has no
/// thread has no end.
const WAITS_FOR_END_MAX: u32 = 500;

impl Pool {
    /// Waits until no scrub runs.
    ///
    /// # Errors
    /// The pool is read-only or stopped.
    pub fn wait_scrub(&self) -> Result<()> {
        while let Some(scan) = self.writer()?.scrub.current() {
            if scan.is_paused() {
                break;
            }
            std::thread::sleep(WAIT_PAUSE);
        }
        // The end is stored with the next txg, unless the pool is suspended.
        for _ in 0..WAITS_FOR_END_MAX {
            let stored = ScanPhys::load(&self.services.directory)?;
            let is_running = stored.is_some_and(|scan| scan.is_running() && !scan.is_paused());
            if !is_running || self.suspended().is_some() {
                break;
            }
            self.writer()?;
            std::thread::sleep(WAIT_PAUSE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
