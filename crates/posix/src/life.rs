//! References, and the end of files without names.
//!
//! A file whose last name goes while someone has it open, or which has a directory of extended
//! attributes, is listed in the unlinked set, in the same transaction. The last reference frees it
//! and takes it off the list; what a crash left there is freed after the next mount.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::invariant::Findings;
use base::{ObjectId, Txg, invariant};
use dmu::{DmuError, Object, Tx, Zap};
use format::sa::Attribute;
use intent::Completion;

use crate::core::{Core, Plan};
use crate::names::unpack_entry;
use crate::tunables::{TOUCHED_MAX, XATTR_FILES_TXG};
use crate::znode::{Form, State, Znode};
use crate::{OpenOptions, PosixError, Result, flags};

impl Znode {
    /// Whether someone has it open.
    pub(crate) fn is_referenced(&self) -> bool {
        self.references.load(Ordering::Relaxed) != 0
    }

    /// Whether the file is to be freed, or has been: it has no name, gets none any more, and nobody has it open. Of its
    /// contents and attributes a part may have gone.
    pub(crate) fn is_doomed(&self, state: &State) -> bool {
        state.freed || state.links == 0 && !state.unnamed && !self.is_referenced()
    }

    /// Fails when the file is to be freed.
    pub(crate) fn kept<'a>(&self, state: &'a State) -> Result<&'a State> {
        if self.is_doomed(state) {
            Err(PosixError::Stale)
        } else {
            Ok(state)
        }
    }
}

/// One thread at a time frees a file.
struct Freeing<'a>(&'a Znode);

impl<'a> Freeing<'a> {
    /// None when another thread is at it.
    fn begin(znode: &'a Znode) -> Option<Self> {
        if znode.freeing.swap(true, Ordering::Acquire) {
            return None;
        }
        Some(Self(znode))
    }
}

impl Drop for Freeing<'_> {
    fn drop(&mut self) {
        self.0.freeing.store(false, Ordering::Release);
    }
}

impl Core {
    /// Takes references: the file is not freed while there are any.
    pub(crate) fn retain(&self, znode: &Znode, count: u32) -> Result<()> {
        let state = znode.state.write();
        znode.kept(&state)?;
        znode.references.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// Gives references back; the last one frees a file that has no name.
    pub(crate) fn release(&self, znode: &Arc<Znode>, count: u32) {
        let (last, ends) = {
            let mut state = znode.state.write();
            let before = znode.references.load(Ordering::Relaxed);
            let left = before.saturating_sub(count);
            znode.references.store(left, Ordering::Relaxed);
            // Who would name it now has come too late.
            state.unnamed &= left != 0;
            (left == 0, state.links == 0 && !state.freed)
        };
        // What cannot be done now stays on the list of unlinked files.
        if last && ends {
            self.finish(znode, true);
        } else if last && self.touched.lock().len() >= TOUCHED_MAX.count() {
            self.store_access_times();
        }
    }

    /// The list of files without names.
    pub(crate) fn unlinked_set(&self) -> Result<Zap> {
        Ok(Zap::open(&self.object(self.master.unlinked_set)?)?)
    }

    /// Frees a file that lost its last name in an earlier transaction, when it `lingers`. What
    /// cannot be done now stays on the list of unlinked files; what is long is left to the thread for that, and by a
    /// replay to the mount.
    pub(crate) fn finish(&self, znode: &Arc<Znode>, lingers: bool) {
        if !lingers || self.is_long(znode) && (self.replaying || self.free_later(znode.id())) {
            return;
        }
        let _ = self.free_unlinked(znode);
    }

    /// Frees a file that is on the list, unless someone has it open, or frees it already; says whether it did.
    ///
    /// What its directory of extended attributes holds is freed in several transactions, by number. Were there two at
    /// it, one's numbers could belong to new files of somebody else by then.
    pub(crate) fn free_unlinked(&self, znode: &Arc<Znode>) -> Result<bool> {
        loop {
            let Some(freeing) = Freeing::begin(znode) else {
                return Ok(false);
            };
            let freed = self.free_alone(znode)?;
            drop(freeing);
            // Who closed it last since then found this thread at it, and left it to this thread.
            let state = znode.state.read();
            if freed || state.freed || !znode.is_doomed(&state) {
                return Ok(freed);
            }
        }
    }

    fn free_alone(&self, znode: &Arc<Znode>) -> Result<bool> {
        {
            let state = znode.state.read();
            if state.freed || !znode.is_doomed(&state) {
                return Ok(false);
            }
        }
        // Attributes that were being set are there now, and no others come.
        drop(znode.names.write());
        let extended = znode.state.read().xattr;
        if extended.0 != 0 {
            self.empty_xattr_directory(extended)?;
        }
        let Some(freed_blocks) = self.free_all_but_one(znode)? else {
            return Ok(false);
        };
        let tx = self.begin(Plan {
            names: 1,
            objects: 3,
            net_free: true,
            freed_blocks,
            ..Plan::default()
        })?;
        let mut state = znode.state.write();
        if state.freed || !znode.is_doomed(&state) {
            return Ok(false);
        }
        let list = self.outside_list(znode, &state)?;
        let extended = match state.xattr {
            ObjectId(0) => None,
            extended => Some(self.object(extended)?),
        };
        // The first change, and the last that can fail.
        match self.unlinked_set()?.remove_int(&tx, znode.id().0) {
            Ok(()) | Err(DmuError::NoSuchEntry { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        if let Some(extended) = extended {
            self.store.objects.free(&tx, extended.id())?;
            self.table.remove(extended.id());
        }
        self.free(&tx, znode, &mut state, list.as_deref())?;
        Ok(true)
    }

    /// Whether freeing the file is one step, and no long one.
    pub(crate) fn can_free_at_once(&self, znode: &Znode, state: &State) -> bool {
        state.xattr.0 == 0 && self.cost_at_once(znode).is_some()
    }

    /// The object of a file's access list, where an old file keeps one outside: [`Core::free`] does not read it then.
    pub(crate) fn outside_list(&self, znode: &Znode, state: &State) -> Result<Option<Arc<Object>>> {
        if state.form != Form::Legacy {
            return Ok(None);
        }
        match znode.legacy()?.acl_object {
            ObjectId(0) => Ok(None),
            list => Ok(Some(self.object(list)?)),
        }
    }

    /// Frees the object of a file that has no name, and its access list outside of it; the caller holds its state.
    pub(crate) fn free(
        &self,
        tx: &Tx,
        znode: &Znode,
        state: &mut State,
        list: Option<&Object>,
    ) -> Result<()> {
        if let Some(writing) = self.writing_parts() {
            let references = znode.references.load(Ordering::Relaxed);
            let users = (state.links, references);
            check_unused(writing.engine.findings(), znode.id(), users, state.freed);
        }
        if let Some(list) = list {
            self.store.objects.free(tx, list.id())?;
        }
        self.store.objects.free(tx, znode.id())?;
        state.freed = true;
        self.table.remove(znode.id());
        Ok(())
    }

    /// Frees the files in a directory of extended attributes, some a transaction.
    fn empty_xattr_directory(&self, directory: ObjectId) -> Result<()> {
        let max = XATTR_FILES_TXG.count();
        let zap = Zap::open(&self.object(directory)?)?;
        loop {
            let mut cursor = zap.cursor(0);
            let mut batch = Vec::new();
            while let Some(entry) = cursor.next_entry()? {
                batch.push((entry.name, unpack_entry(entry.value).0));
                if batch.len() == max {
                    break;
                }
            }
            if batch.is_empty() {
                return Ok(());
            }
            let mut freed_blocks = 0u64;
            // In memory until they are freed: once the name is gone, nobody finds what could not be freed.
            let mut objects = Vec::new();
            for (_, object) in &batch {
                match self.object(*object) {
                    Ok(object) => {
                        freed_blocks = freed_blocks.saturating_add(self.shorten(&object)?);
                        objects.push(object);
                    }
                    Err(PosixError::Storage(DmuError::NoSuchObject { .. })) => {}
                    Err(error) => return Err(error),
                }
            }
            let tx = self.begin(Plan {
                names: max as u32,
                objects: max as u32,
                net_free: true,
                freed_blocks,
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

    /// Frees what the list of unlinked files holds and nobody has open. What of it is damaged stays on the
    /// list; what is long, a replay leaves to the mount.
    pub(crate) fn drain_unlinked(&self) -> Result<u64> {
        self.writing()?;
        let mut freed = 0;
        let mut cursor = self.unlinked_set()?.cursor(0);
        while let Some(entry) = cursor.next_entry()? {
            match self.drain_entry(&entry.name, ObjectId(entry.value)) {
                Ok(was_freed) => freed += u64::from(was_freed),
                Err(error) if error.is_damage() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(freed)
    }

    /// Frees the file of an entry of the list, if nobody has it open; says whether it did.
    fn drain_entry(&self, name: &[u8], object: ObjectId) -> Result<bool> {
        let znode = match self.znode(object) {
            Ok(znode) => znode,
            Err(PosixError::Stale) => {
                self.forget_unlinked(name, object)?;
                return Ok(false);
            }
            // An object that cannot be read: freeing it would lose track.
            Err(_) => return Ok(false),
        };
        let is_garbage = {
            let state = znode.state.read();
            !state.freed && !znode.is_referenced() && (znode.is_doomed(&state) || is_xattr(&state))
        };
        if !is_garbage || !self.is_listed(name, &znode)? {
            return Ok(false);
        }
        if is_xattr(&znode.state.read()) && !self.end_xattr_directory(name, &znode)? {
            return Ok(false);
        }
        if self.is_long(&znode) {
            if self.replaying {
                let extended = znode.state.read().xattr;
                if extended.0 != 0 {
                    self.empty_xattr_directory(extended)?;
                }
                return Ok(false);
            }
            if self.free_later(znode.id()) {
                return Ok(false);
            }
        }
        self.free_unlinked(&znode)
    }

    /// Whether the entry of the list is this file's. Since it was read, the file that it meant may have been freed, and
    /// its number may be another one's: a new file's that is not listed yet, or a directory's of attributes in use.
    /// A file that is listed is in the table before, and leaves both in one transaction; no other has its number before
    /// that has synced.
    fn is_listed(&self, name: &[u8], znode: &Arc<Znode>) -> Result<bool> {
        if self.unlinked_set()?.lookup(name)?.is_none() {
            return Ok(false);
        }
        match self.znode(znode.id()) {
            Ok(now) => Ok(Arc::ptr_eq(&now, znode)),
            Err(PosixError::Stale) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Empties a listed directory of extended attributes, whose file is gone, so that it can be freed as a file is;
    /// false when others are at it, or have been.
    fn end_xattr_directory(&self, name: &[u8], znode: &Arc<Znode>) -> Result<bool> {
        let Some(_freeing) = Freeing::begin(znode) else {
            return Ok(false);
        };
        if !self.is_listed(name, znode)? {
            return Ok(false);
        }
        if znode.state.read().links != 0 {
            self.empty_xattr_directory(znode.id())?;
            znode.state.write().links = 0;
        }
        Ok(true)
    }

    /// Puts a file on the list of those without names.
    pub(crate) fn list_unlinked(&self, tx: &Tx, object: ObjectId) -> Result<()> {
        let set = self.unlinked_set()?;
        let _list = self.unlinked.lock();
        Ok(set.add_int(tx, object.0, object.0)?)
    }

    /// Takes an entry off the list whose file is not there. Since it was read, a new file may have got the number, and
    /// been put on the list.
    fn forget_unlinked(&self, name: &[u8], object: ObjectId) -> Result<()> {
        let tx = self.begin(Plan {
            names: 1,
            net_free: true,
            ..Plan::default()
        })?;
        let set = self.unlinked_set()?;
        let _list = self.unlinked.lock();
        match self.store.objects.object(object) {
            Err(DmuError::NoSuchObject { .. }) => {}
            Ok(_) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        match set.remove(&tx, name) {
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
            Some(log) => log.commit(znode.id(), Some(changed))?,
            None => return Ok(()),
        }
        self.check_written()
    }

    /// The same for a caller without a thread; false: it takes one.
    pub(crate) fn fsync_async(&self, znode: &Znode, completion: &Arc<dyn Completion>) -> bool {
        if self.properties().sync_disabled {
            completion.committed(true);
            return true;
        }
        self.log()
            .is_some_and(|log| log.commit_async(znode.id(), completion))
    }

    /// Stores the access times that were kept in memory. Nothing fails for their sake: where there is no room, or a
    /// file is damaged, those on disk stay as they are until files are read again.
    fn store_access_times(&self) {
        let touched = std::mem::take(&mut *self.touched.lock());
        for some in touched.chunks(TOUCHED_MAX.count()) {
            let tx = self.begin(Plan {
                objects: some.len() as u32,
                ..Plan::default()
            });
            for znode in some {
                let mut state = znode.state.write();
                let moved = znode.atime_moved.swap(false, Ordering::Relaxed);
                if let Ok(tx) = &tx
                    && moved
                    && !state.freed
                {
                    let _ = znode.store(tx, &self.store, &mut state, &[Attribute::Atime]);
                }
            }
        }
    }

    /// Stores all access times kept in memory, refuses changes from then on, and waits for everything to be durable.
    ///
    /// Whoever still works on the file system changes nothing once this is done, though others may have it by then: a
    /// transaction looks at `ended` when it holds its txg, and all that held one before have ended when that has
    /// synced.
    pub(crate) fn end(&self) -> Result<()> {
        let Ok(writing) = self.writing() else {
            // What forbids changes now may be lifted.
            self.ended.store(true, Ordering::SeqCst);
            return Ok(());
        };
        if self.store.objects.is_stopped() {
            self.ended.store(true, Ordering::SeqCst);
            return Ok(());
        }
        self.store_access_times();
        self.ended.store(true, Ordering::SeqCst);
        writing.engine.wait_synced(None)?;
        self.check_written()
    }

    /// Refuses to say that something is durable when the object set was taken out of service meanwhile.
    fn check_written(&self) -> Result<()> {
        if self.store.objects.is_stopped() {
            return Err(PosixError::Unwritten);
        }
        Ok(())
    }

    /// Waits until all changes so far are durable.
    pub(crate) fn sync(&self) -> Result<()> {
        match self.writing() {
            Ok(writing) => writing.engine.wait_synced(None)?,
            Err(_) => return Ok(()),
        }
        self.check_written()
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

/// A file that is freed has no name, nobody has it open, and it was not freed before: else its number comes to be
/// another's while somebody still goes by it.
fn check_unused(findings: &Findings, id: ObjectId, users: (u64, u32), is_freed: bool) {
    let (links, references) = users;
    invariant!(
        findings,
        links == 0 && references == 0 && !is_freed,
        "posix.freed",
        "file {id} is freed, and has {links} names, {references} references{}",
        if is_freed {
            ", and was freed before"
        } else {
            ""
        }
    );
}

fn is_xattr(state: &State) -> bool {
    state.has(crate::znode::internal_flags::XATTR)
}

#[cfg(test)]
mod tests;
