//! Changing attributes: mode, owner, times, size, flags, project.

use std::sync::Arc;

use base::ObjectId;
use dmu::Tx;
use format::sa::Attribute;

use crate::core::{Core, Plan};
use crate::log::Scope;
use crate::permission::{SET_GID, without_set_id};
use crate::posix_acl::ACCESS_NAME;
use crate::znode::{State, Znode, internal_flags};
use crate::{
    Access, Attributes, Credentials, FileType, PosixError, Result, SetAttributes, SetTime,
    Timestamp, flags,
};

/// The flags that only a privileged caller sets or clears.
const PRIVILEGED: u64 = flags::IMMUTABLE | flags::APPEND_ONLY | flags::NO_UNLINK;
/// Whose a file is.
const OF_AN_OWNER: [Attribute; 2] = [Attribute::Uid, Attribute::Gid];
/// The bits of the nine classes' permissions.
const CLASSES: u32 = 0o777;

impl Core {
    pub(crate) fn set_attributes(
        &self,
        who: &Credentials,
        object: ObjectId,
        change: &SetAttributes,
    ) -> Result<Attributes> {
        let znode = self.znode(object)?;
        self.writing()?;
        self.check_set(who, &znode, change)?;
        if let Some(size) = change.size {
            self.set_size(&znode, size, change)?;
        }
        if changes_attributes(change) {
            self.apply(who, &znode, change)?;
        }
        let state = znode.state.read();
        Ok(self.show(&znode, znode.alive(&state)?))
    }

    fn check_set(&self, who: &Credentials, znode: &Znode, change: &SetAttributes) -> Result<()> {
        let (is_owner, state) = {
            let state = znode.state.read();
            (self.is_owner(who, znode.alive(&state)?), state.clone())
        };
        let thaws = change.flags.is_some();
        if state.has(flags::IMMUTABLE) && !thaws && !change.was_allowed {
            return Err(PosixError::NotPermitted("the file is immutable"));
        }
        let at = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
        let owns = change.permissions.is_some() || change.uid.is_some() || change.gid.is_some();
        let sets_times = (at(change.atime) || at(change.mtime)) && !change.was_allowed;
        if state.has(flags::APPEND_ONLY) && (owns || sets_times) {
            return Err(PosixError::NotPermitted("the file only grows"));
        }
        if change.size.is_some() {
            match state.file_type() {
                FileType::Regular => {}
                FileType::Directory => return Err(PosixError::IsDirectory),
                FileType::Fifo
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Symlink
                | FileType::Socket => return Err(PosixError::Invalid("size of a special file")),
            }
            if state.has(flags::APPEND_ONLY | flags::READ_ONLY) {
                return Err(PosixError::NotPermitted("the file may not be truncated"));
            }
            if !change.by_open_handle {
                self.check(who, znode, Access::WRITE)?;
            }
        }
        if let Some((set, clear)) = change.flags {
            let touched = (state.flags ^ set) & set | state.flags & clear;
            if touched & PRIVILEGED != 0 && !who.privileged {
                return Err(PosixError::NotPermitted("flag that only root changes"));
            }
            if !is_owner {
                return Err(PosixError::NotPermitted("flags of another's file"));
            }
        }
        if change.project.is_some() {
            let plain = matches!(state.file_type(), FileType::Regular | FileType::Directory);
            if !plain || !self.store.has_projects() {
                return Err(PosixError::NotSupported("project of this file"));
            }
        }
        if self.options.kernel_checks_permissions {
            return Ok(());
        }
        self.check_ownership(who, znode, (&state, is_owner), change)
    }

    fn check_ownership(
        &self,
        who: &Credentials,
        znode: &Znode,
        (state, is_owner): (&State, bool),
        change: &SetAttributes,
    ) -> Result<()> {
        let (uid, gid) = self.owner(state);
        let gives_away = change.uid.is_some_and(|new| new != uid || !is_owner);
        let regroups = change
            .gid
            .is_some_and(|new| !is_owner || new != gid && !who.is_in_group(new));
        if !who.privileged && (gives_away || regroups) {
            return Err(PosixError::NotPermitted("only root gives files away"));
        }
        let sets_time = |time: Option<SetTime>| matches!(time, Some(SetTime::At(_)));
        let needs_owner = change.permissions.is_some()
            || sets_time(change.atime)
            || sets_time(change.mtime)
            || change.crtime.is_some()
            || change.project.is_some();
        if needs_owner && !is_owner {
            return Err(PosixError::NotPermitted("the file is another's"));
        }
        let touches = change.atime.is_some() || change.mtime.is_some();
        if touches && !is_owner {
            return self.check(who, znode, Access::WRITE);
        }
        Ok(())
    }

    pub(crate) fn apply(
        &self,
        who: &Credentials,
        znode: &Arc<Znode>,
        change: &SetAttributes,
    ) -> Result<()> {
        let new_mode = change.permissions.is_some();
        if new_mode {
            // Read before the transaction: chmod rewrites it.
            self.access_acl(znode)?;
        }
        self.check_new_owner_quota(znode, change)?;
        let tx = self.begin(Plan {
            names: 1,
            objects: 3,
            ..Plan::default()
        })?;
        // The list that is there now: who sets one has set it, or comes after the mode.
        let attributes = new_mode.then(|| znode.names.write());
        let acl = match &attributes {
            Some(_) if !znode.is_doomed(&znode.state.read()) => self.access_acl(znode)?,
            Some(_) | None => None,
        };
        let new_owner = change.uid.is_some() || change.gid.is_some();
        let hidden = new_owner
            .then(|| self.hold_hidden_directory(&tx, znode))
            .transpose()?
            .flatten();
        let before = acl.is_some().then(|| znode.state.read().clone());
        let mode = self.store_attributes(&tx, who, znode, change)?;
        if let (Some(acl), Some(before)) = (acl, before) {
            let list = acl.as_ref().clone().with_permissions(mode & CLASSES);
            let scope = Scope::File(znode.id());
            self.store_acl((&tx, Some(scope)), znode, ACCESS_NAME, Some(&list))
                .inspect_err(|_| self.put_back(&tx, znode, &before, change))?;
        }
        drop(attributes);
        match hidden {
            Some(hidden) => self.whole(&tx, || self.own(&tx, &hidden, znode)),
            None => Ok(()),
        }
    }

    /// Stores all that changes but an access list, and tells the log; answers the mode. Nothing has changed if it
    /// fails.
    fn store_attributes(
        &self,
        tx: &Tx,
        who: &Credentials,
        znode: &Znode,
        change: &SetAttributes,
    ) -> Result<u32> {
        let mut state = znode.state.write();
        znode.alive(&state)?;
        let stored = changed_by(change);
        znode.hold(tx, &self.store, &mut state, &stored)?;
        let mode = self.new_mode(who, &state, change);
        let falls = mode != state.mode;
        if falls {
            self.store.store_mode(tx, znode, &mut state, mode)?;
        }
        note_times(change, &mut state, self.now());
        if let Some(uid) = change.uid {
            state.uid = uid.into();
        }
        if let Some(gid) = change.gid {
            state.gid = gid.into();
        }
        if let Some((set, clear)) = change.flags {
            let known = flags::SHOWN;
            state.flags = state.flags & !(clear & known) | set & known;
        }
        if let Some(project) = change.project {
            state.project = project.into();
            state.flags |= internal_flags::PROJECT_ID;
        }
        self.whole(tx, || znode.store(tx, &self.store, &mut state, &stored))?;
        self.record_attributes(tx, znode.id(), (&state, falls), change);
        Ok(mode)
    }

    /// Makes the attributes of a file what they were, and tells the log that.
    fn put_back(&self, tx: &Tx, znode: &Znode, before: &State, change: &SetAttributes) {
        let mut state = znode.state.write();
        let falls = before.mode != state.mode;
        let form = state.form.clone();
        // All of it was stored a moment ago: nothing is read.
        let _ = self.whole(tx, || {
            if falls {
                self.store.store_mode(tx, znode, &mut state, before.mode)?;
            }
            *state = State {
                form,
                ..before.clone()
            };
            znode.store(tx, &self.store, &mut state, &changed_by(change))
        });
        self.record_attributes(tx, znode.id(), (&state, falls), change);
    }

    /// The hidden directory of a file's attributes, which belongs to whom its file does; it is held.
    fn hold_hidden_directory(&self, tx: &Tx, file: &Znode) -> Result<Option<Arc<Znode>>> {
        let directory = file.state.read().xattr;
        if directory.0 == 0 {
            return Ok(None);
        }
        let directory = self.znode(directory)?;
        let mut state = directory.state.write();
        directory.hold(tx, &self.store, &mut state, &OF_AN_OWNER)?;
        drop(state);
        Ok(Some(directory))
    }

    fn own(&self, tx: &Tx, directory: &Znode, file: &Znode) -> Result<()> {
        let (uid, gid) = {
            let state = file.state.read();
            (state.uid, state.gid)
        };
        let mut state = directory.state.write();
        (state.uid, state.gid) = (uid, gid);
        directory.store(tx, &self.store, &mut state, &OF_AN_OWNER)
    }

    /// Whether who changes the mode of a file of group `gid` cannot leave its set-group-id bit. The
    /// kernel, where it decides, knows all groups of the caller, and says so by the mode or otherwise.
    pub(crate) fn takes_set_gid(&self, who: &Credentials, gid: u32) -> bool {
        !self.options.kernel_checks_permissions && !who.privileged && !who.is_in_group(gid)
    }

    /// The mode after `change`; set-id bits fall with the owner.
    fn new_mode(&self, who: &Credentials, state: &State, change: &SetAttributes) -> u32 {
        let mut mode = state.mode;
        if let Some(permissions) = change.permissions {
            mode = mode & !0o7777 | permissions & 0o7777;
            let gid = change.gid.unwrap_or_else(|| self.owner(state).1);
            if self.takes_set_gid(who, gid) {
                mode &= !SET_GID;
            }
            return mode;
        }
        let owner_changes = change.uid.is_some() || change.gid.is_some();
        if (owner_changes || change.kill_set_id) && !state.is_directory() {
            mode = without_set_id(mode);
        }
        mode
    }
}

fn note_times(change: &SetAttributes, state: &mut State, now: Timestamp) {
    let resolve = |time: SetTime| match time {
        SetTime::Now => now,
        SetTime::At(time) => time,
    };
    if let Some(time) = change.atime {
        state.atime = resolve(time);
    }
    if let Some(time) = change.mtime {
        state.mtime = resolve(time);
    }
    if let Some(time) = change.crtime {
        state.crtime = time;
    }
    state.ctime = change.ctime.unwrap_or(now);
}

/// The attributes that a change stores, apart from the mode and what follows from it.
fn changed_by(change: &SetAttributes) -> Vec<Attribute> {
    let of = |changes: bool, attribute| changes.then_some(attribute);
    let project = change.project.is_some();
    let all = [
        of(change.atime.is_some(), Attribute::Atime),
        of(change.mtime.is_some(), Attribute::Mtime),
        of(change.crtime.is_some(), Attribute::Crtime),
        of(change.uid.is_some(), Attribute::Uid),
        of(change.gid.is_some(), Attribute::Gid),
        of(change.flags.is_some() || project, Attribute::Flags),
        of(project, Attribute::Projid),
        Some(Attribute::Ctime),
    ];
    all.into_iter().flatten().collect()
}

/// Whether anything but the size is to change.
fn changes_attributes(change: &SetAttributes) -> bool {
    let only_size = SetAttributes {
        size: change.size,
        by_open_handle: change.by_open_handle,
        keeps_times: change.keeps_times,
        kill_set_id: change.kill_set_id && change.size.is_some(),
        ..SetAttributes::default()
    };
    *change != only_size
}
