//! Claiming at import: the blocks of a chain that was being written when the pool went down are
//! free in the space maps. They are marked as in use before anything is allocated.

use base::{Bookmark, ObjectSetId, Txg};
use format::BlockPointer;
use format::intent_log::{Body, LogHeader};
use pipeline::{Pipeline, ReadRequest};

use crate::walk::{data_block, shared_blocks, walk};

/// What claiming a log comes to.
#[derive(Debug)]
pub struct Claim {
    /// The header that the object set has from the claiming txg on.
    pub header: LogHeader,
    /// Blocks whose space is to be marked as in use.
    pub blocks: Vec<BlockPointer>,
    /// The blocks of the chain, those that are in the maps included.
    pub chain: Vec<BlockPointer>,
    /// Blocks of the chain behind what counts, which are in the maps: to be freed, as nothing leads to them any more.
    pub unneeded: Vec<BlockPointer>,
    /// The blocks that records of clones refer to, once for each reference: they are others' too, and are to be kept
    /// until the log is freed.
    pub shared: Vec<BlockPointer>,
}

/// What is told apart by when it was written.
#[derive(Clone, Copy, Debug)]
pub struct Ages {
    /// The last txg in which the head was synced. Records up to it are on disk; usually all later ones are younger than
    /// the pool's last txg, but a head that was taken out of service stays behind its pool.
    pub synced: Txg,
    /// Blocks born before this are in the maps.
    pub newer: Txg,
    /// The first txg of this import, which claims the others.
    pub first: Txg,
}

/// Finds out what has to be claimed of a log; nothing when there is none, or it was claimed by an
/// earlier import.
#[must_use]
pub fn claim(
    pipeline: &Pipeline,
    set: ObjectSetId,
    header: &LogHeader,
    Ages {
        synced,
        newer,
        first,
    }: Ages,
) -> Option<Claim> {
    if header.log.is_hole() || header.claim_txg != Txg(0) {
        return None;
    }
    let mut data: Vec<(u64, BlockPointer)> = Vec::new();
    let mut shared: Vec<(u64, BlockPointer)> = Vec::new();
    let mut is_behind = false;
    let chain = walk(pipeline, set, header, &mut |record| {
        is_behind |= record.header.txg > synced && record.header.txg < newer;
        if matches!(record.body, Body::CloneRange(_)) {
            let sequence = record.header.sequence;
            let before = shared.len();
            shared.extend(shared_blocks(record).map(|pointer| (sequence, pointer)));
            // Blocks of a txg that did not reach the disk are lost.
            return shared[before..]
                .iter()
                .all(|(_, pointer)| pointer.birth() < newer);
        }
        let Some(pointer) = data_block(record).filter(|pointer| pointer.birth() >= newer) else {
            return true;
        };
        // A block that cannot be read was not written whole: its commit was never acknowledged.
        let request = ReadRequest::new(Bookmark {
            level: -2,
            ..Bookmark::root(set)
        });
        let readable = pipeline
            .read_stored(&pointer, &request.uncached().unpromised())
            .is_ok();
        if readable && !data.iter().any(|(_, known)| known.same_block(&pointer)) {
            data.push((record.header.sequence, pointer));
        }
        readable
    });
    let owed = chain.records > 0 || chain.blocks.len() > 1;
    let mut unneeded = chain.beyond;
    unneeded.retain(|pointer| pointer.birth() < newer);
    let mut flags = header.flags | LogHeader::FLAG_CLAIM_RECORD_VALID;
    if owed {
        flags |= LogHeader::FLAG_REPLAY_NEEDED;
    }
    let header = LogHeader {
        // Older records are not replayed.
        claim_txg: if is_behind { synced.next() } else { first },
        claim_block_sequence: chain.block_sequence,
        claim_record_sequence: chain.record_sequence,
        flags,
        ..header.clone()
    };
    let mut blocks = chain.blocks.clone();
    blocks.retain(|pointer| pointer.birth() >= newer);
    // What belongs to a commit that is not whole is left to the free space.
    let is_whole = |(sequence, _): &(u64, BlockPointer)| *sequence <= chain.record_sequence;
    data.retain(is_whole);
    shared.retain(is_whole);
    blocks.extend(data.into_iter().map(|(_, pointer)| pointer));
    Some(Claim {
        header,
        blocks,
        chain: chain.blocks,
        unneeded,
        shared: shared.into_iter().map(|(_, pointer)| pointer).collect(),
    })
}
