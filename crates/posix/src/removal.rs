//! Removing names, and replacing them by a rename.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::ObjectId;
use dmu::Tx;
use format::intent_log::Change;
use format::sa::Attribute;

use crate::core::{Core, Plan};
use crate::log::Scope;
use crate::lookup::Found;
use crate::names::is_dot;
use crate::nodes::EntryChange;
use crate::permission::check_sticky;
use crate::znode::{NamesWrite, State, Znode};
use crate::{Credentials, PosixError, Result, flags};

/// How often an operation starts over because a name came to mean something else meanwhile.
pub(crate) const TRIES_MAX: usize = 64;

impl Core {
    /// Removes the name of anything but a directory.
    pub(crate) fn unlink(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Arc<Znode>> {
        if is_dot(name) {
            return Err(PosixError::IsDirectory);
        }
        let parent = self.directory(directory)?;
        for _ in 0..TRIES_MAX {
            let (_, child) = self.find_child(who, &parent, name)?;
            if child.state.read().is_directory() {
                return Err(PosixError::IsDirectory);
            }
            self.check_removal(who, &parent, &child)?;
            let tx = self.begin(Plan {
                names: 3,
                objects: 4,
                net_free: true,
                freed_blocks: self.cost_at_once(&child).unwrap_or(0),
                ..Plan::default()
            })?;
            let names = parent.names.write();
            let Some(found) = self.find(&parent, name)?.filter(|f| f.is(&child)) else {
                continue;
            };
            self.entries(&parent)?.remove(&tx, found.stored(name))?;
            self.note_entry(
                &tx,
                &parent,
                EntryChange {
                    entries: -1,
                    subdirectories: 0,
                },
            )?;
            let lingers = self.drop_link(&tx, &child, 1)?;
            let change = Change::Remove {
                directory,
                name: found.stored(name),
                is_directory: false,
            };
            self.record(&tx, Scope::Names, &[change]);
            drop(names);
            drop(tx);
            self.finish(&child, lingers);
            return Ok(child);
        }
        Err(PosixError::Busy)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Arc<Znode>> {
        match name {
            b"." => return Err(PosixError::Invalid("removing a directory by a dot")),
            b".." => return Err(PosixError::NotEmpty),
            _ => {}
        }
        let parent = self.directory(directory)?;
        for _ in 0..TRIES_MAX {
            let (_, child) = self.find_child(who, &parent, name)?;
            if !child.state.read().is_directory() {
                return Err(PosixError::NotDirectory);
            }
            self.check_removal(who, &parent, &child)?;
            if !self.entries(&child)?.is_empty()? {
                return Err(PosixError::NotEmpty);
            }
            let tx = self.begin(Plan {
                names: 3,
                objects: 4,
                net_free: true,
                freed_blocks: self.cost_at_once(&child).unwrap_or(0),
                ..Plan::default()
            })?;
            let mut locked = Znode::lock_names(&[&parent, &child]);
            let Some(found) = self.find(&parent, name)?.filter(|f| f.is(&child)) else {
                continue;
            };
            if !self.entries(&child)?.is_empty()? {
                return Err(PosixError::NotEmpty);
            }
            self.entries(&parent)?.remove(&tx, found.stored(name))?;
            self.note_entry(
                &tx,
                &parent,
                EntryChange {
                    entries: -1,
                    subdirectories: -1,
                },
            )?;
            mark_removed(&mut locked, &child);
            let lingers = self.drop_link(&tx, &child, 2)?;
            let change = Change::Remove {
                directory,
                name: found.stored(name),
                is_directory: true,
            };
            self.record(&tx, Scope::Names, &[change]);
            drop(locked);
            drop(tx);
            self.finish(&child, lingers);
            return Ok(child);
        }
        Err(PosixError::Busy)
    }

    /// The entry and its file, with the directory's permissions checked.
    pub(crate) fn find_child(
        &self,
        who: &Credentials,
        parent: &Znode,
        name: &[u8],
    ) -> Result<(Found, Arc<Znode>)> {
        self.master.names.check(name, format::zap::NAME_LONG_MAX)?;
        self.check(who, parent, crate::Access::EXECUTE)?;
        let found = self.find(parent, name)?.ok_or(PosixError::NotFound)?;
        let child = self
            .znode(found.object)
            .map_err(PosixError::of_named_object)?;
        Ok((found, child))
    }

    /// Refuses the removal of an entry.
    pub(crate) fn check_removal(
        &self,
        who: &Credentials,
        parent: &Znode,
        child: &Znode,
    ) -> Result<()> {
        self.check_directory_change(who, parent, true)?;
        let (mode, uid) = {
            let state = parent.state.read();
            (state.mode, self.owner(&state).0)
        };
        let state = child.state.read();
        if self.forbids(
            &state,
            flags::IMMUTABLE | flags::APPEND_ONLY | flags::NO_UNLINK,
        ) {
            return Err(PosixError::NotPermitted("the file is immutable"));
        }
        if self.options.kernel_checks_permissions {
            return Ok(());
        }
        check_sticky(who, mode, uid, self.owner(&state).0)
    }

    /// Takes links from a file whose entry is gone; the last one makes it go too, or be listed as
    /// unlinked as long as it is open. True: nobody has it open, but freeing it takes more than
    /// this transaction; see [`Core::finish`]. A directory that is kept is referenced, for a
    /// [`crate::Removed`] to give back.
    pub(crate) fn drop_link(&self, tx: &Tx, znode: &Arc<Znode>, links: u64) -> Result<bool> {
        let mut state = znode.state.write();
        state.links = if state.is_directory() {
            0
        } else {
            state.links.saturating_sub(links)
        };
        state.ctime = self.now();
        let ends = state.links == 0;
        if let Some(log) = self.log().filter(|_| ends) {
            log.discard(znode.id());
        }
        let keeps = self.keeps_removed(&state);
        if ends && !keeps && !znode.is_referenced() && self.can_free_at_once(znode, &state) {
            self.free(tx, znode, &mut state)?;
            return Ok(false);
        }
        znode.store(
            tx,
            &self.store,
            &mut state,
            &[Attribute::Links, Attribute::Ctime],
        )?;
        if ends {
            self.list_unlinked(tx, znode.id())?;
        }
        if keeps {
            znode.references.fetch_add(1, Ordering::Relaxed);
        }
        Ok(ends && !znode.is_referenced())
    }

    /// Whether a file that lost a name is held for the caller.
    pub(crate) fn keeps_removed(&self, state: &State) -> bool {
        self.options.keeps_removed_directories && !self.replaying && state.is_directory()
    }
}

/// Notes under its lock that a directory is gone.
pub(crate) fn mark_removed(locked: &mut [(ObjectId, NamesWrite<'_>)], directory: &Znode) {
    for (id, names) in locked {
        if *id == directory.id() {
            names.removed = true;
        }
    }
}
