//! Blocks that a dedup table counts: a reference to what is stored, or a new entry.

use std::sync::Arc;

use codec::Checksum;
use format::block_pointer::BlockPointer;
use sys::Buffer;
use vdev::{IoClass, WriteGroup};

use crate::{DedupAnswer, DedupMode, DedupSource, Pipeline, ReadRequest, WriteError, WriteRequest};

impl Pipeline {
    /// The pointer to a block by the dedup table of its checksum; none if it is to be stored as any other. `block` has
    /// no addresses yet.
    pub(super) fn write_counted(
        &self,
        request: &WriteRequest<'_>,
        block: &BlockPointer,
        stored: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<Option<BlockPointer>, WriteError> {
        let policy = &request.policy;
        let tables = match (policy.dedup, self.dedup.get()) {
            (DedupMode::Off, _) | (_, None) => return Ok(None),
            (DedupMode::Trust | DedupMode::Verify, Some(tables)) => tables,
        };
        // Of encrypted blocks the same content has another vector, and so another checksum, each time.
        if request.level != 0 || block.is_encrypted() {
            return Ok(None);
        }
        match tables.find(block, policy.copies) {
            DedupAnswer::Declined => Ok(None),
            DedupAnswer::Absent => self.enter(request, (block, stored), tables.as_ref(), group),
            DedupAnswer::Stored(found) => {
                if policy.dedup == DedupMode::Verify && !self.is_stored(request, &found, stored) {
                    return self.write_colliding(request, group);
                }
                self.counters.blocks_deduplicated.increment();
                let previous = &request.previous;
                if leads_to(previous, &found) {
                    // The reference that is counted already is kept.
                    return Ok(Some(*previous));
                }
                tables.refer(&found, policy.copies);
                let mut pointer = found;
                pointer.set_dedup(true);
                Ok(Some(pointer))
            }
        }
    }

    /// Whether the stored bytes of a block are these. One that cannot be read is not relied on.
    fn is_stored(&self, request: &WriteRequest<'_>, found: &BlockPointer, stored: &Buffer) -> bool {
        let ask = ReadRequest::new(request.bookmark)
            .in_class(IoClass::AsyncRead)
            .speculative();
        self.read_stored(found, &ask)
            .is_ok_and(|bytes| bytes[..] == stored[..])
    }

    /// Another block has the same checksum: stored by a better one, or as any other.
    fn write_colliding(
        &self,
        request: &WriteRequest<'_>,
        group: &Arc<WriteGroup>,
    ) -> Result<Option<BlockPointer>, WriteError> {
        if request.policy.checksum.is_dedup_safe() {
            return Ok(None);
        }
        let mut again = *request;
        again.policy.checksum = Checksum::Sha256;
        self.write(&again, group).map(Some)
    }

    /// Stores a block that the table has not, and enters it. One that does not fit in one piece is none of the table's.
    fn enter(
        &self,
        request: &WriteRequest<'_>,
        (block, stored): (&BlockPointer, &Buffer),
        tables: &dyn DedupSource,
        group: &Arc<WriteGroup>,
    ) -> Result<Option<BlockPointer>, WriteError> {
        let (psize, copies) = (stored.len() as u64, request.policy.copies);
        let Ok(allocation) = self.allocate(request, psize, copies) else {
            return Ok(None);
        };
        let mut pointer = *block;
        for (index, dva) in allocation.iter().enumerate() {
            pointer.set_dva(index, Some(dva));
        }
        self.queue_copies(request, allocation.iter(), stored, group)?;
        self.counters.blocks_written.increment();
        if let Some(other) = tables.enter(&pointer, copies) {
            // Another thread stored the same at the same time. The space rests, as all that is freed.
            let free = |dva| self.allocator.free(&dva, request.txg, request.txg);
            allocation.iter().for_each(free);
            pointer = other;
        }
        pointer.set_dedup(true);
        Ok(Some(pointer))
    }
}

/// Whether a pointer is one of those that the table counts for a stored block.
fn leads_to(pointer: &BlockPointer, found: &BlockPointer) -> bool {
    pointer.is_dedup()
        && pointer.dva(0) == found.dva(0)
        && pointer.physical_birth() == found.physical_birth()
        && pointer.checksum_value() == found.checksum_value()
        && pointer.checksum_id() == found.checksum_id()
        && pointer.object_type() == found.object_type()
        && pointer.lsize() == found.lsize()
}

#[cfg(test)]
mod tests;
