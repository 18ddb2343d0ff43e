//! Finding names.

use std::sync::Arc;

use base::ObjectId;
use dmu::ZapMatch;

use crate::core::Core;
use crate::names::{is_dot, unpack_entry};
use crate::znode::Znode;
use crate::{Access, Credentials, FileType, OpenFile, OpenOptions, PosixError, Result};

/// An entry as found: the stored spelling, when it may differ from the one asked for.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) object: ObjectId,
    pub(crate) spelling: Option<Vec<u8>>,
}

impl Found {
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
        self.znode(found.object).map_err(|error| match error {
            // Freed between both looks.
            PosixError::Stale => PosixError::NotFound,
            error => error,
        })
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
            _ => {}
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
