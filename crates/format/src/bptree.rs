//! The queue of datasets being destroyed in the background: root pointers still to be freed.

use base::Txg;

use crate::block_pointer::BlockPointer;
use crate::record::record;

/// [`BlockTreeEntry::birth`] of an entry that is done.
pub const DONE: Txg = Txg(u64::MAX);

record! {
    /// The bonus of the queue object.
    #[doc(alias = "bptree_phys_t")]
    pub struct BlockTreePhys [40] {
        /// First entry in use.
        #[doc(alias = "bt_begin")]
        begin: u64 = 0,
        /// One past the last entry.
        #[doc(alias = "bt_end")]
        end: u64 = 8,
        /// Allocated bytes still to be freed.
        #[doc(alias = "bt_bytes")]
        bytes: u64 = 16,
        /// Their compressed size.
        #[doc(alias = "bt_comp")]
        compressed: u64 = 24,
        /// Their uncompressed size.
        #[doc(alias = "bt_uncomp")]
        uncompressed: u64 = 32,
    }
}

record! {
    /// One dataset's tree.
    #[doc(alias = "bptree_entry_phys_t")]
    pub struct BlockTreeEntry [168] {
        /// Its root.
        #[doc(alias = "be_bp")]
        root: BlockPointer = 0,
        /// Only blocks born after this txg are freed.
        #[doc(alias = "be_birth_txg")]
        birth: Txg = 128,
        /// How far the walk came: object set, object, level, block.
        #[doc(alias = "be_zb")]
        bookmark: [u64; 4] = 136,
    }
}

impl BlockTreeEntry {
    /// Byte offset of an entry in the queue object.
    #[must_use]
    pub const fn offset(index: u64) -> u64 {
        index.saturating_mul(Self::SIZE as u64)
    }
}
