//! References, and the end of files without names.
//!
//! A file whose last name goes while someone has it open, or which has a directory of extended
//! attributes, is listed in the unlinked set, in the same transaction. The last reference frees it
//! and takes it off the list; what a crash left there is freed after the next mount.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::{ObjectId, Txg};
use dmu::{DmuError, Tx, Zap};
use format::sa::Attribute;
use intent::Asker;

use crate::core::{Core, Plan};
use crate::names::unpack_entry;
use crate::znode::{Form, State, Znode};
use crate::{OpenOptions, PosixError, Result, flags};

/// How many files' access times are stored in one transaction.
const TOUCHED_MAX: usize = 256;

impl Znode {
    /// Whether someone has it open.
    pub(crate) fn is_referenced(&self) -> bool {
        self.references.load(Ordering::Relaxed) != 0
    }
}

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
        let (last, ends) = {
            let state = znode.state.write();
            let before = znode.references.load(Ordering::Relaxed);
            let left = before.saturating_sub(count);
            znode.references.store(left, Ordering::Relaxed);
            (left == 0, state.links == 0 && !state.freed)
        };
        // What cannot be done now stays on the list of unlinked files.
        if last && ends {
            let _ = self.free_unlinked(znode);
        } else if last && self.touched.lock().len() >= TOUCHED_MAX {
            let _ = self.store_access_times();
        }
    }

    /// The list of files without names.
    pub(crate) fn unlinked_set(&self) -> Result<Zap> {
        Ok(Zap::open(&self.object(self.master.unlinked_set)?)?)
    }

    /// Frees a file that lost its last name in an earlier transaction, when it `lingers`. What
    /// cannot be done now stays on the list of unlinked files.
    pub(crate) fn finish(&self, znode: &Arc<Znode>, lingers: bool) {
        if lingers {
            let _ = self.free_unlinked(znode);
        }
    }

    /// Frees a file that is on the list, unless someone opened or linked it meanwhile.
    fn free_unlinked(&self, znode: &Arc<Znode>) -> Result<()> {
        let extended = znode.state.read().xattr;
        if extended.0 != 0 {
            self.empty_xattr_directory(extended)?;
        }
        let tx = self.begin(Plan {
            names: 1,
            objects: 3,
            net_free: true,
            ..Plan::default()
        })?;
        let mut state = znode.state.write();
        if state.freed || state.links != 0 || znode.is_referenced() {
            return Ok(());
        }
        match self.unlinked_set()?.remove_int(&tx, znode.id().0) {
            Ok(()) | Err(DmuError::NoSuchEntry { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if state.xattr.0 != 0 {
            self.store.objects.free(&tx, state.xattr)?;
            self.table.remove(state.xattr);
        }
        self.free(&tx, znode, &mut state)
    }

    /// Whether freeing the file is one step.
    pub(crate) fn can_free_at_once(&self, state: &State) -> bool {
        state.xattr.0 == 0
    }

    /// Frees the object of a file that has no name; the caller holds its state.
    pub(crate) fn free(&self, tx: &Tx, znode: &Znode, state: &mut State) -> Result<()> {
        if state.form == Form::Legacy {
            let list = znode.legacy()?.acl_object;
            if list.0 != 0 {
                self.store.objects.free(tx, list)?;
            }
        }
        self.store.objects.free(tx, znode.id())?;
        state.freed = true;
        self.table.remove(znode.id());
        Ok(())
    }

    /// Frees the files in a directory of extended attributes, some a transaction.
    fn empty_xattr_directory(&self, directory: ObjectId) -> Result<()> {
        const BATCH: usize = 32;
        let zap = Zap::open(&self.object(directory)?)?;
        loop {
            let mut cursor = zap.cursor(0);
            let mut batch = Vec::new();
            while let Some(entry) = cursor.next_entry()? {
                batch.push((entry.name, unpack_entry(entry.value).0));
                if batch.len() == BATCH {
                    break;
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            let tx = self.begin(Plan {
                names: BATCH as u32,
                objects: BATCH as u32,
                net_free: true,
                ..Plan::default()
            })?;
            for (name, object) in batch {
                zap.remove(&tx, &name)?;
                match self.store.objects.free(&tx, object) {
                    Ok(()) | Err(DmuError::NoSuchObject { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
                self.table.remove(object);
            }
        }
    }

    /// Frees what the list of unlinked files holds and nobody has open.
    pub(crate) fn drain_unlinked(&self) -> Result<u64> {
        self.writing()?;
        let mut freed = 0;
        for entry in self.unlinked_set()?.entries()? {
            let znode = match self.znode(ObjectId(entry.value)) {
                Ok(znode) => znode,
                // An object that is gone, or that cannot be read: freeing it would lose track.
                Err(PosixError::Stale) => {
                    self.forget_unlinked(&entry.name)?;
                    continue;
                }
                Err(_) => continue,
            };
            let is_garbage = {
                let state = znode.state.read();
                !state.freed && !znode.is_referenced() && (state.links == 0 || is_xattr(&state))
            };
            if !is_garbage {
                continue;
            }
            if znode.state.read().links != 0 {
                self.empty_xattr_directory(znode.id())?;
                znode.state.write().links = 0;
            }
            self.free_unlinked(&znode)?;
            freed += 1;
        }
        Ok(freed)
    }

    fn forget_unlinked(&self, name: &[u8]) -> Result<()> {
        let tx = self.begin(Plan {
            names: 1,
            net_free: true,
            ..Plan::default()
        })?;
        match self.unlinked_set()?.remove(&tx, name) {
            Ok(()) | Err(DmuError::NoSuchEntry { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits until all changes of a file are durable.
    pub(crate) fn fsync(&self, znode: &Znode) -> Result<()> {
        if self.properties().sync_disabled {
            return Ok(());
        }
        // This copy of the file may be younger than the change.
        let dirty = znode.object.dirty_txg().unwrap_or(Txg(0));
        let changed = znode.changed_txg().max(dirty);
        match self.log() {
            Some(log) => log.commit(znode.id(), Some(changed)),
            None => Ok(()),
        }
    }

    /// The same for a caller without a thread; false: it takes one.
    pub(crate) fn fsync_absent(&self, znode: &Znode, asker: &Arc<dyn Asker>) -> bool {
        if self.properties().sync_disabled {
            asker.committed(true);
            return true;
        }
        self.log()
            .is_some_and(|log| log.commit_absent(znode.id(), asker))
    }

    /// Stores the access times that were kept in core.
    fn store_access_times(&self) -> Result<()> {
        let touched = std::mem::take(&mut *self.touched.lock());
        for some in touched.chunks(TOUCHED_MAX) {
            let tx = self.begin(Plan {
                objects: some.len() as u32,
                ..Plan::default()
            })?;
            for znode in some {
                let mut state = znode.state.write();
                if znode.atime_moved.swap(false, Ordering::Relaxed) && !state.freed {
                    znode.store(&tx, &self.store, &mut state, &[Attribute::Atime])?;
                }
            }
        }
        Ok(())
    }

    /// Stores all access times kept in core, and waits for everything to be durable.
    pub(crate) fn end(&self) -> Result<()> {
        if self.writing().is_err() {
            return Ok(());
        }
        self.store_access_times()?;
        self.sync()?;
        self.ended.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Waits until all changes so far are durable.
    pub(crate) fn sync(&self) -> Result<()> {
        match self.writing() {
            Ok(writing) => Ok(writing.engine.wait_synced(None)?),
            Err(_) => Ok(()),
        }
    }

    /// Refuses writing to what must not change.
    pub(crate) fn check_open_for_writing(&self, znode: &Znode, options: OpenOptions) -> Result<()> {
        let state = znode.state.read();
        if !matches!(state.file_type(), crate::FileType::Regular) {
            return Ok(());
        }
        self.writing()?;
        let grows_only = state.has(flags::APPEND_ONLY) && (!options.append || options.truncate);
        if state.has(flags::IMMUTABLE | flags::READ_ONLY) || grows_only {
            return Err(PosixError::NotPermitted("the file is immutable"));
        }
        Ok(())
    }
}

fn is_xattr(state: &State) -> bool {
    state.has(crate::znode::internal_flags::XATTR)
}
