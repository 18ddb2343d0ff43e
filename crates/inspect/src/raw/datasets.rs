//! The datasets of a pool: all of them by object, and those with a name by their tree.

use std::collections::HashSet;

use base::{ByteOrder, ObjectId};
use format::config::directory;
use format::dsl::{DatasetPhys, DirectoryPhys, hidden};
use format::object_type::ObjectType;

use super::{RawObject, RawPool, ZapKey};
use crate::error::{InspectError, Result};

/// Directories that hold no dataset that anyone could use.
const HIDDEN: [&str; 4] = [hidden::MOS, hidden::FREE, hidden::LEAK, hidden::ORIGIN];

/// A dataset.
#[derive(Clone, Debug)]
pub(crate) struct DatasetEntry {
    /// pool/dir[@snapshot]; empty when nothing names it.
    pub(crate) name: String,
    /// Its object.
    pub(crate) id: ObjectId,
    /// What is known of it.
    pub(crate) phys: DatasetPhys,
}

/// The dataset that an object is, if it is one.
pub(crate) fn dataset_phys(object: &RawObject) -> Option<DatasetPhys> {
    (object.dnode.bonus_type == ObjectType::DSL_DATASET)
        .then(|| DatasetPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE))
}

/// Every dataset there is, hidden and half-destroyed ones included, without names.
pub(crate) fn datasets(pool: &RawPool, damage: &mut dyn FnMut(InspectError)) -> Vec<DatasetEntry> {
    let mut all = Vec::new();
    pool.mos.for_each_object(damage, &mut |object| {
        if let Some(phys) = dataset_phys(&object) {
            all.push(DatasetEntry {
                name: String::new(),
                id: object.id,
                phys,
            });
        }
    });
    all
}

/// Every dataset that has a name, sorted: a dataset, its snapshots, its children.
pub(crate) fn named_datasets(
    pool: &RawPool,
    damage: &mut dyn FnMut(InspectError),
) -> Result<Vec<DatasetEntry>> {
    let mut found = tree_datasets(pool, damage)?;
    found.sort_by_cached_key(|dataset| sort_key(&dataset.name));
    Ok(found)
}

/// Every dataset that has a name, in the order in which OpenZFS walks the tree: children in the
/// order of their table, then snapshots, then the dataset itself.
pub(crate) fn tree_datasets(
    pool: &RawPool,
    damage: &mut dyn FnMut(InspectError),
) -> Result<Vec<DatasetEntry>> {
    let root = pool
        .directory_word(directory::ROOT_DATASET)?
        .ok_or(InspectError::NoEntry(directory::ROOT_DATASET))?;
    let mut groups = Vec::new();
    let mut seen = HashSet::new();
    // A stack instead of recursion: nesting is the pool's to choose. Parents come before their
    // children here, and the last child first: the reverse of what is wanted.
    let mut waiting = vec![(ObjectId(root), pool.name.clone())];
    while let Some((id, name)) = waiting.pop() {
        if !seen.insert(id) {
            continue;
        }
        let mut group = Vec::new();
        match open_directory(pool, id, &name, &mut group, damage) {
            Ok(children) => waiting.extend(children),
            Err(error) => damage(error),
        }
        groups.push(group);
    }
    groups.reverse();
    Ok(groups.into_iter().flatten().collect())
}

/// Orders as a walk of the tree does: '/' before everything else, snapshots behind their dataset.
fn sort_key(name: &str) -> Vec<u8> {
    name.bytes()
        .map(|byte| match byte {
            b'@' => 0,
            b'/' => 1,
            other => other,
        })
        .collect()
}

fn open_directory(
    pool: &RawPool,
    id: ObjectId,
    name: &str,
    found: &mut Vec<DatasetEntry>,
    damage: &mut dyn FnMut(InspectError),
) -> Result<Vec<(ObjectId, String)>> {
    let object = pool.mos.object(id)?;
    let phys = DirectoryPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE);
    if phys.head_dataset.0 != 0 {
        match open_head(pool, phys.head_dataset, name, found, damage) {
            Ok(()) => {}
            Err(error) => damage(error),
        }
    }
    let mut children = Vec::new();
    if phys.child_map.0 != 0 {
        pool.mos
            .object(phys.child_map)?
            .zap_entries_past(damage, &mut |entry| {
                if let (ZapKey::Name(child), Some(id)) = (&entry.key, entry.value.as_word()) {
                    let child = String::from_utf8_lossy(child);
                    if !HIDDEN.contains(&child.as_ref()) {
                        let place = (entry.hash, entry.differentiator);
                        children.push((place, ObjectId(id), format!("{name}/{child}")));
                    }
                }
            });
    }
    children.sort_by_key(|(place, ..)| *place);
    Ok(children
        .into_iter()
        .map(|(_, id, name)| (id, name))
        .collect())
}

fn open_head(
    pool: &RawPool,
    id: ObjectId,
    name: &str,
    found: &mut Vec<DatasetEntry>,
    damage: &mut dyn FnMut(InspectError),
) -> Result<()> {
    let object = pool.mos.object(id)?;
    let Some(phys) = dataset_phys(&object) else {
        return Ok(());
    };
    let snapshot_names = phys.snapshot_names;
    let head = DatasetEntry {
        name: name.to_owned(),
        id,
        phys,
    };
    let result = open_snapshots(pool, snapshot_names, name, found, damage);
    found.push(head);
    result
}

fn open_snapshots(
    pool: &RawPool,
    snapshot_names: ObjectId,
    name: &str,
    found: &mut Vec<DatasetEntry>,
    damage: &mut dyn FnMut(InspectError),
) -> Result<()> {
    if snapshot_names.0 == 0 {
        return Ok(());
    }
    let mut snapshots = Vec::new();
    pool.mos
        .object(snapshot_names)?
        .zap_entries_past(damage, &mut |entry| {
            if let Some(id) = entry.value.as_word() {
                let place = (entry.hash, entry.differentiator);
                snapshots.push((place, entry.key.text(), ObjectId(id)));
            }
        });
    snapshots.sort_by_key(|(place, ..)| *place);
    for (_, snapshot, id) in snapshots {
        let phys = pool.mos.object(id).map(|object| dataset_phys(&object));
        match phys {
            Ok(Some(phys)) => {
                found.push(DatasetEntry {
                    name: format!("{name}@{snapshot}"),
                    id,
                    phys,
                });
            }
            Ok(None) => {}
            Err(error) => damage(error),
        }
    }
    Ok(())
}
