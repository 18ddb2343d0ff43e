//! Changes of one object set that can be undone: what a transaction of syncing context did is kept for good, or is
//! as if it had never been.
//!
//! Before the first change of an object its state is noted, with the form of a ZAP that it is; undoing puts the notes
//! back, the newest first. Data are shared with the notes until they are changed. Layers above add what they change in
//! core beside. For one thread at a time: nobody else changes the object set meanwhile.

use std::cell::RefCell;
use std::collections::BTreeSet;

use base::{ObjectId, ObjectSetId};

type Step = Box<dyn FnOnce() + Send>;

/// What it takes to undo a transaction, and what waits for its success.
pub(crate) struct Stage {
    object_set: ObjectSetId,
    steps: RefCell<Steps>,
}

#[derive(Default)]
struct Steps {
    noted: BTreeSet<ObjectId>,
    undo: Vec<Step>,
    success: Vec<Step>,
    /// Changes that may still be made: for tests of what undoes.
    left: Option<u64>,
}

impl Stage {
    pub(crate) fn new(object_set: ObjectSetId) -> Self {
        Self {
            object_set,
            steps: RefCell::default(),
        }
    }

    /// The object set whose changes are noted.
    pub(crate) const fn object_set(&self) -> ObjectSetId {
        self.object_set
    }

    /// Has `step` done when it is undone.
    pub(crate) fn on_undo(&self, step: Step) {
        self.steps.borrow_mut().undo.push(step);
    }

    /// Has `step` done when it is kept.
    pub(crate) fn on_success(&self, step: Step) {
        self.steps.borrow_mut().success.push(step);
    }

    /// Has every change after so many more fail.
    pub(crate) fn interrupt_after(&self, changes: u64) {
        self.steps.borrow_mut().left = Some(changes);
    }

    /// Whether this is the first time that an object is to be changed.
    pub(crate) fn notes(&self, id: ObjectId) -> bool {
        self.steps.borrow_mut().noted.insert(id)
    }

    /// Counts a change; false when it is one too many.
    pub(crate) fn count(&self) -> bool {
        let left = &mut self.steps.borrow_mut().left;
        match left {
            Some(0) => false,
            Some(count) => {
                *count -= 1;
                true
            }
            None => true,
        }
    }

    pub(crate) fn undo(self) {
        let steps = self.steps.into_inner();
        steps.undo.into_iter().rev().for_each(|step| step());
    }

    pub(crate) fn keep(self) {
        let steps = self.steps.into_inner();
        steps.success.into_iter().for_each(|step| step());
    }
}
