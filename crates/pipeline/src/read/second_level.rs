//! Cache devices: reading a block from one, and offering them what was read from the pool.

use crypto::DatasetKeys;
use format::block_pointer::BlockPointer;
use l2arc::{CopyKey, Offer};
use sys::Buffer;
use vdev::Verdict;

use super::sealed::decode_sealed;
use crate::keeping::is_metadata;
use crate::{Pipeline, ReadRequest};

impl Pipeline {
    /// The content of a block of which a cache device has a copy.
    pub(crate) fn read_second_level(
        &self,
        block: &BlockPointer,
        request: &ReadRequest,
        keys: Option<&DatasetKeys>,
    ) -> Option<Buffer> {
        if !request.second_level || !self.second_level.is_used() {
            return None;
        }
        let key = copy_key(block)?;
        let is_right = |stored: &[u8]| self.verdict(block, stored) == Verdict::Proven;
        let stored = self.second_level.read(&key, block.psize(), &is_right)?;
        let data = decode_sealed(block, stored, keys).ok()?;
        (data.len() as u64 == block.lsize()).then_some(data)
    }

    /// Whether a cache device has a copy of a block.
    pub(crate) fn has_copy(&self, block: &BlockPointer) -> bool {
        self.second_level.is_used()
            && copy_key(block).is_some_and(|key| self.second_level.contains(&key))
    }

    /// A block is written again where it is.
    pub(crate) fn forget_copy(&self, block: &BlockPointer) {
        if let Some(key) = copy_key(block) {
            self.second_level.forget(&key);
        }
    }

    /// Offers a block that was read from the pool to its cache devices, which get nothing that the cache in memory does
    /// not keep.
    pub(crate) fn offer(&self, block: &BlockPointer, request: &ReadRequest, stored: &Buffer) {
        let bytes = stored.memory_size() as u64;
        let set = request.bookmark.object_set;
        if !request.second_level
            || !self.second_level.has_room(bytes)
            || !self.keeps_block(block, set)
        {
            return;
        }
        let (Some(_), Some(address), Ok(compression)) =
            (copy_key(block), block.dva(0), block.compression())
        else {
            return;
        };
        self.second_level.offer(Offer {
            set,
            address,
            birth: block.physical_birth(),
            logical_size: block.lsize(),
            compression: compression.id(),
            is_metadata: is_metadata(block),
            is_encrypted: block.is_encrypted(),
            is_prefetched: request.speculative,
            stored: stored.clone(),
        });
    }
}

/// What a copy of a block is found by. Those in pieces have none, nor those of which a copy cannot be proven to be of
/// the block.
fn copy_key(block: &BlockPointer) -> Option<CopyKey> {
    let kind = block.checksum().ok()?;
    let address = block.dva(0)?;
    if block.is_gang() || kind.is_embedded() || kind.is_off() {
        return None;
    }
    Some(CopyKey {
        vdev: address.vdev,
        offset: address.offset,
        birth: block.physical_birth(),
    })
}
