//! Intent logs: the chain of blocks that hangs off an object set, and its records.

use base::{Bookmark, Txg};
use format::block_pointer::BlockPointer;
use format::intent_log::{Body, ChainElement, ChainForm, Identity, LogHeader, Record, Records};
use pipeline::ReadRequest;
use sys::Buffer;
use vdev::IoClass;

use crate::raw::RawObjectSet;

/// A chain longer than this goes in circles.
const CHAIN_BLOCKS_MAX: u64 = 1 << 22;

/// A link of the chain.
pub(crate) struct LogBlock {
    /// The pointer to it.
    pub(crate) pointer: BlockPointer,
    /// Its content; none for the last one, which is allocated but was never written.
    content: Option<(Buffer, ChainForm, ChainElement, base::ByteOrder)>,
}

impl LogBlock {
    /// Whether the block was written.
    pub(crate) fn is_written(&self) -> bool {
        self.content.is_some()
    }

    /// Visits its records.
    pub(crate) fn for_each_record(&self, visit: &mut dyn FnMut(&Record<'_>)) {
        let Some((bytes, form, element, order)) = &self.content else {
            return;
        };
        let Ok(range) = form.records(element, bytes.len()) else {
            return;
        };
        // A record that makes no sense ends the block: lengths lead from one to the next.
        for record in Records::new(&bytes[range], *order).map_while(Result::ok) {
            visit(&record);
        }
    }

    /// The block itself and the blocks that its records refer to, in the log that `header` begins.
    pub(crate) fn blocks(&self, header: &LogHeader) -> Vec<BlockPointer> {
        let mut blocks = vec![self.pointer];
        let is_bounded = header.flags & LogHeader::FLAG_CLAIM_RECORD_VALID != 0;
        // Those that a clone record names are the cloned file's, which is on disk and refers to them. Who claims the
        // log counts them once more.
        let is_counted = |record: &Record<'_>| {
            let sequence = record.header.sequence;
            header.claim_txg != Txg(0) && !(is_bounded && sequence > header.claim_record_sequence)
        };
        self.for_each_record(&mut |record| {
            if let Body::Write(fields) = &record.body
                && !fields.pointer.is_hole()
            {
                blocks.push(fields.pointer);
            } else if is_counted(record) {
                let has_space = |block: &BlockPointer| !block.is_hole() && !block.is_embedded();
                blocks.extend(record.pointers().filter(has_space));
            }
        });
        blocks
    }
}

/// Visits the links of an object set's log in order.
pub(crate) fn for_each_block(set: &RawObjectSet, visit: &mut dyn FnMut(LogBlock)) {
    let mut pointer = set.phys.log_header.log;
    for _ in 0..CHAIN_BLOCKS_MAX {
        if pointer.is_hole() {
            return;
        }
        let content = read(set, &pointer);
        let next = content.as_ref().map(|(_, _, element, _)| element.clone());
        visit(LogBlock { pointer, content });
        match next {
            Some(element) if element.continues(Identity::of(&pointer)) => pointer = element.next,
            _ => return,
        }
    }
}

fn read(
    set: &RawObjectSet,
    pointer: &BlockPointer,
) -> Option<(Buffer, ChainForm, ChainElement, base::ByteOrder)> {
    let form = ChainForm::of(pointer)?;
    let sequence = Identity::of(pointer).sequence();
    let bookmark = Bookmark {
        object_set: set.id,
        object: base::ObjectId(0),
        level: -2,
        block: sequence,
    };
    let request = ReadRequest::new(bookmark)
        .in_class(IoClass::Scan)
        .uncached()
        .speculative();
    let bytes = set.pipeline.read_stored(pointer, &request).ok()?;
    let (element, order) = ChainElement::find(&bytes, form).ok()?;
    Some((bytes, form, element, order))
}
