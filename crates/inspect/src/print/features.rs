//! Features that datasets use, counted, against the counts that the pool keeps.

use std::collections::HashMap;
use std::io::Write;

use base::ObjectId;
use format::config::directory;
use format::features;

use crate::error::Result;
use crate::raw::{RawPool, ZapKey, dataset_phys};

/// Prints a line for every feature that is active by dataset. Whether all counts are right.
pub(crate) fn print_features(out: &mut dyn Write, pool: &RawPool) -> Result<bool> {
    let mut recorded: HashMap<Vec<u8>, u64> = HashMap::new();
    for name in [directory::FEATURES_FOR_READ, directory::FEATURES_FOR_WRITE] {
        if let Some(id) = pool.directory_word(name)? {
            pool.mos.object(ObjectId(id))?.zap_entries(&mut |entry| {
                if let (ZapKey::Name(guid), Some(count)) = (entry.key, entry.value.as_word()) {
                    recorded.insert(guid, count);
                }
            })?;
        }
    }
    let mut counted: HashMap<Vec<u8>, u64> = HashMap::new();
    let mut damage = Vec::new();
    pool.mos
        .for_each_object(&mut |error| damage.push(error), &mut |object| {
            if dataset_phys(&object).is_some() && object.dnode.object_type.is_zap() {
                object.zap_entries_past(&mut |_| {}, &mut |entry| {
                    if let ZapKey::Name(guid) = entry.key {
                        let count = counted.entry(guid).or_default();
                        *count = count.saturating_add(1);
                    }
                });
            }
        });
    let mut right = true;
    for feature in features::ALL
        .iter()
        .filter(|feature| feature.flags.per_dataset)
    {
        let guid = feature.guid.as_bytes();
        // A feature without an entry is disabled.
        let Some(&expected) = recorded.get(guid) else {
            continue;
        };
        let actual = counted.get(guid).copied().unwrap_or(0);
        let name = feature.name;
        if expected == actual {
            writeln!(
                out,
                "Verified {name} feature refcount of {expected} is correct"
            )?;
        } else {
            right = false;
            writeln!(
                out,
                "{name} feature refcount mismatch: {actual} consumers != {expected} refcount"
            )?;
        }
    }
    Ok(right)
}
