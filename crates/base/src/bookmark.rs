//! What names a block: where it stands among the blocks of its object set.

use crate::{ObjectId, ObjectSetId};
use std::fmt;

/// Which logical block this is: the identity by which layers speak of a block, errors name it, and encryption will find
/// its key. It does not lead to the block; its pointer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash, PartialOrd, Ord)]
pub struct Bookmark {
    /// The dataset's object set; 0 is the MOS.
    pub object_set: ObjectSetId,
    /// The object; 0 is the object set's own array of dnodes.
    pub object: ObjectId,
    /// Height above the data; −1 is the object set's root, −2 an intent log block.
    pub level: i8,
    /// The block's number at its level; [`Bookmark::SPILL`] is the spill block.
    pub block: u64,
}

impl Bookmark {
    /// The number of an object's spill block: −2 as the format has it.
    pub const SPILL: u64 = (-2_i64).cast_unsigned();

    /// A block of an object's tree.
    #[must_use]
    pub const fn new(object_set: ObjectSetId, object: ObjectId, level: u8, block: u64) -> Self {
        Self {
            object_set,
            object,
            level: level.cast_signed(),
            block,
        }
    }

    /// The root block of an object set.
    #[must_use]
    pub const fn root(object_set: ObjectSetId) -> Self {
        Self {
            object_set,
            object: ObjectId(0),
            level: -1,
            block: 0,
        }
    }

    /// The spill block of an object.
    #[must_use]
    pub const fn spill(object_set: ObjectSetId, object: ObjectId) -> Self {
        Self::new(object_set, object, 0, Self::SPILL)
    }
}

impl fmt::Display for Bookmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            object_set,
            object,
            level,
            block,
        } = self;
        let block = block.cast_signed();
        write!(
            f,
            "object set {object_set}, object {object}, level {level}, block {block}"
        )
    }
}

#[cfg(test)]
mod tests;
