//! What is stored in a file system, for those who list it without opening it: what is fixed at its birth, and what
//! users, groups and projects use and may use.

use std::collections::BTreeMap;

use base::ObjectId;
use dmu::{DmuError, ObjectSet, Zap};

use crate::master::{MASTER_NODE, QUOTA_KEYS};
use crate::{QuotaKind, QuotaUnit};

/// File systems count what users, groups and projects use from this version on.
pub const VERSION_ACCOUNTING: u64 = 4;
/// Keys of the tables of what is used begin with this when they count objects.
const OBJECTS_PREFIX: &[u8] = b"obj-";

/// An entry of the master node of a file system; none when it is not there or cannot be read.
#[must_use]
pub fn stored_number(objects: &ObjectSet, key: &str) -> Option<u64> {
    let master = Zap::open(&objects.object(MASTER_NODE).ok()?).ok()?;
    master.lookup(key.as_bytes()).ok()?
}

/// What one owner may use; 0: any amount. None when nothing can be known.
#[must_use]
pub fn stored_limit(objects: &ObjectSet, kind: QuotaKind, unit: QuotaUnit, id: u64) -> Option<u64> {
    let master = Zap::open(&objects.object(MASTER_NODE).ok()?).ok()?;
    let Some(table) = master.lookup(QUOTA_KEYS[kind.index(unit)]).ok()? else {
        return Some(0);
    };
    let table = Zap::open(&objects.object(ObjectId(table)).ok()?).ok()?;
    Some(table.lookup_int(id).ok()?.unwrap_or(0))
}

/// What one owner uses, as last synced. None when nothing can be known.
#[must_use]
pub fn stored_use(objects: &ObjectSet, kind: QuotaKind, unit: QuotaUnit, id: u64) -> Option<u64> {
    let used = Zap::open(&objects.used_object(kind.owner())?).ok()?;
    let used = match unit {
        QuotaUnit::Bytes => used.lookup_int(id),
        QuotaUnit::Objects => used.lookup(format!("obj-{id:x}").as_bytes()),
    };
    Some(used.ok()?.unwrap_or(0))
}

/// What an owner uses, as last synced, and may use. What nobody counts or limits is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerUse {
    /// Bytes used.
    pub used: Option<u64>,
    /// Bytes allowed.
    pub quota: Option<u64>,
    /// Objects used.
    pub objects_used: Option<u64>,
    /// Objects allowed.
    pub object_quota: Option<u64>,
}

/// Owners by their numbers.
type Owners = BTreeMap<u64, OwnerUse>;

/// All owners of some kinds in the tables of a file system; none if its version keeps no such tables.
///
/// # Errors
/// A table cannot be read.
pub fn stored_owners(
    objects: &ObjectSet,
    kinds: &[QuotaKind],
) -> Result<Option<Vec<(QuotaKind, Owners)>>, DmuError> {
    let master = Zap::open(&objects.object(MASTER_NODE)?)?;
    let version = master.lookup(b"VERSION")?.unwrap_or(VERSION_ACCOUNTING);
    if version < VERSION_ACCOUNTING {
        return Ok(None);
    }
    let mut found = Vec::new();
    for &kind in kinds {
        let mut owners = Owners::new();
        for unit in [QuotaUnit::Bytes, QuotaUnit::Objects] {
            let table = master.lookup(QUOTA_KEYS[kind.index(unit)])?;
            if let Some(table) = table.filter(|id| *id != 0) {
                let table = Zap::open(&objects.object(ObjectId(table))?)?;
                add_limits(&mut owners, &table, unit)?;
            }
        }
        if let Some(used) = objects.used_object(kind.owner()) {
            add_used(&mut owners, &Zap::open(&used)?)?;
        }
        found.push((kind, owners));
    }
    Ok(Some(found))
}

fn add_limits(owners: &mut Owners, table: &Zap, unit: QuotaUnit) -> Result<(), DmuError> {
    for entry in table.entries()? {
        if let Some(owner) = owner_of(owners, &entry.name) {
            let limit = match unit {
                QuotaUnit::Bytes => &mut owner.quota,
                QuotaUnit::Objects => &mut owner.object_quota,
            };
            *limit = Some(entry.value);
        }
    }
    Ok(())
}

/// What is not in a table of what is used is 0; objects only if the file system counts them at all.
fn add_used(owners: &mut Owners, table: &Zap) -> Result<(), DmuError> {
    let entries = table.entries()?;
    let mut counts_objects = false;
    for entry in &entries {
        let key = entry.name.strip_prefix(OBJECTS_PREFIX);
        counts_objects |= key.is_some();
        let Some(owner) = owner_of(owners, key.unwrap_or(&entry.name)) else {
            continue;
        };
        let used = match key {
            Some(_) => &mut owner.objects_used,
            None => &mut owner.used,
        };
        *used = Some(entry.value);
    }
    for owner in owners.values_mut() {
        owner.used.get_or_insert(0);
        if counts_objects {
            owner.objects_used.get_or_insert(0);
        }
    }
    Ok(())
}

/// The owner with this key, which is its number in hexadecimal digits.
fn owner_of<'a>(owners: &'a mut Owners, key: &[u8]) -> Option<&'a mut OwnerUse> {
    let id = u64::from_str_radix(std::str::from_utf8(key).ok()?, 16).ok()?;
    Some(owners.entry(id).or_default())
}
