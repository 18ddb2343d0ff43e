//! The trait by which the pipeline asks the dedup tables; the pool supplies it.

use format::block_pointer::BlockPointer;

/// Whether a block is looked for among those that are stored, before it is stored itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DedupMode {
    /// It is not.
    #[default]
    Off,
    /// By its checksum.
    Trust,
    /// By its checksum, and then byte by byte.
    Verify,
}

/// What a table has of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DedupAnswer {
    /// It is stored here.
    Stored(BlockPointer),
    /// It is not stored, and can be [entered](DedupSource::enter).
    Absent,
    /// The table is not to be used for it.
    Declined,
}

/// Who counts the references to blocks by their content. Called by many threads, in the sync of a txg.
///
/// Blocks are named by pointers that say checksum, sizes and compression; their addresses are not looked at.
pub trait DedupSource: Send + Sync {
    /// Where the block is stored with so many copies.
    fn find(&self, wanted: &BlockPointer, copies: u8) -> DedupAnswer;

    /// Counts one reference more to a block that was found in the same pass.
    fn refer(&self, stored: &BlockPointer, copies: u8);

    /// Enters a block that has just been stored with so many copies, with its first reference. If another was entered
    /// meanwhile, the reference is counted for that, which is the answer: the one just stored is to be freed.
    fn enter(&self, stored: &BlockPointer, copies: u8) -> Option<BlockPointer>;
}
