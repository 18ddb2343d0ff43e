//! The master node: the table that names everything else in a file system.

use base::ObjectId;
use dmu::{ObjectSet, Zap};

use crate::names::NameRules;
use crate::{CaseSensitivity, Corruption, PosixError, Result};

/// The object number of the master node.
pub(crate) const MASTER_NODE: ObjectId = ObjectId(1);
/// The newest version of file systems.
pub(crate) const VERSION: u64 = 5;
/// Directory entries carry types from this version on.
pub(crate) const VERSION_ENTRY_TYPES: u64 = 2;
/// Archive and scanner flags are kept from this version on.
pub(crate) const VERSION_FLAGS: u64 = 3;
/// System attributes exist from this version on.
pub(crate) const VERSION_SYSTEM_ATTRIBUTES: u64 = 5;

/// The keys of the quota tables: user, group, project; bytes, then objects.
pub(crate) const QUOTA_KEYS: [&[u8]; 6] = [
    b"userquota@",
    b"groupquota@",
    b"projectquota@",
    b"userobjquota@",
    b"groupobjquota@",
    b"projectobjquota@",
];

/// What the master node said at mount.
#[derive(Clone, Debug)]
pub(crate) struct Master {
    pub(crate) version: u64,
    pub(crate) root: ObjectId,
    pub(crate) unlinked_set: ObjectId,
    pub(crate) attributes: Option<ObjectId>,
    pub(crate) names: NameRules,
}

impl Master {
    /// Reads the master node.
    pub(crate) fn load(objects: &ObjectSet) -> Result<Self> {
        let damaged = || PosixError::Corrupt {
            object: MASTER_NODE,
            what: Corruption::MasterNode,
        };
        let zap = Zap::open(&objects.object(MASTER_NODE)?)?;
        let get = |key: &str| zap.lookup(key.as_bytes());
        let version = get("VERSION")?.unwrap_or(VERSION);
        if version == 0 || version > VERSION {
            return Err(PosixError::NotSupported("file system of a newer version"));
        }
        let case = match get("casesensitivity")?.unwrap_or(0) {
            0 => CaseSensitivity::Sensitive,
            1 => CaseSensitivity::Insensitive,
            2 => CaseSensitivity::Mixed,
            _ => return Err(damaged()),
        };
        let attributes = match version {
            VERSION_SYSTEM_ATTRIBUTES.. => get("SA_ATTRS")?.map(ObjectId),
            _ => None,
        };
        Ok(Self {
            version,
            root: get("ROOT")?.map(ObjectId).ok_or_else(damaged)?,
            unlinked_set: get("DELETE_QUEUE")?.map(ObjectId).ok_or_else(damaged)?,
            attributes,
            names: NameRules {
                case,
                normalization: get("normalization")?.unwrap_or(0),
                utf8_only: get("utf8only")?.unwrap_or(0) != 0,
            },
        })
    }
}
