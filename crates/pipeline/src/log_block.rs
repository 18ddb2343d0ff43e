//! Blocks of intent logs: allocated before anyone knows what will be in them, written once, past
//! the cache, and read by their identity.

use std::sync::Arc;

use base::{Bookmark, ByteOrder, ObjectSetId, Txg};
use codec::{ChecksumValue, Compression};
use crypto::SealMark;
use format::BlockPointer;
use format::embedded_checksum;
use format::object_type::ObjectType;
use sys::{Buffer, BufferMut};
use vdev::{IoClass, VdevError, WriteGroup};

use crate::{AllocationClass, AllocationError, AllocationRequest, Key, Pipeline, WriteError};

fn mark_of(pointer: &BlockPointer) -> SealMark {
    SealMark {
        salt: pointer.salt(),
        iv: pointer.iv(),
    }
}

impl Pipeline {
    /// Space for a log block of `size` bytes (a multiple of 4096): the pointer to it. `identity`
    /// takes the place of a checksum. The caller holds `txg` open. Of an encrypted object set the pointer has salt and
    /// vector, for what will be written to it once.
    ///
    /// # Errors
    /// No device has room in one piece: log blocks are never gangs. Or the key is not loaded.
    pub fn allocate_log_block(
        &self,
        size: u64,
        identity: [u64; 4],
        txg: Txg,
        set: ObjectSetId,
    ) -> Result<BlockPointer, AllocationError> {
        let mark = match self.key(set) {
            Key::None => None,
            Key::Locked => return Err(AllocationError::Locked),
            Key::Loaded(keys) => match keys.new_mark() {
                Ok(mark) => Some(mark),
                Err(_) => return Err(AllocationError::Locked),
            },
        };
        let allocation = self.allocator.allocate(&AllocationRequest {
            psize: size,
            copies: 1,
            class: AllocationClass::Log,
            txg,
            hint: set.0,
        })?;
        let mut pointer = BlockPointer::for_block(ObjectType::INTENT_LOG, 0, size, size);
        pointer.set_compression(Compression::Off);
        pointer.set_checksum(self.log_checksum(), ChecksumValue(identity));
        pointer.set_byte_order(ByteOrder::NATIVE);
        pointer.set_birth(txg, txg);
        pointer.set_fill(0);
        for (index, dva) in allocation.iter().enumerate() {
            pointer.set_dva(index, Some(dva));
        }
        if let Some(mark) = mark {
            pointer.set_encrypted();
            pointer.set_salt_and_iv(mark.salt, mark.iv);
        }
        Ok(pointer)
    }

    /// Seals a log block of which `used` bytes are filled: its checksum, and where the pointer says so what it has of
    /// secrets.
    ///
    /// # Errors
    /// The key is not loaded, or the block is none.
    pub fn seal_log_block(
        &self,
        set: ObjectSetId,
        pointer: &BlockPointer,
        (block, used): (&mut [u8], usize),
    ) -> Result<(), WriteError> {
        let bookmark = Bookmark::root(set);
        let identity = pointer.checksum_value().0;
        let format = |source| WriteError::Format { bookmark, source };
        let kind = pointer.checksum().map_err(format)?;
        let keys = match self.key(set) {
            Key::None if !pointer.is_encrypted() => {
                return embedded_checksum::seal(kind, block, identity).map_err(format);
            }
            Key::Loaded(keys) if pointer.is_encrypted() => keys,
            Key::None | Key::Locked | Key::Loaded(_) => {
                return Err(WriteError::Locked { bookmark });
            }
        };
        let sealed = keys.seal_log(&mark_of(pointer), block, used);
        let mac = sealed.map_err(|source| WriteError::Sealing { bookmark, source })?;
        embedded_checksum::seal_encrypted(kind, block, identity, &mac).map_err(format)
    }

    /// The plain bytes of a log block that was read, if its key is loaded; what is secret stays as it is otherwise.
    /// None: they are not what was written with that key.
    #[must_use]
    pub fn open_log_block(
        &self,
        set: ObjectSetId,
        pointer: &BlockPointer,
        (stored, used, order): (Buffer, usize, ByteOrder),
    ) -> Option<Buffer> {
        let keys = match self.key(set) {
            // Whoever could make us believe plain records could have us do anything.
            Key::Loaded(_) if !pointer.is_encrypted() => return None,
            Key::Loaded(keys) => keys,
            Key::None | Key::Locked => return Some(stored),
        };
        let mac = embedded_checksum::code(pointer.checksum().ok()?, &stored).ok()?;
        let mut block = BufferMut::from_slice(&stored);
        let opened = keys.open_log((&mark_of(pointer), &mac), &mut block, (used, order));
        opened.is_ok().then(|| block.freeze())
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
            let place = (dva.offset, pointer.physical_birth());
            top.write_beginning(place, block, IoClass::SyncWrite, group);
        }
        Ok(())
    }
}
