//! New names: files, directories, nodes, symbolic and hard links.
//!
//! The order of every change of names: look without a lock (early errors, warm caches), begin the
//! transaction, take the locks, look again, change. Nothing waits for a txg under a lock.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::ObjectId;
use dmu::Tx;
use dsl::DatasetFeature;
use format::intent_log::Change;
use format::sa::Attribute;

use crate::core::{Core, Plan};
use crate::inherited::Inherited;
use crate::log::{self, Scope};
use crate::names::{is_dot, pack_entry};
use crate::permission::{SET_GID, SET_UID};
use crate::posix_acl::{ACCESS_NAME, DEFAULT_NAME};
use crate::store::NewFile;
use crate::znode::{State, Znode, internal_flags, join_device};
use crate::{
    Access, Credentials, FileType, NewNode, OpenFile, OpenOptions, PosixError, Result, flags,
};

/// Links that a file can have.
const LINKS_MAX: u64 = i32::MAX as u64;
/// The longest target of a symbolic link.
const TARGET_MAX: usize = 4095;

/// The attributes that a change of entries changes.
const OF_ENTRIES: [Attribute; 5] = [
    Attribute::Size,
    Attribute::Links,
    Attribute::Mtime,
    Attribute::Ctime,
    Attribute::Flags,
];
/// The attributes of a file that gets a name.
const OF_A_NAME: [Attribute; 3] = [Attribute::Links, Attribute::Parent, Attribute::Ctime];

/// How a directory changes when an entry comes or goes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryChange {
    pub(crate) entries: i64,
    pub(crate) subdirectories: i64,
}

impl Core {
    /// Refuses a change of the entries of a directory.
    pub(crate) fn check_directory_change(
        &self,
        who: &Credentials,
        directory: &Znode,
        removes: bool,
    ) -> Result<()> {
        self.writing()?;
        {
            let state = directory.state.read();
            let frozen = flags::IMMUTABLE | if removes { flags::APPEND_ONLY } else { 0 };
            if self.forbids(&state, frozen) {
                return Err(PosixError::NotPermitted("the directory is immutable"));
            }
        }
        self.check(who, directory, Access::WRITE.and(Access::EXECUTE))
    }

    /// Refuses a name that cannot be given to something new.
    pub(crate) fn check_new_name(&self, name: &[u8]) -> Result<()> {
        if is_dot(name) {
            return Err(PosixError::Exists);
        }
        self.master.names.check(name, self.name_length_max())
    }

    /// Has the attributes of a directory where [`Core::note_entry`] has nothing to read.
    pub(crate) fn hold_entry(&self, tx: &Tx, directory: &Znode) -> Result<()> {
        let mut state = directory.state.write();
        directory.hold(tx, &self.store, &mut state, &OF_ENTRIES)
    }

    /// Books a change of entries in the directory's attributes, which are held.
    pub(crate) fn note_entry(&self, tx: &Tx, directory: &Znode, change: EntryChange) -> Result<()> {
        let now = self.now();
        let mut state = directory.state.write();
        state.size = state.size.saturating_add_signed(change.entries);
        state.links = state.links.saturating_add_signed(change.subdirectories);
        (state.mtime, state.ctime) = (now, now);
        self.mark_changed(&mut state);
        directory.store(tx, &self.store, &mut state, &OF_ENTRIES)
    }

    /// Sets the flags that every change of data or entries sets.
    pub(crate) fn mark_changed(&self, state: &mut State) {
        if self.store.version >= crate::master::VERSION_FLAGS {
            state.flags |= internal_flags::CHANGED;
        }
    }

    /// Adds an entry; the caller holds the directory's names exclusively, and its attributes ([`Core::hold_entry`]).
    pub(crate) fn add_entry(
        &self,
        tx: &Tx,
        directory: &Znode,
        name: &[u8],
        child: (ObjectId, FileType),
    ) -> Result<()> {
        let (object, file_type) = child;
        self.add_name(tx, directory, name, self.pack(object, file_type))?;
        let subdirectories = i64::from(file_type == FileType::Directory);
        let change = EntryChange {
            entries: 1,
            subdirectories,
        };
        self.note_entry(tx, directory, change).inspect_err(|_| {
            // Only a damaged directory comes here: its name must not outlive the object.
            let _ = self.entries(directory).map(|zap| zap.remove(tx, name));
        })
    }

    /// Adds a name to the table of a directory.
    pub(crate) fn add_name(
        &self,
        tx: &Tx,
        directory: &Znode,
        name: &[u8],
        value: u64,
    ) -> Result<()> {
        self.note_name(name)?;
        Ok(self.entries(directory)?.add(tx, name, value)?)
    }

    /// Notes what a new name needs of the pool. Who changes something else before the name is added asks first.
    pub(crate) fn note_name(&self, name: &[u8]) -> Result<()> {
        if name.len() > format::zap::NAME_MAX {
            self.note_feature(DatasetFeature::LongName)?;
        }
        Ok(())
    }

    /// Creates the object of a new file; it has no name yet. Whoever names or lists it has entered it into the table
    /// before: there is one file in memory an object, and others look for it by what they find.
    pub(crate) fn create_file(&self, tx: &Tx, new: &NewFile<'_>) -> Result<Arc<Znode>> {
        if new.slots > 1 {
            self.note_feature(DatasetFeature::LargeDnode)?;
        }
        self.store.create(tx, new)
    }

    /// Notes that something is about to be stored that needs a feature.
    pub(crate) fn note_feature(&self, feature: DatasetFeature) -> Result<()> {
        self.space()
            .map_or(Ok(()), |space| space.note_feature(feature))
    }

    /// The stored value of an entry.
    pub(crate) fn pack(&self, object: ObjectId, file_type: FileType) -> u64 {
        let has_types = self.store.version >= crate::master::VERSION_ENTRY_TYPES;
        pack_entry(object, has_types.then_some(file_type))
    }

    /// Creates a node and its name.
    pub(crate) fn make(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
        target: Option<&[u8]>,
    ) -> Result<Arc<Znode>> {
        self.make_referenced(who, (directory, name), node, target, 0)
    }

    /// The same, with references that the caller has from the beginning: the name may go as soon as it is there.
    fn make_referenced(
        &self,
        who: &Credentials,
        (directory, name): (ObjectId, &[u8]),
        node: &NewNode,
        target: Option<&[u8]>,
        references: u32,
    ) -> Result<Arc<Znode>> {
        let parent = self.directory(directory)?;
        self.check_new_name(name)?;
        self.check_node(node, target)?;
        if self.find(&parent, name)?.is_some() {
            return Err(PosixError::Exists);
        }
        self.check_directory_change(who, &parent, false)?;
        let inherited = self.inherit(who, &parent, node)?;
        self.check_new_object_quota(&inherited)?;
        let tx = self.begin(Plan {
            names: 1,
            objects: 6,
            ..Plan::default()
        })?;
        let names = parent.names.write();
        if names.removed {
            return Err(PosixError::NotFound);
        }
        if self.master.names.is_normalized() && self.find(&parent, name)?.is_some() {
            return Err(PosixError::Exists);
        }
        self.hold_entry(&tx, &parent)?;
        let znode = self.create_object(&tx, &parent, node, &inherited, target)?;
        znode.references.store(references, Ordering::Relaxed);
        self.table.insert(Arc::clone(&znode));
        let named = self
            .store_inherited_acls(&tx, &znode, &inherited)
            .and_then(|()| self.add_entry(&tx, &parent, name, (znode.id(), node.file_type)));
        if let Err(error) = named {
            self.abandon(&tx, &znode);
            return Err(error);
        }
        self.record_new(&tx, (parent.id(), name), &znode, target, &inherited);
        drop(names);
        Ok(znode)
    }

    /// Creates a regular file and a handle on it.
    pub(crate) fn create(
        self: &Arc<Self>,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        if node.file_type != FileType::Regular {
            return Err(PosixError::Invalid(
                "only regular files are opened when created",
            ));
        }
        let znode = self.make_referenced(who, (directory, name), node, None, 1)?;
        Ok(OpenFile::new(self, &znode, options, who))
    }

    /// Creates a file without a name; it is listed as unlinked until it gets one.
    pub(crate) fn create_unnamed(
        self: &Arc<Self>,
        who: &Credentials,
        directory: ObjectId,
        node: &NewNode,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        if node.file_type != FileType::Regular {
            return Err(PosixError::Invalid(
                "only regular files can be without a name",
            ));
        }
        let parent = self.directory(directory)?;
        self.check_directory_change(who, &parent, false)?;
        let mut inherited = self.inherit(who, &parent, node)?;
        inherited.links = 0;
        self.check_new_object_quota(&inherited)?;
        let tx = self.begin(Plan {
            names: 1,
            objects: 6,
            ..Plan::default()
        })?;
        let znode = self.create_object(&tx, &parent, node, &inherited, None)?;
        znode.state.write().unnamed = true;
        znode.references.store(1, Ordering::Relaxed);
        self.table.insert(Arc::clone(&znode));
        // Whoever goes through the list finds this copy of the file, which is open. It comes last: what is abandoned is
        // not listed.
        let listed = self
            .store_inherited_acls(&tx, &znode, &inherited)
            .and_then(|()| self.list_unlinked(&tx, znode.id()));
        if let Err(error) = listed {
            self.abandon(&tx, &znode);
            return Err(error);
        }
        Ok(OpenFile::new(self, &znode, options, who))
    }

    pub(crate) fn link(
        &self,
        who: &Credentials,
        object: ObjectId,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Arc<Znode>> {
        let parent = self.directory(directory)?;
        let znode = self.znode(object)?;
        self.check_new_name(name)?;
        self.check_link(&znode, &parent)?;
        if self.find(&parent, name)?.is_some() {
            return Err(PosixError::Exists);
        }
        self.check_directory_change(who, &parent, false)?;
        let tx = self.begin(Plan {
            names: 2,
            objects: 2,
            ..Plan::default()
        })?;
        let names = parent.names.write();
        if names.removed {
            return Err(PosixError::NotFound);
        }
        if self.find(&parent, name)?.is_some() {
            return Err(PosixError::Exists);
        }
        self.hold_entry(&tx, &parent)?;
        self.add_link(&tx, &znode, (&parent, name))?;
        drop(names);
        Ok(znode)
    }

    /// Gives a file a further name in a directory whose names and attributes are held. Adding the name is the first
    /// change, and the last that can fail.
    fn add_link(&self, tx: &Tx, znode: &Znode, (parent, name): (&Znode, &[u8])) -> Result<()> {
        let object = znode.id();
        let mut state = znode.state.write();
        if state.freed || state.links == 0 && !state.unnamed {
            return Err(PosixError::NotFound);
        }
        if state.links >= LINKS_MAX {
            return Err(PosixError::TooManyLinks);
        }
        znode.hold(tx, &self.store, &mut state, &OF_A_NAME)?;
        let unnamed = state.links == 0;
        if unnamed {
            self.unlinked_set()?.hold_int(tx, object.0)?;
        }
        self.add_name(tx, parent, name, self.pack(object, state.file_type()))?;
        self.whole(tx, || {
            if unnamed {
                self.unlinked_set()?.remove_int(tx, object.0)?;
                state.unnamed = false;
            }
            state.links += 1;
            state.parent = parent.id();
            state.ctime = self.now();
            znode.store(tx, &self.store, &mut state, &OF_A_NAME)?;
            if unnamed {
                // How it came to be is in no record.
                self.note_unlogged(tx);
            } else {
                let change = Change::Link {
                    directory: parent.id(),
                    object,
                    name,
                };
                self.record(tx, Scope::Names, &[change]);
            }
            // Not before: its other names may go as soon as this one counts.
            drop(state);
            self.note_entry(
                tx,
                parent,
                EntryChange {
                    entries: 1,
                    subdirectories: 0,
                },
            )
        })
    }

    fn check_link(&self, znode: &Znode, parent: &Znode) -> Result<()> {
        let project = {
            let state = parent.state.read();
            state
                .has(flags::PROJECT_INHERIT)
                .then(|| state.shown_project())
        };
        let state = znode.state.read();
        if znode.alive(&state)?.is_directory() {
            return Err(PosixError::NotPermitted("hard link to a directory"));
        }
        if self.forbids(&state, flags::IMMUTABLE | flags::APPEND_ONLY) {
            return Err(PosixError::NotPermitted("the file is immutable"));
        }
        let strange = project.is_some_and(|project| project != state.shown_project());
        if strange && !self.replaying {
            return Err(PosixError::CrossDevice);
        }
        Ok(())
    }

    fn check_node(&self, node: &NewNode, target: Option<&[u8]>) -> Result<()> {
        if let Some(target) = target {
            if target.is_empty() {
                return Err(PosixError::NotFound);
            }
            if target.len() > TARGET_MAX {
                return Err(PosixError::NameTooLong);
            }
        }
        let is_link = node.file_type == FileType::Symlink;
        if is_link != target.is_some() {
            return Err(PosixError::Invalid("a target goes with a symbolic link"));
        }
        Ok(())
    }

    /// What a new node takes from its creator and its directory.
    fn inherit(&self, who: &Credentials, parent: &Znode, node: &NewNode) -> Result<Inherited> {
        let is_directory = node.file_type == FileType::Directory;
        let is_link = node.file_type == FileType::Symlink;
        let default = if is_link {
            None
        } else {
            self.default_acl(parent)?
        };
        let state = parent.state.read();
        let mut permissions = if is_link {
            0o777
        } else {
            node.permissions & 0o7777
        };
        let mut access = None;
        match &default {
            Some(acl) => {
                let list = acl.inherit(permissions);
                permissions = permissions & !0o777 | list.permissions();
                access = (!list.is_mode_only()).then_some(list);
            }
            None if is_link => {}
            None => permissions &= !(node.umask & 0o777),
        }
        let mut gid = u64::from(who.gid);
        if state.mode & SET_GID != 0 {
            gid = state.gid;
            if is_directory {
                permissions |= SET_GID;
            }
        }
        if !is_directory && permissions & SET_GID != 0 && !who.privileged {
            let member = u32::try_from(gid).is_ok_and(|gid| who.is_in_group(gid));
            let means_group = permissions & 0o010 != 0;
            permissions &= if member || !means_group {
                u32::MAX
            } else {
                !SET_GID
            };
        }
        if is_link {
            permissions &= !(SET_UID | SET_GID);
        }
        let passes_project = state.has(flags::PROJECT_INHERIT);
        Ok(Inherited {
            permissions,
            uid: who.uid.into(),
            gid,
            project: if passes_project { state.project } else { 0 },
            flags: if passes_project && is_directory {
                flags::PROJECT_INHERIT
            } else {
                0
            },
            links: if is_directory { 2 } else { 1 },
            access,
            default: default
                .filter(|_| is_directory)
                .map(|acl| acl.as_ref().clone()),
        })
    }

    fn create_object(
        &self,
        tx: &Tx,
        parent: &Znode,
        node: &NewNode,
        inherited: &Inherited,
        target: Option<&[u8]>,
    ) -> Result<Arc<Znode>> {
        let has_device = matches!(
            node.file_type,
            FileType::BlockDevice | FileType::CharacterDevice
        );
        self.create_file(
            tx,
            &NewFile {
                mode: node.file_type.bits() << 12 | inherited.permissions,
                uid: inherited.uid,
                gid: inherited.gid,
                parent: Some(parent.id()),
                flags: inherited.flags,
                project: inherited.project,
                device: if has_device {
                    join_device(node.device)
                } else {
                    0
                },
                links: inherited.links,
                target,
                now: self.now(),
                slots: self.properties().dnode_slots,
                claim: None,
            },
        )
    }

    fn store_inherited_acls(&self, tx: &Tx, znode: &Arc<Znode>, from: &Inherited) -> Result<()> {
        for (name, acl) in [(ACCESS_NAME, &from.access), (DEFAULT_NAME, &from.default)] {
            if let Some(acl) = acl {
                self.store_acl((tx, None), znode, name, Some(acl))?;
            }
        }
        Ok(())
    }

    /// Notes a new file with the access lists that it has from its directory: it is never there
    /// without them.
    fn record_new(
        &self,
        tx: &Tx,
        (directory, name): (ObjectId, &[u8]),
        znode: &Znode,
        target: Option<&[u8]>,
        from: &Inherited,
    ) {
        let lists = [(ACCESS_NAME, &from.access), (DEFAULT_NAME, &from.default)];
        let lists: Vec<(&[u8], Vec<u8>)> = lists
            .into_iter()
            .filter_map(|(name, acl)| Some((name, acl.as_ref()?.encode())))
            .collect();
        if !lists.is_empty() && znode.state.read().xattr.0 != 0 {
            return self.note_unlogged(tx);
        }
        let mut changes = vec![log::creation(directory, znode, name, target)];
        changes.extend(lists.iter().map(|(name, value)| Change::SetXattr {
            object: znode.id(),
            name,
            value: Some(value),
        }));
        self.record(tx, Scope::Names, &changes);
    }

    /// Takes back an object that got no name.
    pub(crate) fn abandon(&self, tx: &Tx, znode: &Znode) {
        let extended = {
            let mut state = znode.state.write();
            state.freed = true;
            state.xattr
        };
        // Should this fail too, the objects are lost until someone looks for objects without names.
        if extended.0 != 0 {
            let _ = self.abandon_xattrs(tx, extended);
        }
        let _ = self.store.objects.free(tx, znode.id());
        self.table.remove(znode.id());
    }
}
