//! What new file systems and volumes are filled with, and how existing ones are opened for files.

use std::sync::Arc;

use admin::Failure;
use base::clock::{Clock, SystemClock};
use dmu::{ObjectSet, Tx};
use dsl::Dataset;
use dsl::property::dataset::{
    ACLTYPE, ATIME, DNODESIZE, LONGNAME, PREFETCH, READONLY, RECORDSIZE, RELATIME, SYNC, XATTR,
};
use dsl::property::{AclType, CachePolicy, CaseRule, SyncPolicy, XattrPolicy};
use dsl::tasks::Populate;
use posix::{AccessTime, AclKind, CaseSensitivity, DatasetProperties, XattrStore};

use super::refusal::unreadable;

/// A new file system, as properties say it.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewFileSystem {
    pub(super) version: u64,
    pub(super) utf8_only: bool,
    pub(super) normalization: u64,
    pub(super) case: CaseRule,
    pub(super) owner: (u32, u32),
}

impl NewFileSystem {
    pub(super) const fn is_case_insensitive(&self) -> bool {
        matches!(self.case, CaseRule::Insensitive)
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
                CaseRule::Insensitive => CaseSensitivity::Insensitive,
                CaseRule::Mixed => CaseSensitivity::Mixed,
                CaseRule::Sensitive => CaseSensitivity::Sensitive,
            },
            owner: self.owner,
            permissions: 0o755,
        };
        posix::create_file_system(tx, set, clock, &new).map(drop)
    }
}

/// The effective properties that file semantics need.
pub(crate) fn file_properties(
    dataset: &Dataset,
    pool_read_only: bool,
) -> Result<DatasetProperties, Failure> {
    effective(dataset, pool_read_only).map_err(unreadable)
}

/// The value of a property that mounted file systems go by. It does not compile where setting the property would not
/// reach them.
macro_rules! followed {
    ($dataset:expr, $property:ident) => {{
        const {
            assert!(
                $property.row().reaches_mounts(),
                "its row lacks `Effect::Remount`"
            )
        };
        $dataset.get($property)?.value
    }};
}

fn effective(dataset: &Dataset, pool_read_only: bool) -> dsl::Result<DatasetProperties> {
    let access_time = match (followed!(dataset, ATIME), followed!(dataset, RELATIME)) {
        (false, _) => AccessTime::Off,
        (true, false) => AccessTime::Strict,
        (true, true) => AccessTime::Relative,
    };
    let default_size = u32::try_from(RECORDSIZE.default_number()).unwrap_or(u32::MAX);
    let prefetch = followed!(dataset, PREFETCH);
    let sync = followed!(dataset, SYNC);
    Ok(DatasetProperties {
        record_size: u32::try_from(followed!(dataset, RECORDSIZE)).unwrap_or(default_size),
        access_time,
        xattr: match followed!(dataset, XATTR) {
            XattrPolicy::Off => XattrStore::Off,
            XattrPolicy::Directory => XattrStore::Directory,
            XattrPolicy::SystemAttribute => XattrStore::SystemAttribute,
        },
        acl: match followed!(dataset, ACLTYPE) {
            AclType::Posix => AclKind::Posix,
            AclType::Nfs4 => AclKind::Nfs4,
            AclType::Off => AclKind::Off,
        },
        dnode_slots: dnode_slots(followed!(dataset, DNODESIZE)),
        long_names: followed!(dataset, LONGNAME),
        read_only: pool_read_only || dataset.is_snapshot() || followed!(dataset, READONLY),
        read_ahead: prefetch == CachePolicy::All,
        read_ahead_metadata: prefetch != CachePolicy::None,
        sync_always: sync == SyncPolicy::Always,
        sync_disabled: sync == SyncPolicy::Disabled,
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
