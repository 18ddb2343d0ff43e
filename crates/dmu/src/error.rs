//! What can go wrong in this layer, and where.

use std::fmt;
use std::sync::Arc;

use base::{Bookmark, ObjectId, ObjectSetId};

/// Why the store could not read or write a block; the store's own error is inside.
#[derive(Clone)]
pub struct BlockError {
    source: Arc<dyn std::error::Error + Send + Sync>,
    of_device: bool,
}

impl BlockError {
    /// Wraps a store's error.
    #[must_use]
    pub fn new(error: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self {
            source: Arc::new(error),
            of_device: false,
        }
    }

    /// The same; some device did not answer, so that the block may be there all the same.
    #[must_use]
    pub const fn of_device(mut self, of_device: bool) -> Self {
        self.of_device = of_device;
        self
    }

    /// Whether some device did not answer, so that the block may be there all the same.
    #[must_use]
    pub const fn is_of_device(&self) -> bool {
        self.of_device
    }

    /// The store's error.
    #[must_use]
    pub fn inner(&self) -> &(dyn std::error::Error + Send + Sync + 'static) {
        self.source.as_ref()
    }
}

impl fmt::Debug for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.source, f)
    }
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.source, f)
    }
}

impl std::error::Error for BlockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.source()
    }
}

/// An error of the object layer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DmuError {
    /// The block could not be read.
    #[error("cannot read {place}: {source}")]
    Read {
        /// Which block.
        place: Bookmark,
        /// What the store says.
        source: BlockError,
    },
    /// The block could not be written.
    #[error("cannot write {place}: {source}")]
    Write {
        /// Which block.
        place: Bookmark,
        /// What the store says.
        source: BlockError,
    },
    /// The block was read and verified, but holds what no writer stores.
    #[error("{place} is malformed: {what}")]
    Corrupt {
        /// Which block.
        place: Bookmark,
        /// What is wrong with it.
        what: String,
    },
    /// There is no such object.
    #[error("object set {object_set} has no object {object}")]
    NoSuchObject {
        /// The object set.
        object_set: ObjectSetId,
        /// The number asked for.
        object: ObjectId,
    },
    /// The object number is taken, or was freed too short a time ago.
    #[error("object {object} of object set {object_set} is in use")]
    ObjectInUse {
        /// The object set.
        object_set: ObjectSetId,
        /// The number asked for.
        object: ObjectId,
    },
    /// The object set was opened for reading.
    #[error("object set {object_set} is open for reading only")]
    ReadOnly {
        /// The object set.
        object_set: ObjectSetId,
    },
    /// A request that an object of this shape cannot fulfil.
    #[error("object {object} of object set {object_set}: {what}")]
    Unsuitable {
        /// The object set.
        object_set: ObjectSetId,
        /// The object.
        object: ObjectId,
        /// What does not fit.
        what: &'static str,
    },
    /// The change is one more than [`Tx::interrupt_after`](crate::Tx::interrupt_after) allowed.
    #[error("a change of object {object} of object set {object_set} was interrupted")]
    Interrupted {
        /// The object set.
        object_set: ObjectSetId,
        /// The object.
        object: ObjectId,
    },
    /// The name is already in the ZAP.
    #[error("the name exists in ZAP object {object} of object set {object_set}")]
    EntryExists {
        /// The object set.
        object_set: ObjectSetId,
        /// The ZAP.
        object: ObjectId,
    },
    /// The name is not in the ZAP.
    #[error("the name does not exist in ZAP object {object} of object set {object_set}")]
    NoSuchEntry {
        /// The object set.
        object_set: ObjectSetId,
        /// The ZAP.
        object: ObjectId,
    },
    /// The ZAP cannot grow any more.
    #[error("ZAP object {object} of object set {object_set} is full")]
    ZapFull {
        /// The object set.
        object_set: ObjectSetId,
        /// The ZAP.
        object: ObjectId,
    },
}

/// Result of the object layer.
pub type Result<T, E = DmuError> = std::result::Result<T, E>;

impl DmuError {
    /// Whether what is stored is damaged for good, as far as can be told: reading it again will not help.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Read { source, .. } => !source.is_of_device(),
            Self::Corrupt { .. } => true,
            Self::Write { .. }
            | Self::NoSuchObject { .. }
            | Self::ObjectInUse { .. }
            | Self::ReadOnly { .. }
            | Self::Unsuitable { .. }
            | Self::EntryExists { .. }
            | Self::NoSuchEntry { .. }
            | Self::Interrupted { .. }
            | Self::ZapFull { .. } => false,
        }
    }

    /// A malformed block.
    pub(crate) fn corrupt(place: Bookmark, what: impl Into<String>) -> Self {
        Self::Corrupt {
            place,
            what: what.into(),
        }
    }
}
