//! Writing a new, empty file system into a new object set, as OpenZFS does: the same objects under
//! the same numbers.

use std::sync::Arc;

use base::{ObjectId, clock::Clock};
use dmu::{CreateZap, ObjectSet, Tx, Zap};
use format::ObjectType;

use crate::master::{MASTER_NODE, VERSION, VERSION_SYSTEM_ATTRIBUTES};
use crate::names::NameRules;
use crate::registry::Registry;
use crate::store::{NewFile, Store};
use crate::{CaseSensitivity, PosixError, Result, Timestamp};

/// What a new file system is to be; fixed for its life.
#[derive(Clone, Copy, Debug)]
pub struct NewFileSystem {
    /// ZPL version, 1 to 5.
    pub version: u64,
    /// The normalisation flags of the property `normalization`.
    pub normalization: u64,
    /// Names must be UTF-8.
    pub utf8_only: bool,
    /// How names compare.
    pub case: CaseSensitivity,
    /// Owner and group of the root directory.
    pub owner: (u32, u32),
    /// Permissions of the root directory.
    pub permissions: u32,
}

impl Default for NewFileSystem {
    fn default() -> Self {
        Self {
            version: VERSION,
            normalization: 0,
            utf8_only: false,
            case: CaseSensitivity::Sensitive,
            owner: (0, 0),
            permissions: 0o755,
        }
    }
}

/// Fills a new object set with a file system that has an empty root directory; returns that
/// directory's object. The caller may be in syncing context.
pub fn create_file_system(
    tx: &Tx,
    objects: &Arc<ObjectSet>,
    clock: &dyn Clock,
    new: &NewFileSystem,
) -> Result<ObjectId> {
    if new.version == 0 || new.version > VERSION {
        return Err(PosixError::NotSupported("file system of this version"));
    }
    let make = |object_type, id| {
        let options = CreateZap {
            object_type,
            id,
            ..CreateZap::default()
        };
        Zap::create(objects, tx, &options)
    };
    let master = make(ObjectType::MASTER_NODE, Some(MASTER_NODE))?;
    master.add(tx, b"VERSION", new.version)?;
    master.add(tx, b"normalization", new.normalization)?;
    master.add(tx, b"utf8only", new.utf8_only.into())?;
    master.add(tx, b"casesensitivity", case_number(new.case))?;
    let attributes = if new.version >= VERSION_SYSTEM_ATTRIBUTES {
        let zap = make(ObjectType::SA_MASTER_NODE, None)?;
        master.add(tx, b"SA_ATTRS", zap.object().id().0)?;
        Some(zap.object().id())
    } else {
        None
    };
    let unlinked = make(ObjectType::UNLINKED_SET, None)?;
    master.add(tx, b"DELETE_QUEUE", unlinked.object().id().0)?;
    let names = NameRules {
        case: new.case,
        normalization: new.normalization,
        utf8_only: new.utf8_only,
    };
    let store = Store {
        objects: Arc::clone(objects),
        registry: match attributes {
            Some(object) => Registry::load(objects, object)?,
            None => Registry::unavailable(),
        },
        version: new.version,
        directory_normalization: names.directory_normalization(),
    };
    let now = clock.now();
    let root = store.create(
        tx,
        &NewFile {
            mode: 0o040_000 | new.permissions & 0o7777,
            uid: new.owner.0.into(),
            gid: new.owner.1.into(),
            parent: None,
            flags: 0,
            project: 0,
            device: 0,
            links: 2,
            target: None,
            now: Timestamp {
                seconds: (now / 1_000_000_000).cast_signed(),
                nanoseconds: (now % 1_000_000_000) as u32,
            },
            slots: 1,
            claim: None,
        },
    )?;
    master.add(tx, b"ROOT", root.id().0)?;
    Ok(root.id())
}

/// Raises the version of a file system that nobody has open. Files that are there keep their form.
pub fn raise_version(tx: &Tx, objects: &Arc<ObjectSet>, version: u64) -> Result<()> {
    let master = Zap::open(&objects.object(MASTER_NODE)?)?;
    let now = master.lookup(b"VERSION")?.unwrap_or(VERSION);
    if version < now || version > VERSION {
        return Err(PosixError::NotSupported("file system of this version"));
    }
    if version >= VERSION_SYSTEM_ATTRIBUTES && master.lookup(b"SA_ATTRS")?.is_none() {
        let options = CreateZap {
            object_type: ObjectType::SA_MASTER_NODE,
            ..CreateZap::default()
        };
        let zap = Zap::create(objects, tx, &options)?;
        master.add(tx, b"SA_ATTRS", zap.object().id().0)?;
    }
    Ok(master.update(tx, b"VERSION", version)?)
}

fn case_number(case: CaseSensitivity) -> u64 {
    match case {
        CaseSensitivity::Sensitive => 0,
        CaseSensitivity::Insensitive => 1,
        CaseSensitivity::Mixed => 2,
    }
}
