//! Finding names.

use std::sync::Arc;

use base::ObjectId;
use dmu::ZapMatch;

use crate::core::Core;
use crate::names::{is_dot, unpack_entry};
use crate::readdir::AFTER_DOT_DOT;
use crate::znode::Znode;
use crate::{Access, Credentials, FileType, OpenFile, OpenOptions, PosixError, Result, Visit};

/// An entry as found: the stored spelling, when it may differ from the one asked for.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) object: ObjectId,
    pub(crate) spelling: Option<Vec<u8>>,
}

impl Found {
    /// Whether the entry leads to this file; the caller holds the directory's names. While a caller waited for its
    /// transaction the file may have been freed, and another one may have its number.
    pub(crate) fn is(&self, file: &Znode) -> bool {
        self.object == file.id() && !file.state.read().freed
    }

    /// The name under which the entry is stored.
    pub(crate) fn stored<'a>(&'a self, asked: &'a [u8]) -> &'a [u8] {
        self.spelling.as_deref().unwrap_or(asked)
    }
}

impl Core {
    /// Finds an entry. The caller holds the directory's names, or does not care that the answer
    /// may be old.
    pub(crate) fn find(&self, directory: &Znode, name: &[u8]) -> Result<Option<Found>> {
        let zap = self.entries(directory)?;
        let how = self.master.names.matching();
        if how == ZapMatch::Exact {
            let found = zap.lookup(name)?.map(unpack_entry);
            return Ok(found.map(|(object, _)| Found {
                object,
                spelling: None,
            }));
        }
        Ok(zap.lookup_matching(name, how)?.map(|found| {
            let (object, _) = unpack_entry(found.value);
            Found {
                object,
                spelling: Some(found.name),
            }
        }))
    }

    pub(crate) fn lookup(
        &self,
        who: &Credentials,
        directory: ObjectId,
        name: &[u8],
    ) -> Result<Arc<Znode>> {
        let znode = self.directory(directory)?;
        self.check(who, &znode, Access::EXECUTE)?;
        if is_dot(name) {
            let parent = znode.state.read().parent;
            return if name.len() == 1 {
                Ok(znode)
            } else {
                self.znode(parent)
            };
        }
        self.master.names.check(name, format::zap::NAME_LONG_MAX)?;
        let found = {
            let _names = znode.names.read();
            self.find(&znode, name)?
        };
        let Some(found) = found else {
            // A name that could not be created is told apart from one that is not there.
            self.master.names.check(name, self.name_length_max())?;
            return Err(PosixError::NotFound);
        };
        self.znode(found.object)
            .map_err(PosixError::of_named_object)
    }

    /// A path of an object below the root, by way of the parents that objects remember; none when
    /// no name leads to it any more.
    pub(crate) fn path_of(&self, object: ObjectId) -> Result<Option<Vec<u8>>> {
        /// Deeper than any path that can be given to a system call.
        const DEPTH_MAX: usize = 4096;
        let mut names = Vec::new();
        let mut object = object;
        while object != self.master.root {
            let parent = self.znode(object)?.state.read().parent;
            let mut found = None;
            self.read_directory(parent, AFTER_DOT_DOT, &mut |entry| {
                if entry.object == object {
                    found = Some(entry.name.to_vec());
                    return Visit::Full;
                }
                Visit::Continue
            })?;
            match found {
                Some(name) if names.len() < DEPTH_MAX => names.push(name),
                _ => return Ok(None),
            }
            object = parent;
        }
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        Ok(Some(path))
    }

    pub(crate) fn open(
        self: &Arc<Self>,
        who: &Credentials,
        object: ObjectId,
        options: OpenOptions,
    ) -> Result<OpenFile> {
        let znode = self.znode(object)?;
        let file_type = znode.alive(&znode.state.read())?.file_type();
        let mut access = Access::NONE;
        for (wanted, bit) in [
            (options.read, Access::READ),
            (options.write, Access::WRITE),
            (options.execute, Access::EXECUTE),
        ] {
            access = if wanted { access.and(bit) } else { access };
        }
        match file_type {
            FileType::Directory if options.write || options.truncate => {
                return Err(PosixError::IsDirectory);
            }
            FileType::Symlink => return Err(PosixError::Invalid("opening a symbolic link")),
            FileType::Directory
            | FileType::Regular
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice => {}
        }
        self.check(who, &znode, access)?;
        if options.write {
            self.check_open_for_writing(&znode, options)?;
        }
        self.retain(&znode, 1)?;
        let file = OpenFile::new(self, &znode, options, who);
        if options.truncate && file_type == FileType::Regular {
            self.truncate(&znode, 0)?;
        }
        Ok(file)
    }
}
