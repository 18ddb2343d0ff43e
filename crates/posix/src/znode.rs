//! A file in memory: its object, its decoded attributes, and where they lie.
//!
//! Each attribute has one decoded copy under the file's own state lock, and its bytes in the
//! object's bonus or spill block; every change writes both under that lock, in one transaction.
//! A file of the old fixed form has them in a znode record instead; it becomes packed attributes
//! when something must be stored that the record has no room for.

mod load;
mod store;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use base::lock::{LockClass, Mutex, RwLock, RwLockWriteGuard, rank};
use base::{ObjectId, Txg};
use dmu::Object;
use format::sa::Attribute;

use crate::attributes::shown_id;
use crate::packing::Places;
use crate::posix_acl::PosixAcl;
use crate::{Attributes, Corruption, FileType, PosixError, Result, Timestamp};

/// Entries of a directory: held in shared mode by lookups, exclusively by changes of names.
/// Several are taken in ascending order of object number.
static NAMES: LockClass = LockClass::nesting("posix.names", rank::POSIX + 10);
/// Size and contents of a file: held by writers and truncation, never by readers. Two are taken
/// in ascending order of object number.
static DATA: LockClass = LockClass::nesting("posix.data", rank::POSIX + 15);
/// Attributes of a file. One at a time.
static STATE: LockClass = LockClass::new("posix.state", rank::POSIX + 20);

/// The high bits of the flags word that concern permissions and form, not shown to users.
pub(crate) mod internal_flags {
    /// An extended attribute, or the directory of them.
    pub(crate) const XATTR: u64 = 0x1;
    /// The access list says what the mode says.
    pub(crate) const ACL_TRIVIAL: u64 = 0x4;
    /// The access list may be inherited automatically (set on new directories).
    pub(crate) const ACL_AUTO_INHERIT: u64 = 0x40;
    /// A legacy znode has a scan stamp in its tail.
    pub(crate) const BONUS_SCANSTAMP: u64 = 0x80;
    /// Nobody is denied execution.
    pub(crate) const NO_EXECUTE_DENIED: u64 = 0x100;
    /// Changed since the last archive run.
    pub(crate) const ARCHIVE: u64 = 1 << 35;
    /// Changed since the last virus scan.
    pub(crate) const AV_MODIFIED: u64 = 1 << 42;
    /// What every change of a file's data sets.
    pub(crate) const CHANGED: u64 = ARCHIVE | AV_MODIFIED;
    /// What follows from the mode.
    pub(crate) const OF_MODE: u64 = ACL_TRIVIAL | NO_EXECUTE_DENIED;
    /// Made sparse by its writer.
    pub(crate) const SPARSE: u64 = 1 << 45;
    /// The project attribute is valid.
    pub(crate) const PROJECT_ID: u64 = 1 << 47;
}

/// How the attributes of a file are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// In a legacy znode.
    Legacy,
    /// Packed.
    Packed(Box<Places>),
}

impl Form {
    /// Whether an attribute is stored.
    pub(crate) fn has(&self, attribute: Attribute) -> bool {
        matches!(self, Self::Packed(places) if places.get(attribute).is_some())
    }
}

/// What is known of a file's POSIX access list.
#[derive(Clone, Debug, Default)]
pub(crate) enum AclCache {
    /// Not looked up yet.
    #[default]
    Unknown,
    /// The list, if there is one.
    Known(Option<Arc<PosixAcl>>),
}

/// The decoded attributes of a file, and its place in life.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) mode: u32,
    pub(crate) generation: u64,
    pub(crate) size: u64,
    pub(crate) parent: ObjectId,
    pub(crate) links: u64,
    pub(crate) xattr: ObjectId,
    pub(crate) device: u64,
    pub(crate) flags: u64,
    /// Owner and group as stored (FUIDs).
    pub(crate) uid: u64,
    pub(crate) gid: u64,
    pub(crate) atime: Timestamp,
    pub(crate) mtime: Timestamp,
    pub(crate) ctime: Timestamp,
    pub(crate) crtime: Timestamp,
    pub(crate) project: u64,
    pub(crate) acl_count: u64,
    pub(crate) form: Form,
    /// Made without a name (`O_TMPFILE`), and not linked since.
    pub(crate) unnamed: bool,
    /// The object was freed: nothing may be done with it any more.
    pub(crate) freed: bool,
    pub(crate) access_acl: AclCache,
    pub(crate) default_acl: AclCache,
}

impl State {
    pub(crate) fn file_type(&self) -> FileType {
        FileType::from_mode(self.mode).unwrap_or(FileType::Regular)
    }

    pub(crate) fn is_directory(&self) -> bool {
        self.mode & 0o170_000 == 0o040_000
    }

    pub(crate) fn has(&self, flags: u64) -> bool {
        self.flags & flags != 0
    }
}

/// What the names lock of a directory protects, apart from the entries themselves.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// The directory was removed: no entry may be added.
    pub(crate) removed: bool,
}

/// A directory's names, held exclusively.
pub(crate) type NamesWrite<'a> = RwLockWriteGuard<'a, Names>;

/// A file in memory.
#[derive(Debug)]
pub(crate) struct Znode {
    pub(crate) object: Arc<Object>,
    pub(crate) state: RwLock<State>,
    pub(crate) names: RwLock<Names>,
    pub(crate) data: Mutex<()>,
    /// The newest txg that changed it: what fsync waits for.
    changed_txg: AtomicU64,
    /// The access time in memory is newer than the stored one.
    pub(crate) atime_moved: AtomicBool,
    /// Whether it was used since the table's hand last passed.
    pub(crate) used: AtomicBool,
    /// Open handles, and references that a front end holds. Changed only under the state lock.
    pub(crate) references: AtomicU32,
    /// A thread is freeing it.
    pub(crate) freeing: AtomicBool,
    slots: u8,
}

impl Znode {
    pub(crate) fn new(object: Arc<Object>, state: State) -> Arc<Self> {
        let slots = object.info().slots;
        Arc::new(Self {
            object,
            state: RwLock::new(&STATE, state),
            names: RwLock::new(&NAMES, Names::default()),
            data: Mutex::new(&DATA, ()),
            changed_txg: AtomicU64::new(0),
            atime_moved: AtomicBool::new(false),
            used: AtomicBool::new(true),
            references: AtomicU32::new(0),
            freeing: AtomicBool::new(false),
            slots,
        })
    }

    pub(crate) fn id(&self) -> ObjectId {
        self.object.id()
    }

    /// Slots of its dnode.
    pub(crate) fn slots(&self) -> u8 {
        self.slots
    }

    /// Holds the names of several directories, each once, in the order that everyone keeps.
    pub(crate) fn lock_names<'a>(directories: &[&'a Arc<Self>]) -> Vec<(ObjectId, NamesWrite<'a>)> {
        let mut order: Vec<&'a Arc<Self>> = directories.to_vec();
        order.sort_unstable_by_key(|directory| directory.id());
        order.dedup_by_key(|directory| directory.id());
        order
            .into_iter()
            .map(|directory| (directory.id(), directory.names.write()))
            .collect()
    }

    /// Notes that `txg` changes the file.
    pub(crate) fn changed(&self, txg: Txg) {
        self.changed_txg.fetch_max(txg.0, Ordering::AcqRel);
    }

    /// The newest txg that changed the file.
    pub(crate) fn changed_txg(&self) -> Txg {
        Txg(self.changed_txg.load(Ordering::Acquire))
    }

    pub(crate) fn corrupt(&self, what: Corruption) -> PosixError {
        PosixError::Corrupt {
            object: self.id(),
            what,
        }
    }

    /// 512-byte units in use, with the dnode.
    pub(crate) fn blocks(&self) -> u64 {
        self.object.used_bytes().saturating_add(256) / 512 + u64::from(self.slots)
    }

    /// Attributes of `state`, which is this file's.
    pub(crate) fn show(&self, state: &State) -> Attributes {
        Attributes {
            object: self.id(),
            generation: state.generation,
            file_type: state.file_type(),
            permissions: state.mode & 0o7777,
            links: u32::try_from(state.links).unwrap_or(u32::MAX),
            uid: shown_id(state.uid),
            gid: shown_id(state.gid),
            size: state.size,
            blocks: self.blocks(),
            block_size: self.object.block_size(),
            device: split_device(state.device),
            atime: state.atime,
            mtime: state.mtime,
            ctime: state.ctime,
            crtime: state.crtime,
            parent: state.parent,
            flags: state.flags & crate::flags::SHOWN,
            project: state.shown_project(),
        }
    }

    /// Fails unless the file still exists.
    pub(crate) fn alive<'a>(&self, state: &'a State) -> Result<&'a State> {
        if state.freed {
            Err(PosixError::Stale)
        } else {
            Ok(state)
        }
    }
}

impl State {
    /// The project that the file belongs to.
    pub(crate) fn shown_project(&self) -> u32 {
        if self.has(internal_flags::PROJECT_ID) {
            self.project as u32
        } else {
            0
        }
    }

    /// The value of an attribute of fixed length that has a decoded copy: words in host order.
    pub(crate) fn words(&self, attribute: Attribute) -> Option<[u64; 2]> {
        let pair = |time: Timestamp| [time.seconds.cast_unsigned(), time.nanoseconds.into()];
        Some(match attribute {
            Attribute::Atime => pair(self.atime),
            Attribute::Mtime => pair(self.mtime),
            Attribute::Ctime => pair(self.ctime),
            Attribute::Crtime => pair(self.crtime),
            Attribute::Gen => [self.generation, 0],
            Attribute::Mode => [self.mode.into(), 0],
            Attribute::Size => [self.size, 0],
            Attribute::Parent => [self.parent.0, 0],
            Attribute::Links => [self.links, 0],
            Attribute::Xattr => [self.xattr.0, 0],
            Attribute::Rdev => [self.device, 0],
            Attribute::Flags => [self.flags, 0],
            Attribute::Uid => [self.uid, 0],
            Attribute::Gid => [self.gid, 0],
            Attribute::DaclCount => [self.acl_count, 0],
            Attribute::Projid => [self.project, 0],
            Attribute::Pad
            | Attribute::ZnodeAcl
            | Attribute::Symlink
            | Attribute::Scanstamp
            | Attribute::DaclAces
            | Attribute::Dxattr => return None,
        })
    }
}

/// Major and minor number of a stored device: Linux's `major << 20 | minor`.
pub(crate) fn split_device(device: u64) -> (u32, u32) {
    ((device >> 20) as u32, (device & 0xf_ffff) as u32)
}

/// A device as it is stored.
pub(crate) fn join_device((major, minor): (u32, u32)) -> u64 {
    u64::from(major) << 20 | u64::from(minor & 0xf_ffff)
}
