//! A block that cannot be read, as the error log and users know it.

use base::{ObjectId, Txg};

/// A block that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DataError {
    /// The object set that it was read from, or the head that it belongs to; 0 is the pool's own.
    pub dataset: ObjectId,
    /// The object.
    pub object: ObjectId,
    /// 0 for data, more for indirect blocks, -1 for the root of the object set.
    pub level: i64,
    /// Its number within the level.
    pub block: u64,
    /// When it was born, where that is known.
    pub birth: Option<Txg>,
}
