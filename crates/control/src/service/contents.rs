//! What new file systems and volumes are filled with, and how existing ones are opened for files.

use std::sync::Arc;

use base::ObjectId;
use base::clock::{Clock, SystemClock};
use dmu::{AllocateObject, CreateZap, ObjectSet, Tx, Zap};
use dsl::Dataset;
use dsl::tasks::Populate;
use format::ObjectType;
use posix::{AccessTime, AclKind, CaseSensitivity, DatasetProperties, XattrStore};

use super::refusal::unreadable;
use crate::Failure;

/// A volume's data, and the table with its size.
pub(super) const VOLUME_DATA: ObjectId = ObjectId(1);
pub(super) const VOLUME_TABLE: ObjectId = ObjectId(2);

/// A new file system, as properties say it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFileSystem {
    pub(super) version: u64,
    pub(super) utf8_only: bool,
    pub(super) normalization: u64,
    pub(super) case: u64,
    pub(super) owner: (u32, u32),
}

impl NewFileSystem {
    pub(super) const fn is_case_insensitive(&self) -> bool {
        self.case == 1
    }

    /// The same as a task of the dataset layer.
    pub(super) fn populate_task(self, clock: Arc<dyn Clock>) -> Populate {
        Box::new(move |set, tx| {
            let populated = self.populate(set, tx, &*clock);
            populated.map_err(|error| error.to_string())
        })
    }

    fn populate(&self, set: &Arc<ObjectSet>, tx: &Tx, clock: &dyn Clock) -> posix::Result<()> {
        let new = posix::NewFileSystem {
            version: self.version,
            normalization: self.normalization,
            utf8_only: self.utf8_only,
            case: match self.case {
                1 => CaseSensitivity::Insensitive,
                2 => CaseSensitivity::Mixed,
                _ => CaseSensitivity::Sensitive,
            },
            owner: self.owner,
            permissions: 0o755,
        };
        posix::create_file_system(tx, set, clock, &new).map(drop)
    }
}

/// Makes the two objects of a volume.
pub(super) fn populate_volume(
    set: &Arc<ObjectSet>,
    tx: &Tx,
    size: u64,
    block_size: u64,
) -> dmu::Result<()> {
    let data = AllocateObject {
        object_type: ObjectType::ZVOL,
        block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
        ..AllocateObject::default()
    };
    set.claim(tx, VOLUME_DATA, &data)?;
    let table = CreateZap {
        object_type: ObjectType::ZVOL_PROPERTIES,
        id: Some(VOLUME_TABLE),
        ..CreateZap::default()
    };
    Zap::create(set, tx, &table)?.add(tx, b"size", size)
}

/// The effective properties that file semantics need.
pub(crate) fn file_properties(
    dataset: &Dataset,
    pool_read_only: bool,
) -> Result<DatasetProperties, Failure> {
    let number = |name: &str, default: u64| {
        dataset
            .number_property(name, true, default)
            .map_err(unreadable)
    };
    let access_time = match (number("atime", 1)?, number("relatime", 1)?) {
        (0, _) => AccessTime::Off,
        (_, 0) => AccessTime::Strict,
        _ => AccessTime::Relative,
    };
    Ok(DatasetProperties {
        record_size: u32::try_from(number("recordsize", 128 << 10)?).unwrap_or(128 << 10),
        access_time,
        xattr: match number("xattr", 2)? {
            0 => XattrStore::Off,
            1 => XattrStore::Directory,
            _ => XattrStore::SystemAttribute,
        },
        acl: match number("acltype", 0)? {
            1 => AclKind::Posix,
            2 => AclKind::Nfs4,
            _ => AclKind::Off,
        },
        dnode_slots: dnode_slots(number("dnodesize", 0)?),
        long_names: number("longname", 0)? != 0,
        read_only: pool_read_only || dataset.is_snapshot() || number("readonly", 0)? != 0,
        read_ahead: number("prefetch", 2)? == 2,
        read_ahead_metadata: number("prefetch", 2)? != 0,
        sync_always: number("sync", 0)? == 1,
        sync_disabled: number("sync", 0)? == 2,
    })
}

/// `legacy` is one slot, `auto` two, else so many bytes.
fn dnode_slots(stored: u64) -> u8 {
    match stored {
        0 => 1,
        1 => 2,
        bytes => u8::try_from(bytes / 512).unwrap_or(1).clamp(1, 32),
    }
}

/// The clock of file systems.
pub(super) fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}
