//! Reference counts: the dedup tables and the block reference (clone) tables.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use base::{ByteOrder, ObjectId};
use format::BlockPointer;
use format::config::directory;
use format::dedup::{self, DedupBlock, DedupKey};
use format::record::get_at;

use crate::error::Result;
use crate::raw::{RawObject, RawPool, ZapKey};

/// Where a block's first copy is.
pub(crate) type Address = (u64, u64);

/// How often a block should be referred to, and how often it was seen.
#[derive(Debug, Default)]
pub(crate) struct References {
    /// All references that the table knows of.
    pub(crate) expected: u64,
    /// The block as a dedup table has it: pointers may have been made before it got more copies.
    entry: Option<DedupBlock>,
    seen: AtomicU64,
    /// Of those that wait to be freed, while something else refers to the block.
    pending: AtomicU64,
}

impl References {
    fn new(expected: u64) -> Self {
        Self {
            expected,
            ..Self::default()
        }
    }

    /// A block with all the copies that its entry has.
    pub(crate) fn whole(&self, block: &BlockPointer) -> BlockPointer {
        let mut whole = *block;
        if let Some(entry) = &self.entry {
            entry.give_addresses(&mut whole);
        }
        if whole.dvas().count() <= block.dvas().count() {
            return *block;
        }
        whole
    }

    /// Counts one; whether it was the first.
    pub(crate) fn count(&self) -> bool {
        self.seen.fetch_add(1, Ordering::Relaxed) == 0
    }

    pub(crate) fn count_pending(&self) {
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether what was seen may be all that there is.
    pub(crate) fn may_match(&self) -> bool {
        let seen = self.seen();
        (seen..=seen + self.pending.load(Ordering::Relaxed)).contains(&self.expected)
    }

    pub(crate) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }
}

/// What the tables say, by address.
#[derive(Debug, Default)]
pub(crate) struct ReferenceTables {
    pub(crate) dedup: HashMap<Address, References>,
    pub(crate) clones: HashMap<Address, References>,
}

type DedupEntries = HashMap<DedupKey, Vec<(Address, DedupBlock)>>;

/// Reads every table of the pool.
pub(crate) fn load(pool: &RawPool) -> Result<ReferenceTables> {
    let mut tables = ReferenceTables::default();
    let mut dedup: Vec<(String, ObjectId)> = Vec::new();
    let mut clones: Vec<(u64, ObjectId)> = Vec::new();
    pool.mos
        .object(directory::OBJECT)?
        .zap_entries(&mut |entry| {
            let (ZapKey::Name(name), Some(id)) = (&entry.key, entry.value.as_word()) else {
                return;
            };
            let name = String::from_utf8_lossy(name).into_owned();
            if let Some(vdev) = name.strip_prefix(directory::BLOCK_REFERENCE_PREFIX) {
                clones.extend(vdev.parse().ok().map(|vdev| (vdev, ObjectId(id))));
            } else if name.starts_with(directory::DEDUP_PREFIX)
                && name != directory::DEDUP_STATISTICS
            {
                dedup.push((name, ObjectId(id)));
            }
        })?;
    for (vdev, id) in clones {
        load_clones(pool, vdev, id, &mut tables.clones)?;
    }
    let mut entries = DedupEntries::new();
    for (name, id) in dedup {
        if name.contains("-zap-") {
            load_dedup_zap(&pool.mos.object(id)?, &mut entries)?;
        } else {
            load_dedup_directory(pool, id, &mut entries)?;
        }
    }
    for (address, block) in entries.into_values().flatten() {
        let known = tables.dedup.entry(address);
        let known = known.or_insert_with(|| References::new(0));
        known.expected = known.expected.saturating_add(block.references);
        known.entry = Some(block);
    }
    Ok(tables)
}

fn load_clones(
    pool: &RawPool,
    vdev: u64,
    id: ObjectId,
    clones: &mut HashMap<Address, References>,
) -> Result<()> {
    let object = pool.mos.object(id)?;
    let entries = object.bonus_word(0);
    if entries == 0 {
        return Ok(());
    }
    let order = if object.bonus_word(2) == 0 {
        ByteOrder::Little
    } else {
        ByteOrder::Big
    };
    pool.mos
        .object(ObjectId(entries))?
        .zap_entries(&mut |entry| {
            let ZapKey::Words(words) = &entry.key else {
                return;
            };
            let count = entry
                .value
                .as_word()
                .unwrap_or_else(|| get_at(entry.value.stored(), 0, order));
            if let Some(&offset) = words.first() {
                // The table counts the references beyond the first.
                clones.insert((vdev, offset), References::new(count.saturating_add(1)));
            }
        })
}

/// A table of the newer kind: a directory of ZAPs and of two logs that override them.
fn load_dedup_directory(pool: &RawPool, id: ObjectId, entries: &mut DedupEntries) -> Result<()> {
    let mut zaps = Vec::new();
    let mut logs = Vec::new();
    pool.mos.object(id)?.zap_entries(&mut |entry| {
        let name = entry.key.text();
        let Some(id) = entry.value.as_word().filter(|&id| id != 0) else {
            return;
        };
        if name.contains("-zap-") {
            zaps.push(ObjectId(id));
        } else if name.starts_with("DDT-log-") {
            logs.push(ObjectId(id));
        }
    })?;
    for id in zaps {
        load_dedup_zap(&pool.mos.object(id)?, entries)?;
    }
    let mut logs: Vec<RawObject> = logs
        .into_iter()
        .map(|id| pool.mos.object(id))
        .collect::<Result<_>>()?;
    // The log being flushed comes first: the active one overrides it.
    logs.sort_by_key(|log| log.bonus_word(0) >> 8 & 1 == 0);
    for log in logs {
        load_dedup_log(&log, entries)?;
    }
    Ok(())
}

fn load_dedup_zap(zap: &RawObject, entries: &mut DedupEntries) -> Result<()> {
    zap.zap_entries(&mut |entry| {
        let ZapKey::Words(words) = &entry.key else {
            return;
        };
        let Ok(key) = DedupKey::try_from(&words[..]) else {
            return;
        };
        if let Some((bytes, order)) = dedup::unpack(entry.value.stored()) {
            entries.insert(key, addresses(&bytes, order));
        }
    })
}

fn load_dedup_log(log: &RawObject, entries: &mut DedupEntries) -> Result<()> {
    let order = ByteOrder::NATIVE;
    let flushing = log.bonus_word(0) >> 8 & 3 == 3;
    let checkpoint: DedupKey = get_at(log.dnode.bonus_bytes(), 24, order);
    let length = log.bonus_word(1).min(log.length_max());
    let size = log.block_size();
    for number in 0..length.div_ceil(size) {
        let block = log.read_block(number)?;
        for (key, value) in dedup::log_entries(&block) {
            if !(flushing && key <= checkpoint) {
                entries.insert(key, addresses(value, order));
            }
        }
    }
    Ok(())
}

/// The addresses that an entry describes, with their blocks.
fn addresses(bytes: &[u8], order: ByteOrder) -> Vec<(Address, DedupBlock)> {
    let found = dedup::addresses(bytes, order).into_iter();
    found
        .map(|(dva, block)| ((dva.vdev.0, dva.offset), block))
        .collect()
}

#[cfg(test)]
mod tests;
