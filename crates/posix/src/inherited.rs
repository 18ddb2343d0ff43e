//! What a new node takes from others.

use crate::posix_acl::PosixAcl;

/// What a new node takes from its creator and its directory.
#[derive(Clone, Debug)]
pub(crate) struct Inherited {
    pub(crate) permissions: u32,
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) project: u64,
    pub(crate) flags: u64,
    pub(crate) links: u64,
    pub(crate) access: Option<PosixAcl>,
    pub(crate) default: Option<PosixAcl>,
}
