//! Changes of one object set that can be undone: what a transaction of syncing context did is kept for good, or is
//! as if it had never been.
//!
//! Before the first change of an object its state is noted, with the form of a ZAP that it is; undoing puts the notes
//! back, the newest first. Data are shared with the notes until they are changed. Layers above add what they change in
//! core beside. For one thread at a time: nobody else changes the object set meanwhile.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{ObjectId, ObjectSetId, Txg};

use crate::dnode_header::DnodeHeader;
use crate::error::{DmuError, Result};
use crate::object::{Object, SlotState};
use crate::tx::Tx;
use crate::zap::Form;

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

/// An object before a transaction changed it.
struct Before {
    header: DnodeHeader,
    block_size: u32,
    slot: Option<Box<SlotState>>,
    form: Option<Form>,
}

impl Stage {
    pub(crate) fn new(object_set: ObjectSetId) -> Self {
        Self {
            object_set,
            steps: RefCell::default(),
        }
    }

    fn push_undo(&self, step: Step) {
        self.steps.borrow_mut().undo.push(step);
    }

    /// Whether this is the first time that an object is to be changed.
    fn notes(&self, id: ObjectId) -> bool {
        self.steps.borrow_mut().noted.insert(id)
    }

    /// Counts a change; false when it is one too many.
    fn count(&self) -> bool {
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

impl Tx {
    /// Has `step` done when this transaction is undone; later ones first. Nothing happens with one that cannot be.
    pub fn on_undo(&self, step: impl FnOnce() + Send + 'static) {
        if let Some(stage) = self.stage() {
            stage.push_undo(Box::new(step));
        }
    }

    /// Has `step` done when this transaction is kept: at once with one that cannot be undone.
    pub fn on_success(&self, step: impl FnOnce() + Send + 'static) {
        match self.stage() {
            Some(stage) => stage.steps.borrow_mut().success.push(Box::new(step)),
            None => step(),
        }
    }

    /// Has every change after so many more fail, if this transaction can be undone: for tests of what undoes it.
    pub fn interrupt_after(&self, changes: u64) {
        if let Some(stage) = self.stage() {
            stage.steps.borrow_mut().left = Some(changes);
        }
    }
}

impl Object {
    /// Called before each change, without a lock of the object: notes what undoing it takes.
    pub(crate) fn stage(self: &Arc<Self>, tx: &Tx) -> Result<()> {
        let Some(stage) = tx
            .stage()
            .filter(|stage| stage.object_set == self.object_set())
        else {
            return Ok(());
        };
        if !stage.count() {
            return Err(DmuError::Interrupted {
                object_set: self.object_set(),
                object: self.id(),
            });
        }
        if stage.notes(self.id()) {
            let form = self.zap.get().map(|zap| zap.form.read().clone());
            let before = self.before(tx.txg(), form);
            let (object, txg) = (Arc::clone(self), tx.txg());
            stage.push_undo(Box::new(move || object.restore(txg, before)));
        }
        Ok(())
    }

    fn before(&self, txg: Txg, form: Option<Form>) -> Before {
        let state = self.state.read();
        Before {
            header: state.header.clone(),
            block_size: self.block_size(),
            slot: state.slot(txg).map(|slot| Box::new(slot.clone())),
            form,
        }
    }

    /// Makes the object what it was before `txg` changed it.
    fn restore(self: Arc<Self>, txg: Txg, before: Before) {
        let Before {
            header,
            block_size,
            slot,
            form,
        } = before;
        let zap = self.zap.get().map(|zap| (zap, zap.writer.lock()));
        let mut known = zap.as_ref().map(|(zap, _)| zap.form.write());
        let mut state = self.state.write();
        let leaves = slot.is_none() && state.slot(txg).is_some();
        state.header = header;
        state.slots[txg.slot()] = slot;
        self.block_size.store(block_size, Ordering::Relaxed);
        drop(state);
        if let Some(known) = &mut known {
            **known = form.unwrap_or(Form::Unknown);
        }
        drop(known);
        if let Some((zap, writer)) = zap {
            zap.moved();
            drop(writer);
        }
        if leaves {
            self.withdraw(txg);
        }
    }
}
