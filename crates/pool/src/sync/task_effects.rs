//! What a task of the dataset layer asks of the pool beside changes of objects: done when the task is, or forgotten.

use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};
use format::BlockPointer;
use format::intent_log::LogHeader;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mos::features::Counts;
use crate::scan::control::{Scrub, Way};

static EFFECTS: LockClass = LockClass::new("pool.task_effects", rank::LAST + 6);

/// The task under way, if there is one.
pub(crate) struct TaskEffects {
    /// Looked at without the lock: most blocks are freed while there is none.
    under_way: AtomicBool,
    waiting: Mutex<Waiting>,
}

/// What a task asked for.
#[derive(Default)]
pub(crate) struct Waiting {
    pub(crate) freed: Vec<BlockPointer>,
    pub(crate) shared: Vec<BlockPointer>,
    /// Heads whose intent logs end.
    pub(crate) logs: Vec<(ObjectId, LogHeader)>,
    /// How features were counted before.
    pub(crate) counts: Option<Counts>,
    /// Where the scrub was before.
    pub(crate) scrub: Option<Way>,
}

impl TaskEffects {
    pub(crate) fn new() -> Self {
        Self {
            under_way: AtomicBool::new(false),
            waiting: Mutex::new(&EFFECTS, Waiting::default()),
        }
    }

    /// A task begins; features are counted so before.
    pub(crate) fn begin(&self, counts: Counts) {
        let waiting = Waiting {
            counts: Some(counts),
            ..Waiting::default()
        };
        *self.waiting.lock() = waiting;
        self.under_way.store(true, Ordering::Release);
    }

    /// The task ends: what it asked for.
    pub(crate) fn end(&self) -> Waiting {
        self.under_way.store(false, Ordering::Release);
        std::mem::take(&mut *self.waiting.lock())
    }

    /// Keeps where the scrub was before the task.
    pub(crate) fn comes_from(&self, scrub: &Scrub) {
        if self.under_way.load(Ordering::Acquire) {
            let way = scrub.way();
            self.waiting.lock().scrub.get_or_insert(way);
        }
    }

    /// Notes something if a task is under way.
    fn note(&self, note: impl FnOnce(&mut Waiting)) -> bool {
        let under_way = self.under_way.load(Ordering::Acquire);
        if under_way {
            note(&mut self.waiting.lock());
        }
        under_way
    }

    /// Whether a freed block waits for the end of a task.
    pub(crate) fn frees(&self, pointer: &BlockPointer) -> bool {
        self.note(|waiting| waiting.freed.push(*pointer))
    }

    /// Whether a shared block waits for the end of a task.
    pub(crate) fn shares(&self, pointer: &BlockPointer) -> bool {
        self.note(|waiting| waiting.shared.push(*pointer))
    }

    /// Whether the end of a log waits for the end of a task.
    pub(crate) fn ends_log(&self, head: ObjectId, header: &LogHeader) -> bool {
        self.note(|waiting| waiting.logs.push((head, header.clone())))
    }
}
