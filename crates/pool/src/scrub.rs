//! Scrub: every copy of every block is read and verified, and mended where it is wrong.
//!
//! A thread walks the object sets, oldest snapshots first, so that each block is seen with the
//! first dataset that has it ([`course`]). It works in short slices, each under a hold of the reuse
//! gate: what a slice finds cannot be overwritten while it is looked at. Where it is is stored
//! every few seconds, with every change of the datasets it has still to see, when it is paused and
//! at export: after a restart it goes on from there, and so does OpenZFS.
//!
//! ```text
//! none/finished/cancelled --start--> running <--start/pause--> paused --stop--> cancelled
//!                                    running --all seen--> finished
//! ```

mod course;
pub(crate) mod walk;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{ObjectId, Txg};
use dsl::Succession;
use format::config::keys;

use crate::dtl;
use crate::duties::ScanChange;
use crate::error::{PoolError, Result};
use crate::pool::Pool;
use crate::scan::{
    FLAG_PAUSED, FUNCTION_RESILVER, FUNCTION_SCRUB, STATE_CANCELED, STATE_SCANNING, ScanPhys,
};
use course::Course;

static CONTROL: LockClass = LockClass::new("pool.scrub", rank::POOL + 20);
static THREAD: LockClass = LockClass::new("pool.scrub_thread", rank::POOL + 15);

/// Blocks of a slice: few enough for a slice to be short.
const SLICE_BLOCKS: usize = 128;
/// Threads that verify.
const THREADS: usize = 4;
/// How often the state is stored.
const STORE_EVERY_NS: u64 = 5_000_000_000;

/// What the thread is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Run,
    Pause,
    Stop,
    /// The pool closes: the scrub stays as stored.
    Leave,
}

struct Control {
    wish: Wish,
    /// The state of the scrub that runs or is paused.
    scan: Option<ScanPhys>,
    /// Where that is.
    course: Course,
    /// When it was paused, or found so at import: seconds since 1970.
    paused_at_s: u64,
}

/// The scrub of a pool that is open for writing.
pub(crate) struct Scrub {
    control: Mutex<Control>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Scrub {
    pub(crate) fn new() -> Arc<Self> {
        let control = Control {
            wish: Wish::Run,
            scan: None,
            course: Course::begin(ScanPhys::default()),
            paused_at_s: 0,
        };
        Arc::new(Self {
            control: Mutex::new(&CONTROL, control),
            changed: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
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

    /// Ends the thread; what is stored stays.
    pub(crate) fn leave(&self) {
        self.control.lock().wish = Wish::Leave;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    fn wait(&self) -> Wish {
        let mut control = self.control.lock();
        while control.wish == Wish::Pause {
            self.changed.wait(&mut control);
        }
        control.wish
    }

    /// What is to be stored of the scrub that runs or is paused, with its queue.
    pub(crate) fn stored(&self) -> Option<(ScanPhys, BTreeMap<ObjectId, Txg>)> {
        let control = self.control.lock();
        Some(control.course.stored(&control.scan?))
    }

    /// Follows a change of the datasets; whether there is a scrub to follow it.
    pub(crate) fn follow(&self, succession: Succession) -> bool {
        let mut control = self.control.lock();
        let running = control.scan.is_some();
        if running {
            control.course.follow(succession);
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
                control.wish = Wish::Run;
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
        let queue = self.services.stored_queue(&scan)?;
        let exists = |id: ObjectId| self.dsl.dataset_by_id(id).is_ok();
        self.run_scrub(scan, Course::resume(scan, queue, &exists))
    }

    /// Starts a resilver if a device is there that missed txgs; whether one was.
    pub(crate) fn resilver_if_needed(self: &Arc<Self>) -> Result<bool> {
        let writer = self.writer()?;
        let behind = dtl::leaves(&self.vdevs)
            .into_iter()
            .filter(|leaf| leaf.is_writable())
            .filter_map(|leaf| leaf.missing().bounds());
        let bounds = behind.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)));
        let Some((first, last)) = bounds else {
            return Ok(false);
        };
        writer.scrub.leave();
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

    /// A resilver ended well: the devices that it was for have what they missed.
    fn note_resilvered(&self, through: Txg) {
        for leaf in dtl::leaves(&self.vdevs) {
            let mut missing = leaf.missing();
            if missing.is_empty() || !leaf.is_writable() {
                continue;
            }
            missing.remove_through(through);
            leaf.set_missing(missing);
            self.services.config.change(|config| {
                if let Some(leaf) = config.root.find_mut(leaf.guid()) {
                    leaf.list.remove(keys::RESILVER_TXG);
                }
            });
        }
    }

    fn run_scrub(self: &Arc<Self>, scan: ScanPhys, course: Course) -> Result<()> {
        let writer = self.writer()?;
        let scrub = Arc::clone(&writer.scrub);
        {
            let mut control = scrub.control.lock();
            control.scan = Some(scan);
            control.course = course;
            control.paused_at_s = self.clock().now_s();
            self.services.errors.set_scanning(true);
            control.wish = if scan.is_paused() {
                Wish::Pause
            } else {
                Wish::Run
            };
        }
        let pool = Arc::downgrade(self);
        let own = Arc::clone(&scrub);
        let thread = std::thread::Builder::new()
            .name("pool-scrub".to_owned())
            .spawn(move || work::run(&pool, &own));
        match thread {
            Ok(thread) => {
                *scrub.thread.lock() = Some(thread);
                Ok(())
            }
            Err(_) => {
                scrub.control.lock().scan = None;
                Err(PoolError::Scan("no thread can be started"))
            }
        }
    }

    /// Ends the scrub; what was mended stays so.
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
            control.wish = Wish::Stop;
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
            control.wish = Wish::Pause;
            control.paused_at_s = self.clock().now_s();
        }
        self.store_scan(ScanChange::Update)
    }

    fn store_scan(&self, change: ScanChange) -> Result<()> {
        let writer = self.writer()?;
        writer.syncer.duties.change_scan_next(change);
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
