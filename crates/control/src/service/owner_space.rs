//! What all users, groups and projects of a file system use and may use: `zfs userspace` and its like.

use std::collections::BTreeMap;

use admin::queries::OwnerSpace;
use admin::{Failure, FailureKind, OwnerKind, OwnerRecord, Types};
use dmu::{DmuError, ObjectSet};
use posix::QuotaKind;

use super::answers::{Ended, Pages};
use super::{PAGE, Service};

type Records = BTreeMap<(OwnerKind, u64), OwnerRecord>;

impl Service {
    /// Lists the owners of these kinds, in order of kind and number.
    pub(super) fn owner_space(
        &self,
        asked: &OwnerSpace,
        pages: &mut Pages<'_, OwnerSpace>,
    ) -> Result<(), Ended> {
        let records = self.owner_records(&asked.name, &asked.kinds)?;
        let mut records = records.into_values().peekable();
        while records.peek().is_some() {
            pages.page(records.by_ref().take(PAGE).collect())?;
        }
        Ok(())
    }

    fn owner_records(&self, name: &str, kinds: &[OwnerKind]) -> Result<Records, Failure> {
        let dataset = self.file_system(name, Types::FILESYSTEM.union(Types::SNAPSHOT))?;
        let failed = |kind, text: &dyn std::fmt::Display| {
            Failure::new(kind, format!("cannot get used/quota for {name}: {text}"))
        };
        let objects = dataset.object_set().map_err(|error| {
            let (kind, text) = super::refusal::reason(&error);
            failed(kind, &text)
        })?;
        match collect(&objects, kinds) {
            Ok(Some(records)) => Ok(records),
            Ok(None) => Err(failed(
                FailureKind::Unsupported,
                &"unsupported version or feature",
            )),
            Err(error) => Err(failed(FailureKind::Medium, &error)),
        }
    }
}

/// The owners in the file system's tables; none if its version keeps no such tables.
fn collect(objects: &ObjectSet, kinds: &[OwnerKind]) -> Result<Option<Records>, DmuError> {
    let asked: Vec<QuotaKind> = kinds.iter().map(|kind| asked_for(*kind)).collect();
    let Some(found) = posix::stored_owners(objects, &asked)? else {
        return Ok(None);
    };
    let mut records = Records::new();
    for (kind, owners) in found {
        let kind = kind_of(kind);
        for (id, found) in owners {
            let record = OwnerRecord {
                used: found.used,
                quota: found.quota,
                objects_used: found.objects_used,
                object_quota: found.object_quota,
                ..OwnerRecord::new(kind, id)
            };
            records.insert((kind, id), record);
        }
    }
    Ok(Some(records))
}

const fn asked_for(kind: OwnerKind) -> QuotaKind {
    match kind {
        OwnerKind::User => QuotaKind::User,
        OwnerKind::Group => QuotaKind::Group,
        OwnerKind::Project => QuotaKind::Project,
    }
}

const fn kind_of(kind: QuotaKind) -> OwnerKind {
    match kind {
        QuotaKind::User => OwnerKind::User,
        QuotaKind::Group => OwnerKind::Group,
        QuotaKind::Project => OwnerKind::Project,
    }
}
