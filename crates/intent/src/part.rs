//! A log in parts, for scans: which blocks are on the medium because of it.

use base::{Bookmark, ObjectId, ObjectSetId, Txg};
use format::BlockPointer;
use format::intent_log::{Identity, LogHeader, Records};
use pipeline::Pipeline;

use crate::walk::{BLOCKS_MAX, Content, Limits, data_block, read, shared_blocks};

/// A block of a log: of its chain, or with data that were written for it.
#[derive(Clone, Copy, Debug)]
pub struct LogBlock {
    /// The block.
    pub block: BlockPointer,
    /// Which block it is.
    pub bookmark: Bookmark,
}

/// Some blocks of a chain that lie one after the other, and the data written for them.
#[derive(Debug, Default)]
pub struct LogPart {
    /// The blocks: those of the chain were read.
    pub blocks: Vec<LogBlock>,
    /// Where to go on; none when the chain ends with this part.
    pub next: Option<Resume>,
    /// The block with which a claimed chain ends too early: what follows was promised, and is lost.
    pub lost: Option<LogBlock>,
}

/// Where to go on in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resume {
    /// What the chain began with.
    head: BlockPointer,
    /// The block to begin with.
    next: BlockPointer,
    /// The sequence number of the last block before.
    after: u64,
}

/// The blocks of a chain from a place on, at most `count` of them. The last block of a chain, which was never written,
/// is not among them. Of a claimed log also the data that belong to it; of a log that is in use nothing that was born
/// after `until`.
#[must_use]
pub fn part(
    pipeline: &Pipeline,
    (set, header): (ObjectSetId, &LogHeader),
    from: Option<Resume>,
    (until, count): (Txg, usize),
) -> LogPart {
    let mut part = LogPart::default();
    let limits = Limits::of(header);
    let after = from.map_or(0, |from| from.after);
    // A chain whose beginning was freed meanwhile is followed from where it begins now.
    let same = from.filter(|from| from.head == header.log);
    let mut pointer = same.map_or(header.log, |from| from.next);
    let (mut seen, mut taken, mut last) = (0, 0, None);
    while !pointer.is_hole() && seen < BLOCKS_MAX {
        let sequence = Identity::of(&pointer).sequence();
        // Each block has a greater number than the one before: a chain does not go in circles.
        if sequence == 0 || sequence > limits.block || last.is_some_and(|last| sequence <= last) {
            break;
        }
        if header.claim_txg == Txg(0) && pointer.birth() > until {
            break;
        }
        if taken == count {
            part.next = last.map(|after| Resume {
                head: header.log,
                next: pointer,
                after,
            });
            break;
        }
        let found = LogBlock {
            block: pointer,
            bookmark: bookmark(set, ObjectId(0), sequence),
        };
        let Some(content) = read(pipeline, set, &pointer) else {
            let is_promised = header.claim_txg != Txg(0) && sequence < limits.block;
            part.lost = is_promised.then_some(found);
            break;
        };
        if sequence > after {
            taken += 1;
            part.blocks.push(found);
            if header.claim_txg != Txg(0) {
                data_of(&content, (set, header.claim_txg, limits), &mut part.blocks);
            }
        }
        (last, seen) = (Some(sequence), seen + 1);
        pointer = content.element.next;
    }
    part
}

fn bookmark(object_set: ObjectSetId, object: ObjectId, block: u64) -> Bookmark {
    Bookmark {
        object_set,
        object,
        level: -2,
        block,
    }
}

/// The data blocks that belong to the records of one block of a claimed log.
fn data_of(
    content: &Content,
    (set, claim, limits): (ObjectSetId, Txg, Limits),
    blocks: &mut Vec<LogBlock>,
) {
    let Ok(range) = content.form.records(&content.element, content.bytes.len()) else {
        return;
    };
    let bytes = content.bytes.get(range).unwrap_or(&[]);
    for record in Records::new(bytes, content.order).map_while(Result::ok) {
        if record.header.sequence > limits.record {
            return;
        }
        // Blocks that a clone refers to may be nobody else's by now, however old they are.
        let data = data_block(&record).filter(|block| block.birth() >= claim);
        for block in data.into_iter().chain(shared_blocks(&record)) {
            let bookmark = bookmark(set, ObjectId(0), record.header.sequence);
            blocks.push(LogBlock { block, bookmark });
        }
    }
}
