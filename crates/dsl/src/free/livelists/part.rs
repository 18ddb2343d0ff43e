//! The part of a livelist that is being freed.

use std::collections::HashMap;

use base::{ObjectId, Txg};
use format::BlockPointer;

use crate::bpobj::Bpobj;
use crate::deadlist::Deadlist;
use crate::error::Result;
use crate::mos::Mos;
use crate::tunables;

/// A part of a destroyed clone's livelist that is being freed. What was freed of it is written into it, so that nothing
/// is freed twice after a restart; what is known here then is found out again.
pub(crate) struct PartInHand {
    list: ObjectId,
    key: Txg,
    /// The share of its blocks that is under way, of so many.
    share: u64,
    shares: u64,
    /// What of this share is still to be freed.
    blocks: Vec<BlockPointer>,
}

/// What tells one block from another: its addresses and properties, not its fill or checksum.
type BlockKey = [u64; 11];

fn block_key(pointer: &BlockPointer) -> BlockKey {
    std::array::from_fn(|index| pointer.words[index])
}

impl PartInHand {
    /// Begins with a part. It is gone through once for each share of its blocks, told apart by their addresses, so that
    /// memory does not follow the length of a part; what is born and dropped is in one share.
    pub(super) fn begin(mos: &Mos, list: &Deadlist, key: Txg, part: ObjectId) -> Result<Self> {
        let part = Bpobj::open(mos, part)?;
        let mut entries = 0u64;
        part.for_each(&mut |_, _| {
            entries += 1;
            Ok(())
        })?;
        let shares = entries
            .div_ceil(tunables::LIVELIST_KEPT_ENTRIES.get())
            .max(1);
        Ok(Self {
            list: list.id(),
            key,
            share: 0,
            shares,
            blocks: live_blocks(&part, 0, shares)?,
        })
    }

    /// The livelist that it is a part of.
    pub(super) const fn list(&self) -> ObjectId {
        self.list
    }

    /// Its key there.
    pub(super) const fn key(&self) -> Txg {
        self.key
    }

    /// Up to `limit` of the blocks of the share under way, which are to be freed now.
    pub(super) fn take(&mut self, limit: u64) -> Vec<BlockPointer> {
        let left =
            usize::try_from(limit).map_or(0, |limit| self.blocks.len().saturating_sub(limit));
        self.blocks.split_off(left)
    }

    /// Whether every block of every share was taken.
    pub(super) const fn is_used_up(&self) -> bool {
        self.blocks.is_empty() && self.share + 1 == self.shares
    }

    /// Goes on to the next share when all of one was taken, and what was taken is noted in the part.
    pub(super) fn go_on(&mut self, part: &Bpobj) -> Result<()> {
        if self.blocks.is_empty() {
            self.share += 1;
            self.blocks = live_blocks(part, self.share, self.shares)?;
        }
        Ok(())
    }
}

/// Which of so many shares a block belongs to.
fn share_of(key: &BlockKey, shares: u64) -> u64 {
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let mixed = key.iter().fold(0u64, |mixed, word| {
        (mixed ^ word).wrapping_mul(SPREAD).rotate_left(29)
    });
    mixed % shares
}

/// What of a share of a part's blocks is in use, each block as often as it is. The first to be freed is the last.
fn live_blocks(part: &Bpobj, share: u64, shares: u64) -> Result<Vec<BlockPointer>> {
    let mut live: HashMap<BlockKey, (i64, BlockPointer)> = HashMap::new();
    part.for_each(&mut |pointer, freed| {
        let key = block_key(pointer);
        if share_of(&key, shares) == share {
            let (count, _) = live.entry(key).or_insert((0, *pointer));
            *count += if freed { -1 } else { 1 };
        }
        Ok(())
    })?;
    let mut blocks = Vec::with_capacity(live.len());
    for (count, pointer) in live.into_values() {
        blocks.extend((0..count).map(|_| pointer));
    }
    blocks.sort_unstable_by_key(|pointer| std::cmp::Reverse(block_key(pointer)));
    Ok(blocks)
}
