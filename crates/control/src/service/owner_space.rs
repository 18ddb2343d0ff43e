//! What all users, groups and projects of a file system use and may use: `zfs userspace` and its like.

use std::collections::BTreeMap;
use std::io;

use admin::{Failure, FailureKind, OwnerKind, OwnerRecord, Response, Sink, Types};
use base::ObjectId;
use dmu::{DmuError, ObjectSet, Owner, Zap};

use super::{PAGE, Service};

/// The master node of a file system, which names the tables of limits.
const MASTER_NODE: ObjectId = ObjectId(1);
/// File systems count what users, groups and projects use from this version on.
const VERSION_ACCOUNTING: u64 = 4;
/// Keys of the tables of what is used begin with this when they count objects.
const OBJECTS_PREFIX: &[u8] = b"obj-";

type Records = BTreeMap<(OwnerKind, u64), OwnerRecord>;

impl Service {
    /// Answers with the owners of these kinds, in order of kind and number.
    pub(super) fn owner_space(
        &self,
        name: &str,
        kinds: &[OwnerKind],
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let records = match self.owner_records(name, kinds) {
            Ok(records) => records,
            Err(failure) => return sink(Response::Failed(failure)),
        };
        let mut records = records.into_values().peekable();
        while records.peek().is_some() {
            sink(Response::OwnerSpace(records.by_ref().take(PAGE).collect()))?;
        }
        sink(Response::Done)
    }

    fn owner_records(&self, name: &str, kinds: &[OwnerKind]) -> Result<Records, Failure> {
        let dataset = self.file_system(name, Types::FILESYSTEM.with(Types::SNAPSHOT))?;
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
    let master = Zap::open(&objects.object(MASTER_NODE)?)?;
    let version = master.lookup(b"VERSION")?.unwrap_or(VERSION_ACCOUNTING);
    if version < VERSION_ACCOUNTING {
        return Ok(None);
    }
    let mut records = Records::new();
    for &kind in kinds {
        let (owner, bytes, counts): (_, &[u8], &[u8]) = match kind {
            OwnerKind::User => (Owner::User, b"userquota@", b"userobjquota@"),
            OwnerKind::Group => (Owner::Group, b"groupquota@", b"groupobjquota@"),
            OwnerKind::Project => (Owner::Project, b"projectquota@", b"projectobjquota@"),
        };
        for (table, is_count) in [(bytes, false), (counts, true)] {
            if let Some(table) = master.lookup(table)?.filter(|id| *id != 0) {
                let table = Zap::open(&objects.object(ObjectId(table))?)?;
                add_limits(&mut records, kind, &table, is_count)?;
            }
        }
        if let Some(used) = objects.used_object(owner) {
            add_used(&mut records, kind, &Zap::open(&used)?)?;
        }
    }
    Ok(Some(records))
}

fn add_limits(
    records: &mut Records,
    kind: OwnerKind,
    table: &Zap,
    is_count: bool,
) -> Result<(), DmuError> {
    for entry in table.entries()? {
        if let Some(record) = record_of(records, kind, &entry.name) {
            let limit = if is_count {
                &mut record.object_quota
            } else {
                &mut record.quota
            };
            *limit = Some(entry.value);
        }
    }
    Ok(())
}

/// What is not in a table of what is used is 0; objects only if the file system counts them at all.
fn add_used(records: &mut Records, kind: OwnerKind, table: &Zap) -> Result<(), DmuError> {
    let entries = table.entries()?;
    let mut counts_objects = false;
    for entry in &entries {
        let key = entry.name.strip_prefix(OBJECTS_PREFIX);
        counts_objects |= key.is_some();
        let Some(record) = record_of(records, kind, key.unwrap_or(&entry.name)) else {
            continue;
        };
        let used = match key {
            Some(_) => &mut record.objects_used,
            None => &mut record.used,
        };
        *used = Some(entry.value);
    }
    for record in records.values_mut().filter(|record| record.kind == kind) {
        record.used.get_or_insert(0);
        if counts_objects {
            record.objects_used.get_or_insert(0);
        }
    }
    Ok(())
}

/// The record of the owner with this key, which is its number in hexadecimal digits.
fn record_of<'a>(
    records: &'a mut Records,
    kind: OwnerKind,
    key: &[u8],
) -> Option<&'a mut OwnerRecord> {
    let id = u64::from_str_radix(std::str::from_utf8(key).ok()?, 16).ok()?;
    let record = records
        .entry((kind, id))
        .or_insert_with(|| OwnerRecord::new(kind, id));
    Some(record)
}
