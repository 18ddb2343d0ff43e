//! Extended attributes: packed among the system attributes, or as files of a hidden directory.
//!
//! A name lives in one of both places. Reading looks at the packed ones first. Names are stored
//! with their Linux namespace (`user.`); what other platforms store without it is found too.

mod change;
mod packed;

use std::sync::Arc;

use base::ObjectId;
use dmu::Zap;
use format::sa::Attribute;

use crate::core::Core;
use crate::names::unpack_entry;
use crate::posix_acl::{ACCESS_NAME, DEFAULT_NAME, PosixAcl};
use crate::znode::{AclCache, State, Znode};
use crate::{Access, Corruption, Credentials, PosixError, Result, XattrStore};

const USER: &[u8] = b"user.";
const TRUSTED: &[u8] = b"trusted.";
const SECURITY: &[u8] = b"security.";
const SYSTEM: &[u8] = b"system.";
/// The longest value that Linux passes.
pub(crate) const VALUE_MAX: usize = 65_536;
const NAME_MAX: usize = 255;

impl Core {
    pub(crate) fn list_xattrs(&self, who: &Credentials, znode: &Znode) -> Result<Vec<Vec<u8>>> {
        if self.properties().xattr == XattrStore::Off {
            return Ok(Vec::new());
        }
        let state = znode.state.read();
        let packed = znode.value(znode.alive(&state)?, Attribute::Dxattr)?;
        let directory = state.xattr;
        drop(state);
        let mut names = Vec::new();
        if let Some(packed) = packed {
            let damaged = |_| znode.corrupt(Corruption::ExtendedAttributes);
            names = packed::names(&packed).map_err(damaged)?;
        }
        if directory.0 != 0 {
            for entry in Zap::open(&self.object(directory)?)?.entries()? {
                if !names.contains(&entry.name) {
                    names.push(entry.name);
                }
            }
        }
        let acls = self.has_posix_acls();
        names.iter_mut().for_each(shown_name);
        names.retain(|name| {
            (who.privileged || !name.starts_with(TRUSTED))
                && (acls || name != ACCESS_NAME && name != DEFAULT_NAME)
        });
        Ok(names)
    }

    pub(crate) fn get_xattr(
        &self,
        who: &Credentials,
        znode: &Arc<Znode>,
        name: &[u8],
    ) -> Result<Vec<u8>> {
        self.check_xattr_name(who, znode, name, Access::READ)?;
        if self.properties().xattr == XattrStore::Off {
            return Err(PosixError::NoAttribute);
        }
        self.find_xattr(znode, name)?.ok_or(PosixError::NoAttribute)
    }

    /// The value of an attribute, wherever it is.
    pub(crate) fn find_xattr(&self, znode: &Znode, name: &[u8]) -> Result<Option<Vec<u8>>> {
        let state = znode.state.read();
        let packed = znode.value(znode.alive(&state)?, Attribute::Dxattr)?;
        let directory = state.xattr;
        drop(state);
        let other = other_name(name);
        if let Some(packed) = packed {
            let damaged = |_| znode.corrupt(Corruption::ExtendedAttributes);
            let list = packed::decode(&packed).map_err(damaged)?;
            let found = list.bytes(name).or_else(|| list.bytes(other?));
            if let Some(value) = found {
                return Ok(Some(value.to_vec()));
            }
        }
        if directory.0 == 0 {
            return Ok(None);
        }
        let zap = Zap::open(&self.object(directory)?)?;
        let found = match (zap.lookup(name)?, other) {
            (None, Some(other)) => zap.lookup(other)?,
            (found, _) => found,
        };
        found
            .map(|entry| self.read_xattr_file(unpack_entry(entry).0))
            .transpose()
    }

    fn read_xattr_file(&self, id: ObjectId) -> Result<Vec<u8>> {
        let file = self.znode(id)?;
        let size = file.state.read().size;
        let size = usize::try_from(size).ok().filter(|&size| size <= VALUE_MAX);
        let mut value = vec![0; size.ok_or_else(|| file.corrupt(Corruption::ExtendedAttributes))?];
        file.object.read(0, &mut value)?;
        Ok(value)
    }

    /// Refuses names that `who` may not use so on this file.
    fn check_xattr_name(
        &self,
        who: &Credentials,
        znode: &Znode,
        name: &[u8],
        access: Access,
    ) -> Result<()> {
        if name.is_empty() || name.len() > NAME_MAX || name.contains(&0) {
            return Err(PosixError::OutOfRange);
        }
        let writes = access.contains(Access::WRITE);
        let (state_owner, kind) = {
            let state = znode.state.read();
            (self.is_owner(who, znode.alive(&state)?), state.file_type())
        };
        if name.starts_with(USER) {
            let plain = matches!(kind, crate::FileType::Regular | crate::FileType::Directory);
            if !plain {
                return match writes {
                    true => Err(PosixError::NotPermitted("user attribute of a special file")),
                    false => Err(PosixError::NoAttribute),
                };
            }
            return self.check(who, znode, access);
        }
        if name.starts_with(TRUSTED) {
            return match (who.privileged, writes) {
                (true, _) => Ok(()),
                (false, true) => Err(PosixError::NotPermitted("trusted attribute")),
                (false, false) => Err(PosixError::NoAttribute),
            };
        }
        if name == ACCESS_NAME || name == DEFAULT_NAME {
            if !self.has_posix_acls() {
                return Err(PosixError::NotSupported("POSIX access lists"));
            }
            return if state_owner || !writes {
                Ok(())
            } else {
                Err(PosixError::NotPermitted("access list of another's file"))
            };
        }
        if name.starts_with(SECURITY) {
            // The kernel's security modules decide about theirs.
            return if who.privileged || !writes || self.options.kernel_checks_permissions {
                Ok(())
            } else {
                Err(PosixError::NotPermitted("security attribute"))
            };
        }
        let _ = SYSTEM;
        Err(PosixError::NotSupported("namespace of extended attributes"))
    }

    /// The POSIX access list in force on a file, beyond its mode.
    pub(crate) fn access_acl(&self, znode: &Znode) -> Result<Option<Arc<PosixAcl>>> {
        self.cached_acl(znode, ACCESS_NAME, |state| &mut state.access_acl)
    }

    /// The list that new entries of a directory inherit.
    pub(crate) fn default_acl(&self, znode: &Znode) -> Result<Option<Arc<PosixAcl>>> {
        self.cached_acl(znode, DEFAULT_NAME, |state| &mut state.default_acl)
    }

    fn cached_acl(
        &self,
        znode: &Znode,
        name: &[u8],
        place: impl Fn(&mut State) -> &mut AclCache,
    ) -> Result<Option<Arc<PosixAcl>>> {
        if !self.has_posix_acls() {
            return Ok(None);
        }
        {
            let state = znode.state.read();
            let cached = match name {
                ACCESS_NAME => &state.access_acl,
                _ => &state.default_acl,
            };
            if let AclCache::Known(acl) = cached {
                return Ok(acl.clone());
            }
            if !znode.has_xattrs(&state) {
                return Ok(None);
            }
        }
        let acl = match self.find_xattr(znode, name)? {
            Some(value) => PosixAcl::decode(&value)
                .map_err(|_| znode.corrupt(Corruption::AccessControlList))?
                .map(Arc::new),
            None => None,
        };
        *place(&mut znode.state.write()) = AclCache::Known(acl.clone());
        Ok(acl)
    }
}

impl Znode {
    /// Whether the file may have extended attributes.
    pub(crate) fn has_xattrs(&self, state: &State) -> bool {
        state.xattr.0 != 0 || state.form.has(Attribute::Dxattr)
    }
}

/// What another platform calls an attribute that Linux calls `name`.
fn other_name(name: &[u8]) -> Option<&[u8]> {
    name.strip_prefix(USER).filter(|rest| !is_namespaced(rest))
}

/// Gives a name without a namespace the one that it means.
fn shown_name(name: &mut Vec<u8>) {
    if !is_namespaced(name) {
        name.splice(0..0, USER.iter().copied());
    }
}

fn is_namespaced(name: &[u8]) -> bool {
    [USER, TRUSTED, SECURITY, SYSTEM]
        .iter()
        .any(|space| name.starts_with(space))
}
