//! Removing names, and replacing them by a rename.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::ObjectId;
use base::lock::RwLockWriteGuard;
use dmu::{Object, Tx};
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

/// So long after somebody came too late files are held whose names go.
const LATE_NS: u64 = 30_000_000_000;

/// The attributes that change when a name goes.
const OF_A_LOSS: [Attribute; 2] = [Attribute::Links, Attribute::Ctime];

/// A file that is about to lose a name, and what that takes: nobody opens or closes it meanwhile.
pub(crate) struct Losing<'a> {
    znode: &'a Arc<Znode>,
    state: RwLockWriteGuard<'a, State>,
    /// How many it has then.
    links: u64,
    /// It is freed with its name.
    goes: bool,
    /// It is held for the caller.
    keeps: bool,
    /// Its access list outside of it, which goes as well.
    list: Option<Arc<Object>>,
}

/// What a file has come to that lost a name.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    /// Nobody has it open, but freeing it takes more than this transaction; see [`Core::finish`].
    pub(crate) lingers: bool,
    /// It is referenced, for a [`crate::Removed`] to return.
    pub(crate) held: bool,
}

/// What lost a name, and what came of that.
pub(crate) type Gone = (Arc<Znode>, Loss);

impl Losing<'_> {
    pub(crate) fn is_directory(&self) -> bool {
        self.state.is_directory()
    }
}

impl Core {
    /// Removes the name of anything but a directory.
    pub(crate) fn unlink(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Gone> {
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
            let entry = (&*parent, found.stored(name));
            let loss = self.remove_entry(&tx, entry, &child, &mut [])?;
            drop(names);
            drop(tx);
            self.finish(&child, loss.lingers);
            return Ok((child, loss));
        }
        Err(PosixError::Busy)
    }

    /// Removes an empty directory.
    pub(crate) fn rmdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Gone> {
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
            let entry = (&*parent, found.stored(name));
            let loss = self.remove_entry(&tx, entry, &child, &mut locked)?;
            drop(locked);
            drop(tx);
            self.finish(&child, loss.lingers);
            return Ok((child, loss));
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

    /// Removes an entry and what it named, whose names are `locked` if it is a directory. Removing the entry is the
    /// first change, and the last that can fail.
    fn remove_entry(
        &self,
        tx: &Tx,
        (parent, name): (&Znode, &[u8]),
        child: &Arc<Znode>,
        locked: &mut [(ObjectId, NamesWrite<'_>)],
    ) -> Result<Loss> {
        self.hold_entry(tx, parent)?;
        let losing = self.hold_links(tx, child)?;
        let is_directory = losing.is_directory();
        self.entries(parent)?.remove(tx, name)?;
        self.whole(tx, || {
            mark_removed(locked, child);
            let loss = self.lose_links(tx, losing)?;
            let change = EntryChange {
                entries: -1,
                subdirectories: -i64::from(is_directory),
            };
            self.note_entry(tx, parent, change)?;
            let change = Change::Remove {
                directory: parent.id(),
                name,
                is_directory,
            };
            self.record(tx, Scope::Names, &[change]);
            Ok(loss)
        })
    }

    /// Holds what it takes to take a link from a file, or both from a directory: [`Core::lose_links`] has nothing to
    /// read.
    pub(crate) fn hold_links<'a>(&self, tx: &Tx, znode: &'a Arc<Znode>) -> Result<Losing<'a>> {
        let mut state = znode.state.write();
        let links = if state.is_directory() {
            0
        } else {
            state.links.saturating_sub(1)
        };
        let ends = links == 0;
        let keeps = ends && self.keeps_removed(&state);
        let goes = ends && !keeps && !znode.is_referenced() && self.can_free_at_once(znode, &state);
        let list = if goes {
            self.outside_list(znode, &state)?
        } else {
            znode.hold(tx, &self.store, &mut state, &OF_A_LOSS)?;
            if ends {
                self.unlinked_set()?.hold_int(tx, znode.id().0)?;
            }
            None
        };
        Ok(Losing {
            znode,
            state,
            links,
            goes,
            keeps,
            list,
        })
    }

    /// Takes links from a file whose entry is gone; the last one makes it go too, or be listed as
    /// unlinked as long as it is open or held.
    pub(crate) fn lose_links(&self, tx: &Tx, losing: Losing<'_>) -> Result<Loss> {
        let Losing {
            znode,
            mut state,
            links,
            goes,
            keeps,
            list,
        } = losing;
        state.links = links;
        state.ctime = self.now();
        let ends = links == 0;
        if let Some(log) = self.log().filter(|_| ends) {
            log.discard(znode.id());
        }
        if goes {
            self.free(tx, znode, &mut state, list.as_deref())?;
            return Ok(Loss::default());
        }
        znode.store(tx, &self.store, &mut state, &OF_A_LOSS)?;
        if ends {
            self.list_unlinked(tx, znode.id())?;
        }
        if keeps {
            znode.references.fetch_add(1, Ordering::Relaxed);
        }
        Ok(Loss {
            lingers: ends && !znode.is_referenced(),
            held: keeps,
        })
    }

    /// Whether a file that loses its last name is held for the caller: a directory always, another one while somebody
    /// may be on the way to it.
    fn keeps_removed(&self, state: &State) -> bool {
        let keeps = self.options.keeps_removed && !self.replaying;
        keeps && (state.is_directory() || self.is_late())
    }

    /// Somebody came to a file by its number, whose name had gone since it was looked up. A while from now on other
    /// files do not go before those who may be on the way to them: the second time nobody comes too late.
    ///
    /// This is known under the lock of the names before a name goes that was looked up since.
    pub(crate) fn came_late(&self) {
        let until = self.clock.now().saturating_add(LATE_NS);
        self.late_until_ns.fetch_max(until, Ordering::AcqRel);
    }

    fn is_late(&self) -> bool {
        match self.late_until_ns.load(Ordering::Acquire) {
            0 => false,
            until => self.clock.now() < until,
        }
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
