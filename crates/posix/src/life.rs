//! References, and the end of files without names.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::Result;
use crate::core::Core;
use crate::znode::Znode;

impl Core {
    /// Takes references: the file is not freed while there are any.
    pub(crate) fn retain(&self, znode: &Znode, count: u32) -> Result<()> {
        let state = znode.state.write();
        znode.alive(&state)?;
        znode.references.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Gives references back; the last one frees a file that has no name.
    pub(crate) fn release(&self, znode: &Arc<Znode>, count: u32) {
        let state = znode.state.write();
        let before = znode.references.load(Ordering::Relaxed);
        znode
            .references
            .store(before.saturating_sub(count), Ordering::Relaxed);
        drop(state);
    }

    /// Waits until all changes of a file are durable.
    pub(crate) fn fsync(&self, znode: &Znode) -> Result<()> {
        let changed = znode.changed_txg();
        match self.writing() {
            Ok(writing) if changed.0 != 0 && !self.properties().sync_disabled => {
                writing.log.commit(znode.id(), changed)
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn check_open_for_writing(&self, _: &Znode, _: crate::OpenOptions) -> Result<()> {
        self.writing().map(|_| ())
    }

    pub(crate) fn truncate(&self, _: &Arc<Znode>, _: u64) -> Result<()> {
        unimplemented!()
    }
}
