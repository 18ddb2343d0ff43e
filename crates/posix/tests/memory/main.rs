//! File semantics on a pool in memory: single rules, and long random histories against a model.

mod damage;
mod data;
mod diary;
mod history;
mod names;
mod permissions;
mod races;
mod store;
mod xattrs;

use millpond_posix::{Credentials, FileType, NewNode, OpenFile, OpenOptions};
use store::MemoryPool;

pub(crate) fn root() -> Credentials {
    Credentials::root()
}

pub(crate) fn node(file_type: FileType, permissions: u32) -> NewNode {
    NewNode {
        file_type,
        permissions,
        umask: 0,
        device: (0, 0),
    }
}

pub(crate) const READ_WRITE: OpenOptions = OpenOptions {
    read: true,
    write: true,
    append: false,
    truncate: false,
    sync: false,
    keep_access_time: false,
    execute: false,
};

impl MemoryPool {
    /// A new file in the root directory.
    pub(crate) fn file(&self, name: &str) -> OpenFile {
        let node = node(FileType::Regular, 0o644);
        self.fs
            .create(&root(), self.fs.root(), name.as_bytes(), &node, READ_WRITE)
            .unwrap()
            .0
    }

    pub(crate) fn directory(&self, name: &str) -> base::ObjectId {
        let node = node(FileType::Directory, 0o755);
        self.fs
            .mkdir(&root(), self.fs.root(), name.as_bytes(), &node)
            .unwrap()
            .object
    }

    pub(crate) fn object(&self, name: &str) -> base::ObjectId {
        self.fs
            .lookup(&root(), self.fs.root(), name.as_bytes())
            .unwrap()
            .object
    }
}
