//! Which txgs each leaf missed, as the pool stores it: a space map over txgs for each leaf.
//!
//! A leaf that did not take a write of a txg, while another of its mirror did, has missed that txg.
//! That is stored in the same txg, before its uberblock: after a crash nobody believes the leaf.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{ByteOrder, Guid, Txg};
use dmu::ObjectSet;
use format::config::keys;
use format::space_map::{self, Action, Encoder, Entry, Form, SpaceMapPhys};
use vdev::{Leaf, TxgRanges, VdevTree};

use crate::allocation::maps::{BLOCK_SIZE_MISSED, MosSpaceStore};
use crate::config::PoolConfig;
use crate::config::state::ConfigState;
use crate::error::{PoolError, Result};
use crate::import::discover::FoundDevice;

static STORED: LockClass = LockClass::new("pool.dtl", rank::DMU - 31);

/// No such map that we could write is longer; a header that says so is damaged.
const MAP_BYTES_MAX: u64 = 16 << 20;

/// At one a second 68 years: 65,536 entries of one word, and one more for each gap.
const ONE_WORD_TXGS_MAX: u64 = 1 << 31;

/// Devices that are further apart were forged: what lies between would not fit into a list.
const TXGS_APART_MAX: u64 = 1 << 48;

/// Every leaf of a tree.
pub(crate) fn leaves(vdevs: &VdevTree) -> Vec<Arc<Leaf>> {
    let tops = vdevs.tops().into_iter();
    tops.flat_map(|top| top.leaves().to_vec()).collect()
}

/// Tells the leaves what the pool has stored about them.
pub(crate) fn load(mos: &Arc<ObjectSet>, config: &PoolConfig, vdevs: &VdevTree) -> Result<()> {
    let known = leaves(vdevs);
    for node in config.root.leaves() {
        let leaf = known.iter().find(|leaf| leaf.guid() == node.guid());
        let (Some(leaf), Some(id)) = (leaf, node.object(keys::DTL)) else {
            continue;
        };
        let object = mos.object(id)?;
        let header =
            object.with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
        if header.length > MAP_BYTES_MAX {
            let text = format!("object {id} is no list of missed txgs");
            return Err(PoolError::Damaged(text));
        }
        let mut bytes = vec![0; usize::try_from(header.length).unwrap_or(0)];
        object.read(0, &mut bytes)?;
        let mut missing = TxgRanges::new();
        for entry in space_map::decode(&bytes, 0) {
            let entry = entry.map_err(PoolError::corrupt("list of missed txgs"))?;
            if entry.action == Action::Allocate {
                missing.add(Txg(entry.offset), entry.length);
            }
        }
        leaf.set_missing(missing);
    }
    Ok(())
}

/// Notes what leaves missed without anybody having stored it: the sides of a mirror get each
/// uberblock together, so one whose newest is older than another's has missed what lies between.
///
/// One that lacks the last uberblock alone has missed nothing by that: whoever missed something of a txg is in the
/// lists that the txg stored, and all others were flushed before its uberblock was written anywhere.
///
/// # Errors
/// They are further apart than a pool can be.
pub(crate) fn note_outdated(vdevs: &VdevTree, found: &[FoundDevice], newest: Txg) -> Result<()> {
    for top in vdevs.tops() {
        let newest_on = |leaf: &Arc<Leaf>| {
            let device = found.iter().find(|device| device.guid == leaf.guid())?;
            let best = device.labels.best_uberblock(Some(newest));
            Some(best.map_or(Txg(0), |best| best.uberblock.txg))
        };
        let last = top.leaves().iter().filter_map(newest_on).max();
        let before_last = |last: Txg| {
            let has_last = |device: &&FoundDevice| {
                let leaves = || top.leaves().iter().map(|leaf| leaf.guid());
                let best = device.labels.best_uberblock(Some(newest));
                best.is_some_and(|best| best.uberblock.txg == last)
                    && leaves().any(|guid| guid == device.guid)
            };
            let limit = Txg(last.0.saturating_sub(1));
            let having = found.iter().filter(has_last);
            let before = having.filter_map(|device| device.labels.best_uberblock(Some(limit)));
            before.map(|best| best.uberblock.txg).max()
        };
        for leaf in top.leaves() {
            if let (Some(own), Some(last)) = (newest_on(leaf), last)
                && own < last
                && before_last(last).is_some_and(|before| own < before)
            {
                let apart = last.0 - own.0;
                if apart > TXGS_APART_MAX {
                    let text = format!("devices of a vdev are {apart} txgs apart");
                    return Err(PoolError::Damaged(text));
                }
                let mut missing = leaf.missing();
                missing.add(own.next(), apart);
                leaf.set_missing(missing);
            }
        }
    }
    Ok(())
}

/// Keeps what is stored in step with what the leaves missed.
pub(crate) struct MissedTxgs {
    vdevs: Arc<VdevTree>,
    maps: Arc<MosSpaceStore>,
    config: Arc<ConfigState>,
    /// What is stored, by leaf; nothing for those that never missed a txg.
    stored: Mutex<BTreeMap<Guid, TxgRanges>>,
}

impl MissedTxgs {
    /// `stored`: what [`load`] found.
    pub(crate) fn new(
        vdevs: Arc<VdevTree>,
        maps: Arc<MosSpaceStore>,
        config: Arc<ConfigState>,
        stored: BTreeMap<Guid, TxgRanges>,
    ) -> Self {
        Self {
            vdevs,
            maps,
            config,
            stored: Mutex::new(&STORED, stored),
        }
    }

    /// The leaves about which something else is stored, with what they missed.
    fn changed(&self) -> Vec<(Guid, TxgRanges)> {
        let stored = self.stored.lock();
        let none = TxgRanges::new();
        leaves(&self.vdevs)
            .into_iter()
            .map(|leaf| (leaf.guid(), leaf.missing()))
            .filter(|(guid, missing)| stored.get(guid).unwrap_or(&none) != missing)
            .collect()
    }

    /// While a resilver runs a leaf that is not there misses every txg that is written, also one without a block for
    /// it: so an import knows for which leaves the stored place of the resilver holds. After the flush, for one that
    /// fails it is not there any more, and may have lost what it was given before that place. So may one that was away
    /// and is back: what it lost is of txgs that it lacked in any case, or a rebuild had copied it, which is of none.
    pub(crate) fn note_away(&self, txg: Txg) {
        let leaves = leaves(&self.vdevs);
        let is_any = leaves.iter().any(|leaf| leaf.is_resilvering());
        for leaf in leaves {
            leaf.note_lost(txg, is_any);
            if is_any && !leaf.is_writable() {
                leaf.note_missing(txg);
            }
        }
    }

    /// Whether something must be stored.
    pub(crate) fn is_dirty(&self) -> bool {
        !self.changed().is_empty()
    }

    /// Stores it; in syncing context.
    pub(crate) fn sync(&self) -> Result<()> {
        for (guid, missing) in self.changed() {
            let known = self.config.with(|config| {
                let leaves = config.root.leaves();
                let leaf = leaves.into_iter().find(|leaf| leaf.guid() == guid);
                leaf.and_then(|leaf| leaf.object(keys::DTL))
            });
            let allocated = i64::try_from(count(&missing)).unwrap_or(i64::MAX);
            let object = self.maps.rewrite(known, &encode(&missing), allocated)?;
            if known != Some(object) {
                self.config.change(|config| {
                    if let Some(leaf) = config.root.find_mut(guid) {
                        leaf.list.set(keys::DTL, object.0);
                    }
                });
            }
            self.stored.lock().insert(guid, missing);
        }
        Ok(())
    }
}

/// How many txgs there are in a list.
fn count(missing: &TxgRanges) -> u64 {
    let lengths = missing.iter().map(|(_, length)| length);
    lengths.fold(0, u64::saturating_add)
}

/// The words of a list. Entries of one word, which every version reads, unless these would be many: no pool has lived
/// for so many txgs, but an uberblock can say so.
fn encode(missing: &TxgRanges) -> Vec<u8> {
    let form = if count(missing) > ONE_WORD_TXGS_MAX {
        Form::Mixed
    } else {
        Form::OneWord
    };
    let mut encoder = Encoder::new(0, form, BLOCK_SIZE_MISSED as usize, 0);
    for (first, length) in missing.iter() {
        encoder.push(Entry {
            action: Action::Allocate,
            vdev: 0,
            offset: first.0,
            length,
        });
    }
    encoder.finish()
}

#[cfg(test)]
mod tests;
