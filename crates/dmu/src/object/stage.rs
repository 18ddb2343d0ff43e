//! Noting what an object is before a transaction that can be undone changes it, and putting that back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::Txg;

use super::Object;
use super::state::SlotState;
use crate::dnode_header::DnodeHeader;
use crate::error::{DmuError, Result};
use crate::tx::Tx;
use crate::zap::Form;

/// An object before a transaction changed it.
struct Before {
    header: DnodeHeader,
    block_size: u32,
    slot: Option<Box<SlotState>>,
    form: Option<Form>,
}

impl Object {
    /// Called before each change, without a lock of the object: notes what undoing it takes.
    pub(crate) fn stage(self: &Arc<Self>, tx: &Tx) -> Result<()> {
        let Some(stage) = tx
            .stage()
            .filter(|stage| stage.object_set() == self.object_set())
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
            stage.on_undo(Box::new(move || object.restore(txg, before)));
        }
        Ok(())
    }

    /// Reads the block of dnodes that the object is in.
    ///
    /// # Errors
    /// It cannot be read: no change of the object could be written.
    pub fn prepare_change(&self) -> Result<()> {
        self.shared.read_dnodes_of(self.id).map(|_| ())
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
            zap.restored();
            drop(writer);
        }
        if leaves {
            self.withdraw(txg);
        }
    }
}
