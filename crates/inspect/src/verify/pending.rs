//! Space that no dataset refers to and that is allocated all the same: about to be freed, kept by
//! a checkpoint, or in intent logs.

use std::collections::HashMap;

use base::{ByteOrder, ObjectId, ObjectSetId, Txg};
use format::block_pointer::{self, BlockPointer};
use format::bpobj::{self, BpobjPhys};
use format::bptree::{self, BlockTreeEntry, BlockTreePhys};
use format::config::directory;
use format::deadlist;
use format::record::get_at;

use super::space_maps::{TopSpace, for_each_checkpointed};
use super::walk::{Item, Strength, Walk};
use crate::error::{InspectError, Result};
use crate::log;
use crate::raw::{RawObjectSet, RawPool, ZapKey, datasets};

/// Lists nested deeper are damage.
const LIST_DEPTH_MAX: u32 = 64;
/// How many pointers are collected before they are visited.
const BATCH_BLOCKS: usize = 4096;

/// Visits all of it. What cannot be read goes to `damage`.
pub(super) fn visit(
    pool: &RawPool,
    walk: &Walk<'_>,
    tops: &[TopSpace],
    damage: &mut dyn FnMut(InspectError),
) {
    for name in [directory::SYNC_BPLIST, directory::FREE_BPOBJ] {
        if let Err(error) = visit_list(pool, walk, name) {
            damage(error);
        }
    }
    if let Err(error) = visit_trees(pool, walk) {
        damage(error);
    }
    if let Err(error) = visit_livelists(pool, walk) {
        damage(error);
    }
    for top in tops {
        let result = for_each_checkpointed(pool, top, &mut |offset, length| {
            // Out of place it is the checkpoint map's own fault; the comparison will tell.
            let _placed = top.referenced.insert(offset, length);
        });
        if let Err(error) = result {
            damage(error);
        }
    }
    visit_logs(pool, walk);
}

/// Blocks that are visited many at a time, for each visit has its price.
struct Batch<'a> {
    walk: &'a Walk<'a>,
    blocks: Vec<BlockPointer>,
}

impl<'a> Batch<'a> {
    const fn new(walk: &'a Walk<'a>) -> Self {
        Self {
            walk,
            blocks: Vec::new(),
        }
    }

    fn add(&mut self, block: BlockPointer) {
        self.blocks.push(block);
        if self.blocks.len() >= BATCH_BLOCKS {
            self.visit();
        }
    }

    fn visit(&mut self) {
        if !self.blocks.is_empty() {
            self.walk.visit_alone(&self.blocks, Strength::Pending);
            self.blocks.clear();
        }
    }
}

impl Drop for Batch<'_> {
    /// What was found before a list turned out to be damaged counts.
    fn drop(&mut self) {
        self.visit();
    }
}

fn visit_list(pool: &RawPool, walk: &Walk<'_>, name: &'static str) -> Result<()> {
    let Some(id) = pool.directory_word(name)? else {
        return Ok(());
    };
    let mut batch = Batch::new(walk);
    for_each_listed(pool, ObjectId(id), 0, &mut |pointer| batch.add(pointer))
}

/// Visits the pointers of a list and of the lists in it.
fn for_each_listed(
    pool: &RawPool,
    id: ObjectId,
    depth: u32,
    visit: &mut dyn FnMut(BlockPointer),
) -> Result<()> {
    if depth > LIST_DEPTH_MAX || id.0 == 0 {
        return Ok(());
    }
    let object = pool.mos.object(id)?;
    let phys = BpobjPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE);
    let per_block = object.block_size() / block_pointer::SIZE as u64;
    let count = phys
        .pointer_count
        .min(object.length_max() / block_pointer::SIZE as u64);
    let mut at = 0;
    while at < count {
        let block = object.read_block(at / per_block.max(1))?;
        for entry in block
            .chunks_exact(block_pointer::SIZE)
            .take((count - at) as usize)
        {
            visit(get_at(entry, 0, ByteOrder::NATIVE));
        }
        at += per_block.max(1);
    }
    if phys.subobject_count > 0 {
        let lists = pool.mos.object(phys.subobjects)?;
        let count = phys.subobject_count.min(lists.length_max() / 8) as usize;
        let bytes = lists.read_at(0, count * 8)?;
        for index in 0..count {
            let inner = ObjectId(get_at(&bytes, index * 8, ByteOrder::NATIVE));
            for_each_listed(pool, inner, depth + 1, visit)?;
        }
    }
    Ok(())
}

/// Datasets that are being destroyed in the background: what is left of them. The rest may be others' by now.
fn visit_trees(pool: &RawPool, walk: &Walk<'_>) -> Result<()> {
    let Some(id) = pool.directory_word(directory::BPTREE)? else {
        return Ok(());
    };
    let object = pool.mos.object(ObjectId(id))?;
    let phys = BlockTreePhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE);
    let mut items = Vec::new();
    for index in phys.begin
        ..phys
            .end
            .min(object.length_max() / BlockTreeEntry::SIZE as u64)
    {
        let bytes = object.read_at(index * BlockTreeEntry::SIZE as u64, BlockTreeEntry::SIZE)?;
        let entry = BlockTreeEntry::decode_padded(&bytes, ByteOrder::NATIVE);
        if entry.birth != bptree::DONE {
            // The datasets' object numbers are gone with them.
            let set = ObjectSetId(entry.bookmark[0]);
            items.push(Item::root(set, entry.root, entry.birth).pending(entry.bookmark));
        }
    }
    walk.run(items);
    Ok(())
}

/// Blocks of destroyed clones that wait in their live lists: allocations less frees.
fn visit_livelists(pool: &RawPool, walk: &Walk<'_>) -> Result<()> {
    let Some(id) = pool.directory_word(directory::DELETED_CLONES)? else {
        return Ok(());
    };
    let mut livelists = Vec::new();
    pool.mos.object(ObjectId(id))?.zap_entries(&mut |entry| {
        if let ZapKey::Name(name) = &entry.key {
            livelists.extend(deadlist::parse_integer_key(name).map(ObjectId));
        }
    })?;
    let mut batch = Batch::new(walk);
    for livelist in livelists {
        let mut lists = Vec::new();
        pool.mos.object(livelist)?.zap_entries(&mut |entry| {
            lists.extend(entry.value.as_word().map(ObjectId));
        })?;
        for list in lists {
            let mut net: HashMap<([u64; 2], Txg), (i64, BlockPointer)> = HashMap::new();
            for_each_listed(pool, list, 0, &mut |pointer| {
                let key = ([pointer.words[0], pointer.words[1]], pointer.space_birth());
                let change = if bpobj::is_freed(&pointer) { -1 } else { 1 };
                net.entry(key).or_insert((0, pointer)).0 += change;
            })?;
            for (count, pointer) in net.into_values() {
                (0..count).for_each(|_| batch.add(pointer));
            }
        }
    }
    Ok(())
}

/// Blocks of intent logs, and blocks that only their records refer to.
fn visit_logs(pool: &RawPool, walk: &Walk<'_>) {
    let heads: Vec<_> = datasets(pool, &mut |_| {})
        .into_iter()
        .filter(|dataset| !dataset.phys.is_snapshot())
        .collect();
    let mut batch = Batch::new(walk);
    for dataset in heads {
        let set = ObjectSetId(dataset.id.0);
        let block = dataset.phys.block_pointer;
        if block.is_hole() {
            continue;
        }
        // An unreadable object set was met by the walk already.
        let Ok(set) = RawObjectSet::open(&pool.pipeline, set, block) else {
            continue;
        };
        log::for_each_block(&set, &mut |element| {
            element
                .blocks(&set.phys.log_header)
                .into_iter()
                .for_each(|block| batch.add(block));
        });
    }
}
