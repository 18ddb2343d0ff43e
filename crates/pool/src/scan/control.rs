//! What is said to the thread of a scan, and where the scan is.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::JoinHandle;
use base::{Guid, ObjectId, Txg};
use dsl::{QueuedTrees, Succession};
use intent::Resume;

use super::ahead::Ahead;
use super::course::Course;
use super::pending::PendingBlocks;
use crate::scan::phys::{FUNCTION_RESILVER, STATE_SCANNING, ScanPhys};

static CONTROL: LockClass = LockClass::new("pool.scrub", rank::POOL + 20);
static AHEAD: LockClass = LockClass::new("pool.scan_ahead", rank::POOL + 21);
static CHANGES: LockClass = LockClass::new("pool.scan_changes", rank::LAST - 30);
static THREAD: LockClass = LockClass::new("pool.scrub_thread", rank::POOL + 15);

/// A change of the stored state of the scan.
#[derive(Clone, Debug)]
pub(crate) enum ScanChange {
    /// It begins.
    Start(ScanPhys),
    /// It goes on, or is paused: its place is stored.
    Update,
    /// It has finished or was cancelled.
    End(ScanPhys),
    /// These devices wait for its end ([`super::deferral`]).
    Defer(Vec<Guid>),
}

/// How far the log of an object set was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LogPlace {
    /// Which object set: the epoch of the course, and none before the first.
    pub(super) epoch: Option<u64>,
    /// Where to go on in its chain.
    pub(super) next: Option<Resume>,
    pub(super) done: bool,
}

/// What the thread is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ScanRequest {
    Run,
    Pause,
    Stop,
    /// The pool closes: the scrub stays as stored.
    Leave,
}

pub(super) struct Control {
    pub(super) request: ScanRequest,
    /// The state of the scrub that runs or is paused.
    pub(super) scan: Option<ScanPhys>,
    /// Which scan this is: changes with every one that begins.
    pub(super) number: u64,
    /// Where the walk is.
    pub(super) course: Course,
    /// Where it was when all that it had collected was looked at: what is stored.
    pub(super) kept: Course,
    /// Trees that were queued to be freed when a resilver had seen everything: it may have seen none of them.
    pub(super) trees: Option<QueuedTrees>,
    /// What was collected is being looked at, until there is nothing left of it.
    pub(super) is_issuing: bool,
    /// How far the intent log of the object set under way was looked at.
    pub(super) log: LogPlace,
    /// When it was paused, or found so at import: seconds since 1970.
    pub(super) paused_at_s: u64,
    /// A resilver for devices that wait for the end of this one comes after it.
    pub(super) is_followed: bool,
    /// Somebody starts a scan, or goes on with one: others who would wait for the outcome.
    pub(super) is_starting: bool,
    /// The pool closes: none is started.
    pub(super) is_closed: bool,
}

/// While it lives, nobody else starts a scan.
pub(super) struct Starting<'a>(&'a Scrub);

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
    pub(super) control: Mutex<Control>,
    pub(super) changed: Condvar,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    pub(super) pending: Arc<PendingBlocks>,
    /// What was read ahead of the walk; empty while a slice works with it.
    pub(super) ahead: Mutex<Ahead>,
    /// What the next txg stores.
    changes: Mutex<Vec<ScanChange>>,
}

impl Scrub {
    pub(crate) fn new(pending: &Arc<PendingBlocks>) -> Arc<Self> {
        let control = Control {
            request: ScanRequest::Run,
            scan: None,
            number: 0,
            course: Course::begin(ScanPhys::default()),
            kept: Course::begin(ScanPhys::default()),
            trees: None,
            is_issuing: false,
            log: LogPlace::default(),
            paused_at_s: 0,
            is_followed: false,
            is_starting: false,
            is_closed: false,
        };
        Arc::new(Self {
            control: Mutex::new(&CONTROL, control),
            changed: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
            pending: Arc::clone(pending),
            ahead: Mutex::new(&AHEAD, Ahead::default()),
            changes: Mutex::new(&CHANGES, Vec::new()),
        })
    }

    /// Stores the state of the scan in the next txg.
    pub(crate) fn change_next(&self, change: ScanChange) {
        self.changes.lock().push(change);
    }

    /// What is to be stored now.
    pub(super) fn take_changes(&self) -> Vec<ScanChange> {
        std::mem::take(&mut self.changes.lock())
    }

    /// The state of the scrub that runs or is paused.
    pub(crate) fn current(&self) -> Option<ScanPhys> {
        self.control.lock().scan
    }

    /// Whether a resilver runs, or is about to follow one that has ended.
    pub(crate) fn is_resilver(&self) -> bool {
        let control = self.control.lock();
        let running = control.scan.map(|scan| scan.function);
        running == Some(FUNCTION_RESILVER) || control.is_followed
    }

    /// Whether a scan is under way that is not paused, or is about to follow one that has ended.
    pub(super) fn is_busy(&self) -> bool {
        let control = self.control.lock();
        match control.scan {
            Some(scan) => !scan.is_paused(),
            None => control.is_followed,
        }
    }

    /// The same as it is shown: the end of one that is paused is when it was paused, and a resilver that is about to
    /// follow another one runs, so that nobody who waits for resilvers sees a gap.
    pub(crate) fn shown(&self) -> Option<ScanPhys> {
        let control = self.control.lock();
        let Some(scan) = control.scan else {
            return control.is_followed.then(|| ScanPhys {
                function: FUNCTION_RESILVER,
                state: STATE_SCANNING,
                started: control.paused_at_s,
                ..ScanPhys::default()
            });
        };
        let ended = if scan.is_paused() {
            control.paused_at_s
        } else {
            scan.ended
        };
        Some(ScanPhys { ended, ..scan })
    }

    /// One after the other, for between the look whether a scan runs and its start is a txg.
    pub(super) fn starting(&self) -> Starting<'_> {
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
    pub(super) fn leave(&self) {
        self.control.lock().request = ScanRequest::Leave;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !thread.is_current()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    pub(super) fn wait(&self) -> ScanRequest {
        let mut control = self.control.lock();
        while control.request == ScanRequest::Pause {
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
