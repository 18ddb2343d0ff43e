//! What a transaction says beforehand that it may come to.

use super::admission::{Admission, Footprint};

/// Memory that a reference to a stored block takes until its txg has synced: the pointer, its places in the maps of
/// the object and of who counts references, and what the count adds to its table.
pub(crate) const REFERENCE_BYTES: u64 = 1024;

/// Worst-case numbers of what a transaction is about to do.
#[derive(Clone, Copy, Default)]
pub struct Reservation<'a> {
    /// Bytes of file data that will be written.
    pub write_bytes: u64,
    /// Bytes of the blocks that they lie in, at most; 0 = 128 KiB.
    pub block_bytes: u32,
    /// Whole blocks that become references to stored ones ([`crate::Object::refer_to`]). They are promised room as if
    /// they were written, and take the memory of a pointer.
    pub referenced_blocks: u64,
    /// Names that will be added, changed or removed.
    pub names: u32,
    /// Objects whose dnode or bonus will change.
    pub objects: u32,
    /// Blocks that will be freed beside those that are written over, indirect ones by what reading them costs
    /// ([`crate::Object::last_free_piece`]). A txg takes [`crate::tunables::FREE_BLOCKS_TXG`] of them; the transaction
    /// waits for the next one when the open txg has as many.
    pub freed_blocks: u64,
    /// Whether the transaction frees more than it allocates.
    pub net_free: bool,
    /// Whom to ask for space; without one, nobody.
    pub admission: Option<&'a dyn Admission>,
}

impl Reservation<'_> {
    /// Block size that is reckoned with when none is said.
    const BLOCK: u64 = 128 * 1024;

    const fn block(&self) -> u64 {
        match self.block_bytes {
            0 => Self::BLOCK,
            bytes => bytes as u64,
        }
    }

    /// What references cost their txg, in blocks to be freed: each changes a count, and where the sync cannot refer to
    /// stored blocks after all, it has their bytes to read and write.
    pub(super) const fn reference_cost(&self) -> u64 {
        const MIN: u64 = 8;
        const BYTES: u64 = 16 * 1024;
        let each = self.block() / BYTES;
        let each = if each < MIN { MIN } else { each };
        self.referenced_blocks.saturating_mul(each)
    }

    /// Bytes that become dirty at most, without what frees take.
    #[must_use]
    pub const fn dirty_bytes(&self) -> u64 {
        /// A name may copy a directory block, split a leaf and touch the header.
        const NAME: u64 = 3 * 16 * 1024;
        const OBJECT: u64 = 2 * 1024;
        let references = self.referenced_blocks.saturating_mul(REFERENCE_BYTES);
        self.data_bytes()
            .saturating_add(references)
            .saturating_add(NAME * self.names as u64)
            .saturating_add(OBJECT * self.objects as u64)
    }

    /// A write that is not aligned dirties the rest of its first and last block.
    const fn data_bytes(&self) -> u64 {
        let edges = if self.write_bytes == 0 {
            0
        } else {
            2 * self.block()
        };
        self.write_bytes.saturating_add(edges)
    }

    /// The blocks that are written, as far as that can be told before.
    #[must_use]
    pub const fn footprint(&self) -> Footprint {
        const META: u64 = 16 * 1024;
        let referenced = self.referenced_blocks.saturating_mul(self.block());
        let data = self.data_bytes().saturating_add(referenced);
        let indirect = if data == 0 { 0 } else { 4 };
        let metas = 3 * self.names as u64 + self.objects as u64 + indirect;
        Footprint {
            data_bytes: data,
            data_blocks: data.div_ceil(self.block()),
            meta_bytes: metas * META,
            meta_blocks: metas,
        }
    }
}
