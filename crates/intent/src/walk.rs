//! Reading a chain from the medium: block by block, until one does not continue it.

use std::collections::HashSet;

use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId, Txg};
use format::BlockPointer;
use format::intent_log::{
    Body, ChainElement, ChainForm, Identity, LogHeader, Record, Records, kind,
};
use pipeline::{Pipeline, ReadRequest};
use sys::Buffer;

/// A chain longer than this goes in circles.
pub(crate) const BLOCKS_MAX: usize = 1 << 22;

/// A chain as the medium has it.
#[derive(Debug, Default)]
pub struct Chain {
    /// The blocks in order, as far as they count. The last was never written, or not whole, or begins a commit that
    /// does not count.
    pub blocks: Vec<BlockPointer>,
    /// The blocks behind these: the others of a commit that does not count, and what follows it.
    pub beyond: Vec<BlockPointer>,
    /// How many records were shown.
    pub records: u64,
    /// The block sequence number of the last of `blocks`.
    pub block_sequence: u64,
    /// The sequence number of the last record of the last whole commit.
    pub record_sequence: u64,
    /// The highest sequence number in the blocks that were shown.
    last_shown: u64,
}

/// The content of one block.
pub(crate) struct Content {
    pub(crate) bytes: Buffer,
    pub(crate) form: ChainForm,
    pub(crate) element: ChainElement,
    pub(crate) order: ByteOrder,
}

/// How far a chain counts: what was claimed of it.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// The last block.
    pub(crate) block: u64,
    /// The last record.
    pub(crate) record: u64,
}

impl Limits {
    pub(crate) fn of(header: &LogHeader) -> Self {
        let mut limits = Self {
            block: u64::MAX,
            record: u64::MAX,
        };
        if header.claim_txg != Txg(0) {
            limits.block = header.claim_block_sequence;
            if header.flags & LogHeader::FLAG_CLAIM_RECORD_VALID != 0 {
                limits.record = header.claim_record_sequence;
            }
        }
        limits
    }
}

/// One block of a chain; none when it is not there, or does not continue the chain.
pub(crate) fn read(
    pipeline: &Pipeline,
    set: ObjectSetId,
    pointer: &BlockPointer,
) -> Option<Content> {
    let form = ChainForm::of(pointer)?;
    let bookmark = Bookmark {
        object_set: set,
        object: ObjectId(0),
        level: -2,
        block: Identity::of(pointer).sequence(),
    };
    let request = ReadRequest::new(bookmark).uncached().speculative();
    let bytes = pipeline.read_stored(pointer, &request).ok()?;
    let (element, order) = ChainElement::find(&bytes, form).ok()?;
    if !element.continues(Identity::of(pointer)) {
        return None;
    }
    let used = usize::try_from(element.used_bytes).ok()?;
    let bytes = pipeline.open_log_block(set, pointer, (bytes, used, order))?;
    Some(Content {
        bytes,
        form,
        element,
        order,
    })
}

/// Walks the chain of a header. Each record is shown to `visit`; with false the commit that it is of does not count,
/// nor what follows: no more is shown.
/// Of a claimed chain nothing past what was claimed is shown, and nothing of a commit whose last block is not there:
/// data are looked up when a commit is written, so that its first records may show what only its last ones explain.
pub fn walk(
    pipeline: &Pipeline,
    set: ObjectSetId,
    header: &LogHeader,
    visit: &mut dyn FnMut(&Record<'_>) -> bool,
) -> Chain {
    let mut chain = Chain::default();
    let Limits {
        block: block_max,
        record: record_max,
    } = Limits::of(header);
    let mut places = HashSet::new();
    let mut pointer = header.log;
    // Blocks before this sequence number are known to be of whole commits.
    let mut whole_until = 0;
    // How many blocks there are up to the first of the commit under way.
    let mut up_to_first = 0;
    let mut is_cut = false;
    while !pointer.is_hole() && chain.blocks.len() < BLOCKS_MAX {
        let sequence = Identity::of(&pointer).sequence();
        let place = pointer.dva(0).map(|dva| (dva.vdev, dva.offset));
        if sequence == 0 || sequence > block_max || !places.insert(place) {
            break;
        }
        chain.blocks.push(pointer);
        let Some(content) = read(pipeline, set, &pointer) else {
            break;
        };
        if sequence >= whole_until && !is_cut {
            up_to_first = chain.blocks.len();
            match commit_end(pipeline, set, &content.element, sequence, block_max) {
                Some(end) => whole_until = end,
                None => is_cut = true,
            }
        }
        // Whoever walks over what was claimed of it must come to the same blocks: it ends with a commit, not in one.
        is_cut = is_cut || !show(&content, record_max, &mut chain, visit);
        pointer = content.element.next;
    }
    if is_cut {
        chain.beyond = chain.blocks.split_off(up_to_first);
    }
    let last = chain.blocks.last();
    chain.block_sequence = last.map_or(0, |last| Identity::of(last).sequence());
    chain
}

/// The sequence number behind the commit that begins with a block; none: not all of its blocks are there.
fn commit_end(
    pipeline: &Pipeline,
    set: ObjectSetId,
    first: &ChainElement,
    sequence: u64,
    block_max: u64,
) -> Option<u64> {
    let last = sequence.checked_add(first.following)?;
    if last > block_max {
        return None;
    }
    let mut next = first.next;
    for _ in 0..first.following {
        next = read(pipeline, set, &next)?.element.next;
    }
    last.checked_add(1)
}

/// Shows the records of one block; whether it counts.
fn show(
    content: &Content,
    record_max: u64,
    chain: &mut Chain,
    visit: &mut dyn FnMut(&Record<'_>) -> bool,
) -> bool {
    let Ok(range) = content.form.records(&content.element, content.bytes.len()) else {
        return false;
    };
    let bytes = content.bytes.get(range).unwrap_or(&[]);
    let mut last = chain.last_shown;
    for record in Records::new(bytes, content.order) {
        let Ok(record) = record else {
            // The block passed its checksum: its writer knows a kind that we do not.
            return false;
        };
        if record.header.sequence > record_max || !visit(&record) {
            return false;
        }
        chain.records += 1;
        last = last.max(record.header.sequence);
    }
    chain.last_shown = last;
    if content.element.following == 0 {
        chain.record_sequence = last;
    }
    true
}

/// The blocks that an object set owns through its log's header, besides its tree: those of the
/// chain, and of a claimed chain the data that were written for it, and what its records of clones refer to: who
/// claimed it counted a reference for each.
#[must_use]
pub fn owned_blocks(
    pipeline: &Pipeline,
    set: ObjectSetId,
    header: &LogHeader,
) -> Vec<BlockPointer> {
    let claim = header.claim_txg;
    let mut data: Vec<BlockPointer> = Vec::new();
    let mut referenced: Vec<BlockPointer> = Vec::new();
    let chain = walk(pipeline, set, header, &mut |record| {
        if claim != Txg(0) {
            referenced.extend(shared_blocks(record));
        }
        if let Some(pointer) = data_block(record)
            && claim != Txg(0)
            && pointer.birth() >= claim
            && !data.iter().any(|known| known.same_block(&pointer))
        {
            data.push(pointer);
        }
        true
    });
    let mut blocks = chain.blocks;
    blocks.extend(chain.beyond);
    blocks.append(&mut data);
    blocks.append(&mut referenced);
    blocks
}

/// The blocks that a record of a clone refers to, once for each reference; of other records none. References to
/// others than data are not counted by anybody.
pub(crate) fn shared_blocks(record: &Record<'_>) -> impl Iterator<Item = BlockPointer> {
    record.pointers().filter(|pointer| {
        !pointer.is_hole()
            && !pointer.is_embedded()
            && pointer.level() == 0
            && !pointer.object_type().is_metadata()
    })
}

/// The block that holds the data of a write.
pub(crate) fn data_block(record: &Record<'_>) -> Option<BlockPointer> {
    match &record.body {
        Body::Write(fields) => {
            // Records of that other kind have none; without a key there is ciphertext in its place.
            let pointer = fields.pointer;
            (record.kind() == kind::WRITE && !pointer.is_hole() && !pointer.is_embedded()).then_some(pointer)
        }
        Body::Create(_)
        | Body::CreateAcl(..)
        | Body::Remove(_)
        | Body::Link(_)
        | Body::Rename(_)
        | Body::Whiteout(_)
        | Body::Truncate(_)
        | Body::SetAttributes(_)
        | Body::OldAcl(_)
        | Body::Acl(_)
        | Body::SetXattr(_)
        // Shares blocks, and brings none.
        | Body::CloneRange(_) => None,
    }
}
