//! Blocks of intent logs: allocated before anyone knows what will be in them, written once, past
//! the cache, and read by their identity.

use std::sync::Arc;

use base::{ByteOrder, Txg};
use codec::{Checksum, ChecksumValue, Compression};
use format::block_pointer::{BlockPointer, DVA_COUNT};
use format::object_type::ObjectType;
use sys::Buffer;
use vdev::{IoClass, VdevError, WriteGroup};

use crate::{AllocationClass, AllocationError, AllocationRequest, Pipeline};

impl Pipeline {
    /// Space for a log block of `size` bytes (a multiple of 4096): the pointer to it. `identity`
    /// takes the place of a checksum. The caller holds `txg` open. `hint` tells one log from
    /// another.
    ///
    /// # Errors
    /// No device has room in one piece: log blocks are never gangs.
    pub fn allocate_log_block(
        &self,
        size: u64,
        identity: [u64; 4],
        txg: Txg,
        hint: u64,
    ) -> Result<BlockPointer, AllocationError> {
        let allocation = self.allocator.allocate(&AllocationRequest {
            psize: size,
            copies: 1,
            class: AllocationClass::Log,
            txg,
            hint,
        })?;
        let mut pointer = BlockPointer::for_block(ObjectType::INTENT_LOG, 0, size, size);
        pointer.set_compression(Compression::Off);
        pointer.set_checksum(Checksum::Zilog2, ChecksumValue(identity));
        pointer.set_byte_order(ByteOrder::NATIVE);
        pointer.set_birth(txg, txg);
        pointer.set_fill(0);
        for (index, dva) in allocation.iter().enumerate() {
            pointer.set_dva(index, Some(dva));
        }
        Ok(pointer)
    }

    /// Writes the stored bytes of a block to another place, for a log: the pointer to the copy, of `txg`.
    ///
    /// # Errors
    /// No device has room in one piece.
    pub fn duplicate(
        &self,
        source: &BlockPointer,
        stored: &Buffer,
        txg: Txg,
        hint: u64,
        group: &Arc<WriteGroup>,
    ) -> Result<BlockPointer, AllocationError> {
        let allocation = self.allocator.allocate(&AllocationRequest {
            psize: stored.len() as u64,
            copies: 1,
            class: AllocationClass::Normal,
            txg,
            hint,
        })?;
        let mut pointer = *source;
        let mut addresses = allocation.iter();
        for index in 0..DVA_COUNT {
            pointer.set_dva(index, addresses.next());
        }
        pointer.set_birth(txg, txg);
        for dva in pointer.dvas() {
            match self.vdevs.top(dva.vdev) {
                Ok(top) => top.write(dva.offset, stored.clone(), IoClass::SyncWrite, group),
                Err(error) => return Err(AllocationError::SpaceMap(error.to_string())),
            }
        }
        Ok(pointer)
    }

    /// Queues the write of a sealed log block, which may be shorter than its space: the vdev's layout says how much of
    /// the rest is written too. It is durable when `group` was waited for and the pointer's vdev flushed.
    ///
    /// # Errors
    /// The pointer's vdev is gone.
    pub fn write_log_block(
        &self,
        pointer: &BlockPointer,
        sealed: &Buffer,
        group: &Arc<WriteGroup>,
    ) -> Result<(), VdevError> {
        for dva in pointer.dvas() {
            let top = self.vdevs.top(dva.vdev)?;
            let block = (sealed.clone(), pointer.psize());
            top.write_beginning(dva.offset, block, IoClass::SyncWrite, group);
        }
        Ok(())
    }
}
