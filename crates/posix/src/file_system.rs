//! A mounted file system and its operations on names and attributes.

use std::sync::Arc;

use base::{ObjectId, ObjectSetId, Txg};
use dmu::ObjectSet;

use crate::core::Core;
use crate::{
    Access, Attributes, CaseSensitivity, Credentials, DatasetProperties, DirectoryEntry, FileType,
    MountOptions, NewNode, OpenFile, OpenOptions, PosixError, QuotaKind, QuotaLine, QuotaUnit,
    Removed, RenameMode, Result, SetAttributes, Source, Statistics, Visit, XattrMode,
};

/// One mounted object set. Shared by all threads; every operation takes `&self`.
#[derive(Debug)]
pub struct FileSystem {
    pub(crate) core: Arc<Core>,
}

impl FileSystem {
    /// Mounts an object set: the head of a dataset, or a snapshot.
    pub fn mount(source: Source, options: MountOptions) -> Result<Arc<Self>> {
        let core = Arc::new(Core::new(source, options)?);
        core.directory(core.master.root)?;
        if core.options.frees_in_background {
            core.free_in_background();
        }
        Ok(Arc::new(Self { core }))
    }

    /// The root directory.
    pub fn root(&self) -> ObjectId {
        self.core.master.root
    }

    /// The object set: tells one mounted file system from another.
    pub fn object_set(&self) -> ObjectSetId {
        self.core.store.objects.id()
    }

    /// Its objects.
    pub(crate) fn objects(&self) -> &ObjectSet {
        &self.core.store.objects
    }

    /// The ZPL version: 5 is the newest.
    pub fn version(&self) -> u64 {
        self.core.master.version
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        self.core.writing().is_err()
    }

    /// Whether it was unmounted: nothing changes through it any more.
    pub fn has_ended(&self) -> bool {
        self.core.ended.load(std::sync::atomic::Ordering::SeqCst)
    }

    /// How names compare.
    pub fn case_sensitivity(&self) -> CaseSensitivity {
        self.core.master.names.case
    }

    /// Whether two different spellings may name one entry.
    pub fn has_normalized_names(&self) -> bool {
        self.core.master.names.is_normalized()
    }

    /// The effective properties.
    pub fn properties(&self) -> DatasetProperties {
        self.core.properties()
    }

    /// Replaces the effective properties (after `zfs set`).
    pub fn set_properties(&self, properties: DatasetProperties) {
        self.core.set_properties(properties);
    }

    /// Has space promised for writes to so many blocks of such a size, wherever they lie: until which txg, or none
    /// when that is refused.
    ///
    /// # Errors
    /// Nothing can be written here.
    pub fn promise_ahead(&self, blocks: u64, block_bytes: u32) -> Result<Option<Txg>> {
        self.core.promise_ahead(blocks, block_bytes)
    }

    /// Whether what was promised until a txg holds for what is written now.
    #[must_use]
    pub fn is_promised(&self, until: Txg) -> bool {
        self.core.is_promised(until)
    }

    /// `statfs` seen from `object` (a directory with a project quota shows that quota).
    pub fn statfs(&self, object: ObjectId) -> Result<Statistics> {
        self.core.statfs(object)
    }

    /// Finds `name` in `directory`; `.` and `..` work.
    pub fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Attributes> {
        let znode = self.core.lookup(who, directory, name)?;
        let state = znode.state.read();
        Ok(self.core.show(&znode, znode.alive(&state)?))
    }

    /// A path of an object from the root, which is empty; none when no name leads to it.
    pub fn path_of(&self, object: ObjectId) -> Result<Option<Vec<u8>>> {
        self.core.path_of(object)
    }

    /// Whether an object keeps extended attributes of a file: their directory, or one in it.
    ///
    /// # Errors
    /// There is no such object, or it cannot be read.
    pub fn is_extended_attribute(&self, object: ObjectId) -> Result<bool> {
        let znode = self.core.znode(object)?;
        let state = znode.state.read();
        Ok(state.has(crate::znode::internal_flags::XATTR))
    }

    /// Attributes of an object.
    pub fn getattr(&self, object: ObjectId) -> Result<Attributes> {
        let znode = self.core.znode(object)?;
        let state = znode.state.read();
        Ok(self.core.show(&znode, znode.alive(&state)?))
    }

    /// Takes `count` references on an object for a front end: an object without names is kept
    /// while there are any.
    pub fn retain(&self, object: ObjectId, count: u32) -> Result<()> {
        let znode = self.core.znode(object)?;
        self.core.retain(&znode, count)
    }

    /// Gives references back.
    pub fn release(&self, object: ObjectId, count: u32) {
        if let Ok(znode) = self.core.znode(object) {
            self.core.release(&znode, count);
        }
    }

    /// Changes attributes; returns them as they are then.
    pub fn setattr(
        &self,
        who: &Credentials,
        object: ObjectId,
        change: &SetAttributes,
    ) -> Result<Attributes> {
        let changed = self.core.set_attributes(who, object, change)?;
        self.core.settle(object)?;
        Ok(changed)
    }

    /// Whether `who` may do `access` to `object`.
    pub fn access(&self, who: &Credentials, object: ObjectId, access: Access) -> Result<()> {
        let znode = self.core.znode(object)?;
        self.core.check_always(who, &znode, access)
    }

    /// The target of a symbolic link.
    pub fn readlink(&self, object: ObjectId) -> Result<Vec<u8>> {
        let znode = self.core.znode(object)?;
        let state = znode.state.read();
        if znode.alive(&state)?.file_type() != FileType::Symlink {
            return Err(PosixError::Invalid("not a symbolic link"));
        }
        znode.link_target(&state)
    }

    /// Shows entries from `cookie` on (0 starts) until the end or [`Visit::Full`].
    pub fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> Visit,
    ) -> Result<()> {
        let znode = self.core.directory(directory)?;
        self.core.check(who, &znode, Access::READ)?;
        self.core.read_directory(directory, cookie, visit)
    }

    /// As [`Self::readdir`] with each entry's attributes; `None` when they cannot be read.
    pub fn readdirplus(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>, Option<&Attributes>) -> Visit,
    ) -> Result<()> {
        self.readdir(who, directory, cookie, &mut |entry| {
            let attributes = self.getattr(entry.object).ok();
            visit(entry, attributes.as_ref())
        })
    }

    /// Opens an existing file or directory.
    pub fn open(
        &self,
        who: &Credentials,
        object: ObjectId,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let file = self.core.open(who, object, options)?;
        if options.truncate {
            self.core.settle(object)?;
        }
        Ok(file)
    }

    /// Creates a regular file and opens it. An existing name: [`crate::PosixError::Exists`].
    pub fn create(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
        options: OpenOptions,
    ) -> Result<(OpenFile, Attributes)> {
        let file = self.core.create(who, directory, name, node, options)?;
        self.core.settle(directory)?;
        let attributes = file.attributes()?;
        Ok((file, attributes))
    }

    /// Creates a file without a name (`O_TMPFILE`) that [`Self::link`] may name later.
    pub fn create_unnamed(
        &self,
        who: &Credentials,
        directory: ObjectId,
        node: &NewNode,
        options: OpenOptions,
    ) -> Result<(OpenFile, Attributes)> {
        let file = self.core.create_unnamed(who, directory, node, options)?;
        let attributes = file.attributes()?;
        Ok((file, attributes))
    }

    /// Creates a node of any kind but directory and link.
    pub fn mknod(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attributes> {
        if matches!(node.file_type, FileType::Directory | FileType::Symlink) {
            return Err(PosixError::Invalid("mknod of a directory or link"));
        }
        let znode = self.core.make(who, directory, name, node, None)?;
        self.core.settle(directory)?;
        let state = znode.state.read();
        Ok(self.core.show(&znode, &state))
    }

    /// Creates a directory.
    pub fn mkdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attributes> {
        let node = NewNode {
            file_type: FileType::Directory,
            ..*node
        };
        let znode = self.core.make(who, directory, name, &node, None)?;
        self.core.settle(directory)?;
        let state = znode.state.read();
        Ok(self.core.show(&znode, &state))
    }

    /// Creates a symbolic link.
    pub fn symlink(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attributes> {
        let node = NewNode {
            file_type: FileType::Symlink,
            permissions: 0o777,
            umask: 0,
            device: (0, 0),
        };
        let znode = self.core.make(who, directory, name, &node, Some(target))?;
        self.core.settle(directory)?;
        let state = znode.state.read();
        Ok(self.core.show(&znode, &state))
    }

    /// Gives `object` another name.
    pub fn link(
        &self,
        who: &Credentials,
        object: ObjectId,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Attributes> {
        let znode = self.core.link(who, object, directory, name)?;
        self.core.settle(directory)?;
        let state = znode.state.read();
        Ok(self.core.show(&znode, &state))
    }

    /// Somebody came to a file by its number, as they had looked it up, and its name had gone since. They look it up
    /// once more, and are to find then what they look up: for 30 seconds from now on, a file whose last name goes stays
    /// while the caller has its [`Removed`], under [`MountOptions::keeps_removed`].
    pub fn came_late(&self) {
        self.core.came_late();
    }

    /// Removes the name of anything but a directory; returns what it named.
    pub fn unlink(&self, who: &Credentials, directory: ObjectId, name: &[u8]) -> Result<Removed> {
        let gone = Removed::new(&self.core, self.core.unlink(who, directory, name)?);
        self.core.settle(directory)?;
        Ok(gone)
    }

    /// Removes an empty directory; returns what it named.
    pub fn rmdir(&self, who: &Credentials, directory: ObjectId, name: &[u8]) -> Result<Removed> {
        let gone = Removed::new(&self.core, self.core.rmdir(who, directory, name)?);
        self.core.settle(directory)?;
        Ok(gone)
    }

    /// Moves a name; returns what it replaced.
    pub fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        mode: RenameMode,
    ) -> Result<Option<Removed>> {
        let replaced = self.core.rename(who, from, to, mode)?;
        let gone = replaced.map(|gone| Removed::new(&self.core, gone));
        self.core.settle(to.0)?;
        Ok(gone)
    }

    /// Names of the extended attributes that `who` may see.
    pub fn listxattr(&self, who: &Credentials, object: ObjectId) -> Result<Vec<Vec<u8>>> {
        let znode = self.core.znode(object)?;
        self.core.list_xattrs(who, &znode)
    }

    /// The value of an extended attribute.
    pub fn getxattr(&self, who: &Credentials, object: ObjectId, name: &[u8]) -> Result<Vec<u8>> {
        let znode = self.core.znode(object)?;
        self.core.get_xattr(who, &znode, name)
    }

    /// Sets an extended attribute.
    pub fn setxattr(
        &self,
        who: &Credentials,
        object: ObjectId,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let znode = self.core.znode(object)?;
        self.core.set_xattr(who, &znode, name, value, mode)?;
        self.core.settle(object)
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, who: &Credentials, object: ObjectId, name: &[u8]) -> Result<()> {
        let znode = self.core.znode(object)?;
        self.core.remove_xattr(who, &znode, name)?;
        self.core.settle(object)
    }

    /// Waits until all changes of the names in a directory so far, and of its attributes, are
    /// durable.
    pub fn fsync_directory(&self, directory: ObjectId) -> Result<()> {
        let znode = self.core.znode(directory)?;
        self.core.fsync(&znode)
    }

    /// Waits until all changes so far are durable.
    pub fn sync(&self) -> Result<()> {
        self.core.sync()
    }

    /// Frees files that were unlinked while open and left by a crash; done at a read-write mount,
    /// in pieces, by whoever calls it.
    pub fn drain_unlinked(&self) -> Result<u64> {
        self.core.drain_unlinked()
    }

    /// How many files have no name and are not freed yet: open ones, and those being freed. None on
    /// a read-only mount, which frees nothing.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn unlinked(&self) -> Result<u64> {
        match self.core.writing() {
            Ok(_) => Ok(self.core.unlinked_set()?.len()?),
            Err(_) => Ok(0),
        }
    }

    /// Ends all use: waits for changes to be durable, writes lazily kept access times back.
    pub fn unmount(&self) -> Result<()> {
        self.core.end()
    }

    /// Who uses how much, and the limits.
    pub fn quotas(&self, kind: QuotaKind) -> Result<Vec<QuotaLine>> {
        self.core.quota_lines(kind)
    }

    /// Sets a limit; 0 removes it.
    pub fn set_quota(&self, kind: QuotaKind, unit: QuotaUnit, id: u64, limit: u64) -> Result<()> {
        self.core.set_quota(kind, unit, id, limit)
    }
}
