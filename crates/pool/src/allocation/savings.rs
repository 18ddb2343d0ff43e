//! Space that is kept or saved by what we only read: checkpoints, dedup tables, cloned blocks.

use base::{ByteOrder, ObjectId};
use dmu::{ObjectSet, Zap};
use format::config::{directory, keys, vdev_zap};
use format::record::get_at;
use format::space_map::SpaceMapPhys;

use crate::allocation::limits::Limits;
use crate::config::VdevConfig;
use crate::error::Result;

/// Where a clone table's bonus says how many bytes clones save.
const CLONES_SAVED: usize = 48;
/// Words of one bucket of dedup statistics: blocks, three sizes, and the same as referenced.
const BUCKET: usize = 8;
const BUCKET_SIZE: usize = 3;
const BUCKET_REFERENCED: usize = 7;

/// Tells the limits of what is kept and saved.
pub(crate) fn load(
    mos: &ObjectSet,
    root: &Zap,
    config: &VdevConfig,
    limits: &Limits,
) -> Result<()> {
    limits.set_checkpoint(checkpoint(mos, config)?);
    let (dedup, clones) = saved(mos, root)?;
    limits.set_saved(dedup.saved());
    limits.set_shared(clones);
    limits.set_dedup_percent(dedup.percent());
    Ok(())
}

/// Bytes freed since the checkpoint that still belong to it.
fn checkpoint(mos: &ObjectSet, config: &VdevConfig) -> Result<u64> {
    let mut sum = 0_u64;
    for top in &config.children {
        let Some(zap) = top.object(keys::VDEV_ZAP_TOP) else {
            continue;
        };
        let zap = Zap::open(&mos.object(zap)?)?;
        let map = zap.lookup(vdev_zap::CHECKPOINT_SPACE_MAP.as_bytes())?;
        if let Some(id) = map.filter(|id| *id != 0) {
            let header = mos
                .object(ObjectId(id))?
                .with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
            sum = sum.saturating_add(header.allocated.unsigned_abs());
        }
    }
    Ok(sum)
}

/// Deduplicated bytes: as stored, and as referenced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Dedup {
    stored: u64,
    referenced: u64,
}

impl Dedup {
    const fn saved(self) -> u64 {
        self.referenced.saturating_sub(self.stored)
    }

    fn percent(self) -> u64 {
        let percent = u128::from(self.referenced) * 100;
        match percent.checked_div(u128::from(self.stored)) {
            Some(percent) => u64::try_from(percent).unwrap_or(u64::MAX),
            None => 100,
        }
    }
}

fn saved(mos: &ObjectSet, root: &Zap) -> Result<(Dedup, u64)> {
    let mut dedup = Dedup::default();
    let mut sum = 0_u64;
    for entry in root.entries()? {
        let Ok(name) = std::str::from_utf8(&entry.name) else {
            continue;
        };
        if name == directory::DEDUP_STATISTICS {
            dedup = statistics(mos, ObjectId(entry.value))?;
        } else if name.starts_with(directory::BLOCK_REFERENCE_PREFIX) {
            let table = mos.object(ObjectId(entry.value))?;
            sum = sum.saturating_add(
                table.with_bonus(|bonus| get_at(bonus, CLONES_SAVED, ByteOrder::NATIVE)),
            );
        }
    }
    Ok((dedup, sum))
}

fn statistics(mos: &ObjectSet, id: ObjectId) -> Result<Dedup> {
    let zap = Zap::open(&mos.object(id)?)?;
    let mut sum = Dedup::default();
    for entry in zap.entries()? {
        let Some(value) = zap.lookup_value(&entry.name)? else {
            continue;
        };
        let bytes = value.stored();
        for bucket in bytes.chunks_exact(8 * BUCKET) {
            let word = |index: usize| get_at::<u64>(bucket, 8 * index, ByteOrder::Big);
            sum.stored = sum.stored.saturating_add(word(BUCKET_SIZE));
            sum.referenced = sum.referenced.saturating_add(word(BUCKET_REFERENCED));
        }
    }
    Ok(sum)
}
