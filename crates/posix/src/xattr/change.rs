//! Setting and removing extended attributes.

use std::sync::Arc;

use base::ObjectId;
use dmu::{Object, Tx, Zap};
use format::intent_log::{Change, Created, Written};
use format::nvlist::NvList;
use format::sa::Attribute;

use super::{VALUE_MAX, other_name, packed};
use crate::core::{Core, Plan};
use crate::log::{Scope, creation_as};
use crate::names::{pack_entry, unpack_entry};
use crate::permission::SET_GID;
use crate::posix_acl::{ACCESS_NAME, DEFAULT_NAME, PosixAcl};
use crate::store::NewFile;
use crate::znode::{AclCache, Znode, internal_flags};
use crate::{
    Access, Corruption, Credentials, FileType, PosixError, Result, XattrMode, XattrStore, flags,
};

/// What a program may do beyond its user, as the kernel stores it.
const CAPABILITY_NAME: &[u8] = b"security.capability";

/// A file that has an attribute of another, and the directory of such files.
struct HiddenFile {
    directory: Arc<Znode>,
    file: Arc<Object>,
}

/// A transaction, and in which order the log shall have what it does; none: the caller says it.
type Logged<'a> = (&'a Tx, Option<Scope>);

impl Core {
    pub(crate) fn set_xattr(
        &self,
        who: &Credentials,
        znode: &Arc<Znode>,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.check_xattr_change(who, znode, name)?;
        if value.len() > VALUE_MAX {
            return Err(PosixError::AttributeTooLarge);
        }
        self.check_xattr_mode(znode, name, mode)?;
        if name == ACCESS_NAME || name == DEFAULT_NAME {
            return self.set_acl(who, znode, name, (value, mode));
        }
        let tx = self.begin(Plan {
            names: 3,
            objects: 4,
            write_bytes: value.len() as u64,
            ..Plan::default()
        })?;
        let _attributes = znode.names.write();
        znode.kept(&znode.state.read())?;
        if mode != XattrMode::Either {
            self.check_xattr_mode(znode, name, mode)?;
        }
        self.hold_xattr_change(&tx, znode)?;
        let scope = Scope::File(znode.id());
        self.store_xattr((&tx, Some(scope)), znode, name, value)?;
        self.whole(&tx, || self.note_xattr_change(&tx, znode))
    }

    /// Refuses an attribute that is there, or is not. Asked again under the lock of the attributes where that matters.
    fn check_xattr_mode(&self, znode: &Znode, name: &[u8], mode: XattrMode) -> Result<()> {
        let exists = self.find_xattr(znode, name)?.is_some();
        match mode {
            XattrMode::Create if exists => Err(PosixError::Exists),
            XattrMode::Replace if !exists => Err(PosixError::NoAttribute),
            XattrMode::Create | XattrMode::Replace | XattrMode::Either => Ok(()),
        }
    }

    pub(crate) fn remove_xattr(
        &self,
        who: &Credentials,
        znode: &Arc<Znode>,
        name: &[u8],
    ) -> Result<()> {
        self.check_xattr_change(who, znode, name)?;
        let is_acl = name == ACCESS_NAME || name == DEFAULT_NAME;
        let found = self.find_xattr(znode, name)?.is_some();
        if found && self.remove_found(znode, name)? || is_acl {
            Ok(())
        } else {
            Err(PosixError::NoAttribute)
        }
    }

    /// Before the data of a file change: what its program may do with privileges is over.
    pub(crate) fn drop_capability(&self, znode: &Arc<Znode>) -> Result<()> {
        {
            let state = znode.state.read();
            if !znode.has_xattrs(&state) {
                return Ok(());
            }
            self.check_data_change(znode, &state)?;
        }
        match self.find_xattr(znode, CAPABILITY_NAME)? {
            Some(_) => self.remove_found(znode, CAPABILITY_NAME).map(drop),
            None => Ok(()),
        }
    }

    /// Removes an attribute that was there; false: it has gone meanwhile.
    fn remove_found(&self, znode: &Arc<Znode>, name: &[u8]) -> Result<bool> {
        let tx = self.begin(Plan {
            names: 3,
            objects: 4,
            net_free: true,
            ..Plan::default()
        })?;
        let _attributes = znode.names.write();
        znode.kept(&znode.state.read())?;
        if self.find_xattr(znode, name)?.is_none() {
            return Ok(false);
        }
        self.hold_xattr_change(&tx, znode)?;
        let logged = (&tx, Some(Scope::File(znode.id())));
        if name == ACCESS_NAME || name == DEFAULT_NAME {
            self.store_acl(logged, znode, name, None)?;
        } else {
            self.drop_xattr(logged, znode, name)?;
        }
        self.whole(&tx, || self.note_xattr_change(&tx, znode))?;
        Ok(true)
    }

    fn check_xattr_change(&self, who: &Credentials, znode: &Znode, name: &[u8]) -> Result<()> {
        self.writing()?;
        if self.properties().xattr == XattrStore::Off {
            return Err(PosixError::NotSupported("extended attributes"));
        }
        self.check_xattr_name(who, znode, name, Access::WRITE)?;
        if znode
            .state
            .read()
            .has(flags::IMMUTABLE | flags::APPEND_ONLY)
        {
            return Err(PosixError::NotPermitted("the file is immutable"));
        }
        Ok(())
    }

    /// Has the time of change of a file where [`Core::note_xattr_change`] has nothing to read.
    pub(crate) fn hold_xattr_change(&self, tx: &Tx, znode: &Znode) -> Result<()> {
        let mut state = znode.state.write();
        znode.alive(&state)?;
        znode.hold(tx, &self.store, &mut state, &[Attribute::Ctime])
    }

    pub(crate) fn note_xattr_change(&self, tx: &Tx, znode: &Znode) -> Result<()> {
        let mut state = znode.state.write();
        znode.alive(&state)?;
        state.ctime = self.now();
        znode.store(tx, &self.store, &mut state, &[Attribute::Ctime])
    }

    /// Stores an attribute in the form that the dataset prefers and the value fits. Of what changes after the first
    /// step all is held before it.
    pub(crate) fn store_xattr(
        &self,
        (tx, log): Logged<'_>,
        znode: &Arc<Znode>,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let packs = self.properties().xattr == XattrStore::SystemAttribute
            && self.store.registry.is_available()
            && value.len() <= packed::VALUE_MAX;
        if packs {
            let outside = self.hold_xattr_file(tx, znode, name)?;
            if self.pack_xattr((tx, log), znode, name, Some(value))? {
                return self.drop_held((tx, log), znode, (name, outside));
            }
        }
        self.xattr_directory((tx, log), znode)?;
        self.hold_packed(tx, znode)?;
        self.store_xattr_file((tx, log), znode, name, value)?;
        self.whole(tx, || {
            self.pack_xattr((tx, log), znode, name, None).map(drop)
        })
    }

    /// Removes an attribute in whatever form it is.
    fn drop_xattr(&self, (tx, log): Logged<'_>, znode: &Arc<Znode>, name: &[u8]) -> Result<()> {
        let names = [Some(name), other_name(name)];
        let mut outside = Vec::new();
        for name in names.into_iter().flatten() {
            outside.push((name, self.hold_xattr_file(tx, znode, name)?));
        }
        for (name, file) in outside {
            self.pack_xattr((tx, log), znode, name, None)?;
            self.drop_held((tx, log), znode, (name, file))?;
        }
        Ok(())
    }

    /// Has the packed attributes of a file where changing them reads nothing.
    fn hold_packed(&self, tx: &Tx, znode: &Znode) -> Result<()> {
        let mut state = znode.state.write();
        if !state.form.has(Attribute::Dxattr) {
            return Ok(());
        }
        znode.hold(tx, &self.store, &mut state, &[Attribute::Dxattr])
    }

    /// Sets or removes an attribute of the packed list; false when it does not fit there.
    pub(crate) fn pack_xattr(
        &self,
        (tx, log): Logged<'_>,
        znode: &Znode,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<bool> {
        let mut state = znode.state.write();
        znode.alive(&state)?;
        let old = znode.value(&state, Attribute::Dxattr)?;
        let damaged = |_| znode.corrupt(Corruption::ExtendedAttributes);
        let mut list: NvList = match &old {
            Some(old) => packed::decode(old).map_err(damaged)?,
            None if value.is_none() => return Ok(true),
            None => NvList::new(),
        };
        match value {
            Some(value) => {
                list.set(name, packed::value(value));
            }
            None => {
                if list.remove(name).is_none() {
                    return Ok(true);
                }
            }
        }
        let bytes = packed::encode(&list);
        if bytes.len() > packed::SIZE_MAX {
            return Ok(false);
        }
        let edit = [(Attribute::Dxattr, Some(&bytes[..]))];
        match znode.rewrite(tx, &self.store, &mut state, &edit) {
            Ok(()) => {}
            Err(PosixError::AttributeTooLarge) => return Ok(false),
            Err(error) => return Err(error),
        }
        if let Some(scope) = log.filter(|_| state.links != 0) {
            let change = Change::SetXattr {
                object: znode.id(),
                name,
                value,
            };
            self.record(tx, scope, &[change]);
        }
        Ok(true)
    }

    /// The file that has an attribute, if one has. What [`Core::drop_held`] changes is held.
    fn hold_xattr_file(&self, tx: &Tx, znode: &Znode, name: &[u8]) -> Result<Option<HiddenFile>> {
        let directory = znode.state.read().xattr;
        if directory.0 == 0 {
            return Ok(None);
        }
        let zap = Zap::open(&self.object(directory)?)?;
        let Some(entry) = zap.lookup(name)? else {
            return Ok(None);
        };
        let file = self.object(unpack_entry(entry).0)?;
        zap.hold(tx, name)?;
        let directory = self.znode(directory)?;
        self.hold_entry(tx, &directory)?;
        Ok(Some(HiddenFile { directory, file }))
    }

    /// Removes the file that has an attribute.
    fn drop_held(
        &self,
        (tx, log): Logged<'_>,
        znode: &Znode,
        (name, outside): (&[u8], Option<HiddenFile>),
    ) -> Result<()> {
        let Some(HiddenFile { directory, file }) = outside else {
            return Ok(());
        };
        Zap::open(&directory.object)?.remove(tx, name)?;
        self.whole(tx, || {
            self.store.objects.free(tx, file.id())?;
            self.table.remove(file.id());
            if log.is_some() {
                let change = Change::Remove {
                    directory: directory.id(),
                    name,
                    is_directory: false,
                };
                self.record(tx, Scope::NamesAfter(znode.id()), &[change]);
            }
            self.note_xattr_entry(tx, &directory, -1)
        })
    }

    pub(crate) fn store_xattr_file(
        &self,
        (tx, log): Logged<'_>,
        znode: &Arc<Znode>,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let directory = self.xattr_directory((tx, log), znode)?;
        let directory = self.znode(directory)?;
        let zap = Zap::open(&directory.object)?;
        self.hold_entry(tx, &directory)?;
        let is_new = zap.lookup(name)?;
        let file = match is_new {
            Some(entry) => self.znode(unpack_entry(entry).0)?,
            None => {
                let owner = {
                    let state = znode.state.read();
                    (state.uid, state.gid, state.project)
                };
                let mode = FileType::Regular.bits() << 12 | 0o644;
                self.make_hidden(tx, directory.id(), mode, owner)?
            }
        };
        let old_size = self.store_value(tx, &file, value)?;
        let mut changes = Vec::new();
        if is_new.is_none() {
            let entry = pack_entry(file.id(), Some(FileType::Regular));
            zap.add(tx, name, entry)
                .inspect_err(|_| self.abandon(tx, &file))?;
            changes.push(creation_as(Created::File, directory.id(), &file, name));
        }
        if log.is_some() {
            changes.extend(value_changes(file.id(), old_size, value));
            // With the names: whoever makes the file durable that has the attribute knows nothing of this one. What was
            // done to that file before goes along: a value that moved between both forms must never be in neither.
            self.record(tx, Scope::NamesAfter(znode.id()), &changes);
        }
        match is_new {
            Some(_) => Ok(()),
            None => self.whole(tx, || self.note_xattr_entry(tx, &directory, 1)),
        }
    }

    /// Makes a value all that a file of an attribute has; its size before. Nothing that it had is read.
    fn store_value(&self, tx: &Tx, file: &Znode, value: &[u8]) -> Result<u64> {
        const CHANGED: [Attribute; 3] = [Attribute::Size, Attribute::Mtime, Attribute::Ctime];
        let _data = file.data.lock();
        let mut state = file.state.write();
        file.hold(tx, &self.store, &mut state, &CHANGED)?;
        let (old_size, length) = (state.size, value.len() as u64);
        let info = file.object.info();
        let block = u64::from(info.block_size);
        file.object.free_range(tx, 0, u64::MAX)?;
        self.whole(tx, || {
            if length > block && old_size <= block && info.max_block == 0 {
                let record = u64::from(self.properties().record_size);
                let size = length.next_multiple_of(512).min(record.max(block));
                file.object.set_block_size(tx, size as u32, 0)?;
            }
            file.object.write(tx, 0, value)?;
            state.size = length;
            (state.mtime, state.ctime) = (self.now(), self.now());
            file.store(tx, &self.store, &mut state, &CHANGED)
        })?;
        Ok(old_size)
    }

    /// The hidden directory of a file's attributes, made when it is not there.
    fn xattr_directory(&self, (tx, log): Logged<'_>, znode: &Arc<Znode>) -> Result<ObjectId> {
        let owner = {
            let state = znode.state.read();
            znode.alive(&state)?;
            if state.xattr.0 != 0 {
                return Ok(state.xattr);
            }
            (state.uid, state.gid, state.project)
        };
        let mode = FileType::Directory.bits() << 12 | 0o1777;
        let directory = self.make_hidden(tx, znode.id(), mode, owner)?;
        let mut state = znode.state.write();
        let held = znode.hold(tx, &self.store, &mut state, &[Attribute::Xattr]);
        if let Err(error) = held {
            drop(state);
            self.abandon(tx, &directory);
            return Err(error);
        }
        if state.freed || state.xattr.0 != 0 {
            // Another thread was faster.
            let made = znode.alive(&state).map(|state| state.xattr);
            drop(state);
            self.store.objects.free(tx, directory.id())?;
            self.table.remove(directory.id());
            return made;
        }
        state.xattr = directory.id();
        znode.store(tx, &self.store, &mut state, &[Attribute::Xattr])?;
        drop(state);
        if log.is_some() {
            let made = creation_as(Created::XattrDirectory, znode.id(), &directory, b"");
            self.record(tx, Scope::Names, &[made]);
        }
        Ok(directory.id())
    }

    /// Takes back the attributes of a file that did not come to be.
    pub(crate) fn abandon_xattrs(&self, tx: &Tx, directory: ObjectId) -> Result<()> {
        for entry in Zap::open(&self.object(directory)?)?.entries()? {
            let file = unpack_entry(entry.value).0;
            self.store.objects.free(tx, file)?;
            self.table.remove(file);
        }
        self.store.objects.free(tx, directory)?;
        self.table.remove(directory);
        Ok(())
    }

    /// Creates a file or directory that only holds attributes.
    fn make_hidden(
        &self,
        tx: &Tx,
        parent: ObjectId,
        mode: u32,
        (uid, gid, project): (u64, u64, u64),
    ) -> Result<Arc<Znode>> {
        let is_directory = mode & 0o170_000 == 0o040_000;
        let new = NewFile {
            mode,
            uid,
            gid,
            parent: Some(parent),
            flags: internal_flags::XATTR,
            project,
            device: 0,
            links: if is_directory { 2 } else { 1 },
            target: None,
            now: self.now(),
            slots: self.properties().dnode_slots,
            claim: None,
        };
        let znode = self.create_file(tx, &new)?;
        self.table.insert(Arc::clone(&znode));
        Ok(znode)
    }

    fn note_xattr_entry(&self, tx: &Tx, directory: &Znode, entries: i64) -> Result<()> {
        let change = crate::nodes::EntryChange {
            entries,
            subdirectories: 0,
        };
        self.note_entry(tx, directory, change)
    }

    fn set_acl(
        &self,
        who: &Credentials,
        znode: &Arc<Znode>,
        name: &[u8],
        (value, how): (&[u8], XattrMode),
    ) -> Result<()> {
        let acl = PosixAcl::decode(value)?;
        if name == DEFAULT_NAME && !znode.state.read().is_directory() {
            return if acl.is_some() {
                Err(PosixError::AccessDenied)
            } else {
                Ok(())
            };
        }
        let tx = self.begin(Plan {
            names: 3,
            objects: 5,
            ..Plan::default()
        })?;
        let _attributes = znode.names.write();
        znode.kept(&znode.state.read())?;
        if how != XattrMode::Either {
            self.check_xattr_mode(znode, name, how)?;
        }
        self.hold_xattr_change(&tx, znode)?;
        let logged = (&tx, Some(Scope::File(znode.id())));
        match acl {
            Some(acl) if name == ACCESS_NAME => {
                let (before, mut mode, gid) = {
                    let state = znode.state.read();
                    let mode = state.mode & !0o777 | acl.permissions();
                    (state.mode, mode, self.owner(&state).1)
                };
                if self.takes_set_gid(who, gid) {
                    mode &= !SET_GID;
                }
                self.store_mode(&tx, znode, mode)?;
                let kept = Some(&acl).filter(|acl| !acl.is_mode_only());
                let stored = self.store_acl(logged, znode, name, kept);
                if stored.is_err() {
                    // It was stored a moment ago: nothing is read.
                    self.whole(&tx, || self.store_mode(&tx, znode, before))?;
                }
                stored?;
            }
            acl => self.store_acl(logged, znode, name, acl.as_ref())?,
        }
        self.whole(&tx, || self.note_xattr_change(&tx, znode))
    }

    /// Stores a new mode, and tells the log. The caller holds the attributes' lock, behind which modes change.
    fn store_mode(&self, tx: &Tx, znode: &Znode, mode: u32) -> Result<()> {
        let mut state = znode.state.write();
        if mode != state.mode {
            self.store.store_mode(tx, znode, &mut state, mode)?;
            self.record_mode(tx, znode.id(), &state);
        }
        Ok(())
    }

    /// Stores a POSIX access list, or removes it.
    pub(crate) fn store_acl(
        &self,
        logged: Logged<'_>,
        znode: &Arc<Znode>,
        name: &[u8],
        acl: Option<&PosixAcl>,
    ) -> Result<()> {
        match acl {
            Some(acl) => self.store_xattr(logged, znode, name, &acl.encode())?,
            None => self.drop_xattr(logged, znode, name)?,
        }
        let known = AclCache::Known(acl.cloned().map(Arc::new));
        let mut state = znode.state.write();
        if name == ACCESS_NAME {
            state.access_acl = known;
        } else {
            state.default_acl = known;
        }
        Ok(())
    }
}

/// The new value of an attribute that is a file of `old_size` bytes.
fn value_changes(
    object: ObjectId,
    old_size: u64,
    value: &[u8],
) -> impl Iterator<Item = Change<'_>> {
    let length = value.len() as u64;
    let cut = Change::Truncate {
        object,
        offset: length,
        length: 0,
    };
    let written = Change::Write {
        object,
        offset: 0,
        length,
        data: Written::Here(value),
    };
    let cut = (old_size > length || length == 0).then_some(cut);
    cut.into_iter().chain((length > 0).then_some(written))
}
