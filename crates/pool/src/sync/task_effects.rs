//! What a task of the dataset layer asks of the pool beside changes of objects: done when the task is, or forgotten.

use base::lock::{LockClass, Mutex, rank};
use base::{ObjectId, Txg};
use dsl::{Services, Succession};
use format::BlockPointer;
use format::intent_log::LogHeader;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::mos::features::Counts;
use crate::pool::services::PoolServices;
use crate::scan::control::Way;

static EFFECTS: LockClass = LockClass::new("pool.task_effects", rank::LAST + 6);

/// The task under way, if there is one.
pub(crate) struct TaskEffects {
    /// Looked at without the lock: most blocks are freed while there is none.
    under_way: AtomicBool,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    freed: Vec<BlockPointer>,
    shared: Vec<BlockPointer>,
    /// Heads whose intent logs end.
    logs: Vec<(ObjectId, LogHeader)>,
    /// How features were counted before.
    counts: Option<Counts>,
    /// Where the scrub was before.
    scrub: Option<Way>,
}

impl TaskEffects {
    pub(crate) fn new() -> Self {
        Self {
            under_way: AtomicBool::new(false),
            waiting: Mutex::new(&EFFECTS, Waiting::default()),
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

impl PoolServices {
    pub(crate) fn begin_effects(&self) {
        let waiting = Waiting {
            counts: Some(self.features.counts()),
            ..Waiting::default()
        };
        *self.task.waiting.lock() = waiting;
        self.events.begin_task();
        self.task.under_way.store(true, Ordering::Release);
    }

    pub(crate) fn end_effects(&self, txg: Txg, done: bool) {
        self.task.under_way.store(false, Ordering::Release);
        let waiting = std::mem::take(&mut *self.task.waiting.lock());
        self.events.end_task(done);
        if !done {
            return self.undo_effects(waiting);
        }
        waiting
            .shared
            .iter()
            .for_each(|pointer| self.shares(pointer));
        for (head, header) in &waiting.logs {
            self.end_intent_log(txg, *head, header);
        }
        waiting
            .freed
            .iter()
            .for_each(|pointer| self.free(txg, pointer));
    }

    fn undo_effects(&self, waiting: Waiting) {
        if let Some(counts) = waiting.counts
            && self.features.restore(counts)
        {
            self.update_label_features();
        }
        if let (Some(way), Some(scrub)) = (waiting.scrub, &self.scrub) {
            scrub.go_back(way);
        }
    }

    /// The scrub follows a change of the datasets; whether there is one.
    pub(crate) fn scrub_follows(&self, succession: Succession) -> bool {
        let Some(scrub) = &self.scrub else {
            return false;
        };
        if self.task.under_way.load(Ordering::Acquire) {
            let way = scrub.way();
            self.task.waiting.lock().scrub.get_or_insert(way);
        }
        scrub.follow(succession)
    }
}

#[cfg(test)]
mod tests;
