//! Block pointers (owned by another file's author; this is the least that others need).

/// A block pointer's sixteen words in host order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockPointer {
    /// The words.
    pub words: [u64; 16],
}

impl BlockPointer {
    /// The block pointer of nothing: never written.
    pub const HOLE: Self = Self { words: [0; 16] };
}
