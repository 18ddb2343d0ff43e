//! A mounted file system and its operations on names and attributes.

use crate::{
    Access, Attributes, CaseSensitivity, Credentials, DatasetProperties, DirectoryEntry, FileType,
    OpenFile, OpenOptions, RenameMode, Result, SetAttributes, Statistics, Visit, XattrMode,
};
use base::ObjectId;

/// What a new node shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewNode {
    /// Its kind; regular files, pipes, sockets and devices through `mknod` and `create`.
    pub file_type: FileType,
    /// Permissions asked for (12 bits).
    pub permissions: u32,
    /// The caller's mask; a default ACL of the directory replaces it.
    pub umask: u32,
    /// Major and minor number of a device.
    pub device: (u32, u32),
}

/// One mounted object set. Shared by all threads; every operation takes `&self`.
#[derive(Debug)]
pub struct FileSystem {}

impl FileSystem {
    /// The root directory.
    pub fn root(&self) -> ObjectId {
        unimplemented!()
    }

    /// Whether changes are refused.
    pub fn is_read_only(&self) -> bool {
        unimplemented!()
    }

    /// How names compare.
    pub fn case_sensitivity(&self) -> CaseSensitivity {
        unimplemented!()
    }

    /// Replaces the effective properties (after `zfs set`).
    pub fn set_properties(&self, properties: DatasetProperties) {
        let _ = properties;
        unimplemented!()
    }

    /// `statfs` seen from `object` (a directory with a project quota shows that quota).
    pub fn statfs(&self, object: ObjectId) -> Result<Statistics> {
        let _ = object;
        unimplemented!()
    }

    /// Finds `name` in `directory`; `.` and `..` work.
    pub fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Attributes> {
        let _ = (who, directory, name);
        unimplemented!()
    }

    /// Attributes of an object.
    pub fn getattr(&self, object: ObjectId) -> Result<Attributes> {
        let _ = object;
        unimplemented!()
    }

    /// Changes attributes; returns them as they are then.
    pub fn setattr(
        &self,
        who: &Credentials,
        object: ObjectId,
        change: &SetAttributes,
    ) -> Result<Attributes> {
        let _ = (who, object, change);
        unimplemented!()
    }

    /// Whether `who` may do `access` to `object`.
    pub fn access(&self, who: &Credentials, object: ObjectId, access: Access) -> Result<()> {
        let _ = (who, object, access);
        unimplemented!()
    }

    /// The target of a symbolic link.
    pub fn readlink(&self, object: ObjectId) -> Result<Vec<u8>> {
        let _ = object;
        unimplemented!()
    }

    /// Shows entries from `cookie` on (0 starts) until the end or [`Visit::Full`].
    pub fn readdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>) -> Visit,
    ) -> Result<()> {
        let _ = (who, directory, cookie, visit);
        unimplemented!()
    }

    /// As [`Self::readdir`] with each entry's attributes; `None` when they cannot be read.
    pub fn readdirplus(
        &self,
        who: &Credentials,
        directory: ObjectId,
        cookie: u64,
        visit: &mut dyn FnMut(&DirectoryEntry<'_>, Option<&Attributes>) -> Visit,
    ) -> Result<()> {
        let _ = (who, directory, cookie, visit);
        unimplemented!()
    }

    /// Opens an existing file or directory.
    pub fn open(
        &self,
        who: &Credentials,
        object: ObjectId,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let _ = (who, object, options);
        unimplemented!()
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
        let _ = (who, directory, name, node, options);
        unimplemented!()
    }

    /// Creates a file without a name (`O_TMPFILE`) that [`Self::link`] may name later.
    pub fn create_unnamed(
        &self,
        who: &Credentials,
        directory: ObjectId,
        node: &NewNode,
        options: OpenOptions,
    ) -> Result<(OpenFile, Attributes)> {
        let _ = (who, directory, node, options);
        unimplemented!()
    }

    /// Creates a node of any kind but directory and link.
    pub fn mknod(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attributes> {
        let _ = (who, directory, name, node);
        unimplemented!()
    }

    /// Creates a directory.
    pub fn mkdir(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        node: &NewNode,
    ) -> Result<Attributes> {
        let _ = (who, directory, name, node);
        unimplemented!()
    }

    /// Creates a symbolic link.
    pub fn symlink(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
        target: &[u8],
    ) -> Result<Attributes> {
        let _ = (who, directory, name, target);
        unimplemented!()
    }

    /// Gives `object` another name.
    pub fn link(
        &self,
        who: &Credentials,
        object: ObjectId,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Attributes> {
        let _ = (who, object, directory, name);
        unimplemented!()
    }

    /// Removes the name of anything but a directory; returns the object it named.
    pub fn unlink(&self, who: &Credentials, directory: ObjectId, name: &[u8]) -> Result<ObjectId> {
        let _ = (who, directory, name);
        unimplemented!()
    }

    /// Removes an empty directory; returns the object it named.
    pub fn rmdir(&self, who: &Credentials, directory: ObjectId, name: &[u8]) -> Result<ObjectId> {
        let _ = (who, directory, name);
        unimplemented!()
    }

    /// Moves a name.
    pub fn rename(
        &self,
        who: &Credentials,
        from: (ObjectId, &[u8]),
        to: (ObjectId, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let _ = (who, from, to, mode);
        unimplemented!()
    }

    /// Names of the extended attributes that `who` may see.
    pub fn listxattr(&self, who: &Credentials, object: ObjectId) -> Result<Vec<Vec<u8>>> {
        let _ = (who, object);
        unimplemented!()
    }

    /// The value of an extended attribute.
    pub fn getxattr(&self, who: &Credentials, object: ObjectId, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (who, object, name);
        unimplemented!()
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
        let _ = (who, object, name, value, mode);
        unimplemented!()
    }

    /// Removes an extended attribute.
    pub fn removexattr(&self, who: &Credentials, object: ObjectId, name: &[u8]) -> Result<()> {
        let _ = (who, object, name);
        unimplemented!()
    }

    /// Waits until all changes so far are durable.
    pub fn sync(&self) -> Result<()> {
        unimplemented!()
    }

    /// Frees files that were unlinked while open and left by a crash; done at a read-write mount,
    /// in pieces, by whoever calls it.
    pub fn drain_unlinked(&self) -> Result<u64> {
        unimplemented!()
    }

    /// Ends all use: waits for changes to be durable, writes lazily kept access times back.
    pub fn unmount(&self) -> Result<()> {
        unimplemented!()
    }
}
