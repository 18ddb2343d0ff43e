//! What a block says of its children, as message authentication codes take it.

use base::ByteOrder;
use format::block_pointer::{self, BlockPointer, MAC_SIZE};
use format::protection::pointer_properties;
use format::record::get_at;
use sha2::{Digest, Sha512};

/// Bytes of a child's record.
const RECORD_SIZE: usize = 32;
/// The same before the format was settled.
const RECORD_SIZE_OLD: usize = 24;

/// What is authenticated of a pointer: what describes the block whoever wrote it, and the block's own code.
pub(crate) fn put_record(pointer: &BlockPointer, version: u64, to: &mut Vec<u8>) {
    let mut record = [0; RECORD_SIZE];
    if !pointer.is_hole() {
        let (property, mac) = record.split_at_mut(8);
        property.copy_from_slice(&pointer_properties(pointer, version).to_le_bytes());
        mac[..MAC_SIZE].copy_from_slice(&pointer.mac());
    }
    let size = if version == 0 {
        RECORD_SIZE_OLD
    } else {
        RECORD_SIZE
    };
    to.extend_from_slice(&record[..size]);
}

/// The code of an indirect block in host order: that of its pointers' records. It takes no key: the codes in them do.
pub(crate) fn code_of_children(content: &[u8], version: u64) -> [u8; MAC_SIZE] {
    let count = content.len() / block_pointer::SIZE;
    let mut records = Vec::with_capacity(count * RECORD_SIZE);
    for index in 0..count {
        let pointer: BlockPointer = get_at(content, index * block_pointer::SIZE, ByteOrder::NATIVE);
        put_record(&pointer, version, &mut records);
    }
    let digest: [u8; 64] = Sha512::digest(&records).into();
    let mut code = [0; MAC_SIZE];
    code.copy_from_slice(&digest[..MAC_SIZE]);
    code
}
