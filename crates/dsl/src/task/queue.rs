//! The tasks that wait for their txgs to sync.

use std::sync::Arc;

use base::Txg;
use base::lock::{LockClass, Mutex, rank};

use crate::services::SyncPass;

static TASKS: LockClass = LockClass::new("dsl.tasks", rank::LAST + 3);

/// A change of a `Tree` that waits.
pub(super) trait QueuedTask<Tree>: Send {
    /// Checks it and makes it, and answers who waits for it.
    fn run(&mut self, tree: &Arc<Tree>, pass: &SyncPass<'_>);
}

/// Of each txg in flight the tasks, in the order in which they were queued.
pub(crate) struct TaskQueue<Tree> {
    slots: Mutex<[Vec<Box<dyn QueuedTask<Tree>>>; Txg::SLOTS]>,
}

impl<Tree> TaskQueue<Tree> {
    pub(crate) fn new() -> Self {
        Self {
            slots: Mutex::new(&TASKS, Default::default()),
        }
    }

    /// Whether none wait for `txg`.
    pub(crate) fn is_empty(&self, txg: Txg) -> bool {
        self.slots.lock()[txg.slot()].is_empty()
    }

    /// The caller holds `txg` open.
    pub(super) fn push(&self, txg: Txg, task: Box<dyn QueuedTask<Tree>>) {
        self.slots.lock()[txg.slot()].push(task);
    }

    /// Those of `txg`, which wait no more.
    pub(super) fn take(&self, txg: Txg) -> Vec<Box<dyn QueuedTask<Tree>>> {
        std::mem::take(&mut self.slots.lock()[txg.slot()])
    }
}
