//! Writing: hole, embedded, unchanged, in place, new space, or a gang, in that order of preference.

mod compress;
mod counted;
mod gang;
mod sealing;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use base::metrics::flow;
use base::{ByteOrder, invariant};
use codec::Compression;
use format::block_pointer::{BLOCK_SIZE_MAX, BlockPointer, Dva, Protection};
use sys::Buffer;
use vdev::{IoClass, WriteGroup};

use crate::keeping::is_metadata;
use crate::pipeline::sealed_cache_key;
use crate::{Allocation, AllocationError, AllocationRequest, Pipeline, WriteError, WriteRequest};
use compress::Stored;
use sealing::{Sealed, Sealing};

/// From this pass of a sync on, blocks that this sync wrote before are overwritten where they are.
const REWRITE_PASS_MIN: u32 = 2;
/// From this pass on they are not compressed any more, so that their sizes stop changing.
const UNCOMPRESSED_PASS_MIN: u32 = 8;
const SECTOR_BYTES: usize = 512;

impl Pipeline {
    /// Stores a block: queues its device writes in `group` and answers its new pointer. The bytes
    /// are on the devices once the group was waited for.
    ///
    /// The old block is the caller's to free, unless the new pointer is the
    /// [same block](BlockPointer::same_block): then it was rewritten in place or left as it was.
    ///
    /// # Errors
    /// When there is no space even in pieces, or the size is none that a block can have.
    pub fn write(
        &self,
        request: &WriteRequest<'_>,
        group: &Arc<WriteGroup>,
    ) -> Result<BlockPointer, WriteError> {
        let data = request.data;
        let sized = !data.is_empty()
            && data.len().is_multiple_of(SECTOR_BYTES)
            && data.len() as u64 <= BLOCK_SIZE_MAX;
        if !sized {
            return Err(WriteError::Size {
                bookmark: request.bookmark,
                size: data.len(),
            });
        }
        if request.form.is_none() && request.policy.zero_detect && is_zero(data) {
            return Ok(self.hole(request));
        }
        let sealing = self.sealing(request)?;
        let request = &sealing.restrict(request);
        let (stored, kind) = match self.compress(request) {
            Stored::Embedded(pointer) => {
                self.counters.blocks_embedded.increment();
                return Ok(pointer);
            }
            Stored::Packed(packed, kind) => (packed, kind),
            Stored::Plain => (data.clone(), sealing.compression()),
        };
        let sealed = sealing.seal(request, stored)?;
        let lsize = sealing.lsize(request);
        let mut block = self.describe(request, &sealed, (lsize, kind));
        let Sealed { stored, .. } = sealed;
        let psize = stored.len() as u64;
        // What was moved is written anew, so that its mapping is needed no more.
        if unchanged(request, &block, psize) && !self.was_moved(&request.previous) {
            self.counters.writes_avoided.increment();
            return Ok(request.previous);
        }
        // By what the whole block takes, also when it must be cut.
        let request = &request.for_size(psize);
        if let Some(counted) = self.write_counted(request, &block, &stored, group)? {
            if counted != request.previous {
                self.keep(request, &counted, (&sealing, &stored));
            }
            return Ok(counted);
        }
        self.place(request, &mut block, &stored, group)?;
        self.counters.blocks_written.increment();
        self.keep(request, &block, (&sealing, &stored));
        Ok(block)
    }

    /// Whether a block lies on a vdev that was removed.
    fn was_moved(&self, block: &BlockPointer) -> bool {
        let on_removed = |dva: Dva| {
            let top = self.vdevs.top(dva.vdev);
            top.is_ok_and(|top| top.is_indirect())
        };
        block.dvas().any(on_removed)
    }

    /// Gives a block its addresses, and queues its device writes: in place, in new space, or in pieces.
    fn place(
        &self,
        request: &WriteRequest<'_>,
        block: &mut BlockPointer,
        stored: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<(), WriteError> {
        let psize = stored.len() as u64;
        let previous = &request.previous;
        if may_rewrite(request, psize)
            && previous.is_gang()
            && let Some(header) = self.gangs.get(previous, request.txg)
        {
            self.counters.blocks_rewritten.increment();
            for (index, dva) in previous.dvas().enumerate() {
                block.set_dva(index, Some(dva));
            }
            self.rewrite_gang(request, block, header, stored, group)
        } else if may_rewrite(request, psize) && !previous.is_gang() {
            self.counters.blocks_rewritten.increment();
            self.forget_copy(previous);
            for (index, dva) in previous.dvas().enumerate() {
                block.set_dva(index, Some(dva));
            }
            self.queue_copies(request, block.dvas(), stored, group)
        } else {
            match self.allocate(request, psize, request.policy.copies) {
                Ok(allocation) => {
                    for (index, dva) in allocation.iter().enumerate() {
                        block.set_dva(index, Some(dva));
                    }
                    self.queue_copies(request, allocation.iter(), stored, group)
                }
                Err(AllocationError::NoSpace { .. }) => {
                    self.write_in_pieces(request, block, stored, group)
                }
                Err(source) => Err(WriteError::Allocation {
                    bookmark: request.bookmark,
                    source,
                }),
            }
        }
    }

    /// Gives the cache what was written, where it is to have that.
    fn keep(
        &self,
        request: &WriteRequest<'_>,
        block: &BlockPointer,
        (sealing, stored): (&Sealing, &Buffer),
    ) {
        let Some(key) = sealed_cache_key(block, sealing.keys()) else {
            return;
        };
        let set = request.bookmark.object_set;
        // Data that are on their way to the devices are done with; metadata are soon changed again.
        let is_kept = is_metadata(block) || self.keeps_block(block, set);
        if request.cached && is_kept {
            // The codes in a root block are the pipeline's.
            let is_root = block.protection() == Protection::Inside;
            let data = if is_root { stored } else { request.data };
            let stay = self.stay_of(block, set);
            self.cache
                .insert(key, data.clone(), data.memory_size(), stay);
        } else {
            // A block that was rewritten in place has the name of what it was.
            self.cache.remove(&key);
        }
    }

    fn hole(&self, request: &WriteRequest<'_>) -> BlockPointer {
        self.counters.holes_made.increment();
        // What was never there before needs no birth: readers of increments need not see it.
        if !self.hole_birth() || request.previous.birth().0 == 0 {
            return BlockPointer::HOLE;
        }
        let lsize = request.data.len() as u64;
        BlockPointer::hole_with_birth(lsize, request.object_type, request.level, request.txg)
    }

    /// The new pointer but for its addresses: until it has one it counts as a hole, without
    /// a physical size.
    fn describe(
        &self,
        request: &WriteRequest<'_>,
        sealed: &Sealed,
        (lsize, kind): (u64, Compression),
    ) -> BlockPointer {
        let stored = &sealed.stored;
        let psize = stored.len() as u64;
        let mut block = BlockPointer::for_block(request.object_type, request.level, lsize, psize);
        block.set_compression(kind);
        block.set_fill(request.fill);
        block.set_birth(request.txg, request.txg);
        let checksum = request.policy.checksum;
        let sum = self.checksum(checksum, stored, ByteOrder::NATIVE);
        sealing::describe(&mut block, (checksum, sum), sealed.seal.as_ref());
        block
    }

    fn allocate(
        &self,
        request: &WriteRequest<'_>,
        psize: u64,
        copies: u8,
    ) -> Result<Allocation, AllocationError> {
        self.allocator.allocate(&AllocationRequest {
            psize,
            copies: usize::from(copies.clamp(1, 3)),
            class: request.policy.class,
            txg: request.txg,
            hint: request.bookmark.object.0,
        })
    }

    fn queue_copies(
        &self,
        request: &WriteRequest<'_>,
        dvas: impl Iterator<Item = Dva>,
        stored: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<(), WriteError> {
        flow().txg.add(stored.len() as u64);
        for dva in dvas {
            let top = self
                .vdevs
                .top(dva.vdev)
                .map_err(|source| WriteError::Device {
                    bookmark: request.bookmark,
                    source,
                })?;
            let size = top.allocated_size(stored.len() as u64, request.txg);
            let dva_asize = dva.asize;
            invariant!(
                group.findings(),
                size <= dva_asize,
                "pipeline.room",
                "{} bytes take {size} on vdev {}, and got {dva_asize} at {}",
                stored.len(),
                dva.vdev,
                dva.offset
            );
            top.write(dva.offset, stored.clone(), IoClass::AsyncWrite, group);
        }
        Ok(())
    }
}

/// Whether a block is all zeros: decided by its first bytes for nearly every other block.
fn is_zero(data: &[u8]) -> bool {
    let (words, tail) = data.as_chunks::<64>();
    words.iter().all(|word| *word == [0; 64]) && tail.iter().all(|&byte| byte == 0)
}

/// Whether the old block is, by a strong checksum, the new one.
fn unchanged(request: &WriteRequest<'_>, block: &BlockPointer, psize: u64) -> bool {
    let (policy, old) = (&request.policy, &request.previous);
    policy.nopwrite
        && policy.checksum.is_nopwrite_safe()
        && policy.compression != Compression::Off
        && request.level == 0
        && !old.is_hole()
        && !old.is_embedded()
        && !old.is_encrypted()
        && !old.is_dedup()
        && old.checksum_id() == block.checksum_id()
        && old.compression_id() == block.compression_id()
        && old.byte_order() == block.byte_order()
        && old.lsize() == block.lsize()
        && old.psize() == psize
        && old.copies() == usize::from(policy.copies)
        && old.checksum_value() == block.checksum_value()
}

/// Whether the new bytes may go where this sync put the old ones.
fn may_rewrite(request: &WriteRequest<'_>, psize: u64) -> bool {
    let old = &request.previous;
    request.pass >= REWRITE_PASS_MIN
        && old.birth() == request.txg
        && old.physical_birth() == request.txg
        && !old.is_hole()
        && !old.is_embedded()
        && !old.is_dedup()
        && old.psize() == psize
        && (old.is_gang() || old.copies() == usize::from(request.policy.copies))
}
