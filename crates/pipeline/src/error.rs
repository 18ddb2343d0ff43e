//! What can go wrong, and where it did.

use base::Bookmark;
use std::fmt;

use codec::{Checksum, ChecksumValue, CodecError};
use crypto::BlockFault;
use format::FormatError;
use format::block_pointer::{BlockPointer, Dva};
use vdev::VdevError;

use crate::AllocationError;

/// A block that cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The block is encrypted and there is no key for it.
    #[error("{bookmark}: the block is encrypted, and its key is not loaded")]
    Encrypted {
        /// Which block.
        bookmark: Bookmark,
    },
    /// A plain block lies where a dataset whose key is loaded has encrypted ones.
    #[error("{bookmark}: the block is not encrypted, as all of its dataset are")]
    NotEncrypted {
        /// Which block.
        bookmark: Bookmark,
    },
    /// The block was left out of the redacted stream that made this dataset.
    #[error("{bookmark}: the block was redacted")]
    Redacted {
        /// Which block.
        bookmark: Bookmark,
    },
    /// The block pointer makes no sense.
    #[error("{bookmark}: {source}")]
    BadPointer {
        /// Which block.
        bookmark: Bookmark,
        /// What is wrong with it.
        source: FormatError,
    },
    /// An embedded block does not decode.
    #[error("{bookmark}: embedded block: {source}")]
    BadEmbedded {
        /// Which block.
        bookmark: Bookmark,
        /// What is wrong with it.
        source: CodecError,
    },
    /// No copy of the block could be read.
    #[error("{0}")]
    Unreadable(Box<Unreadable>),
}

impl ReadError {
    /// Which block it was about.
    #[must_use]
    pub fn bookmark(&self) -> Bookmark {
        match self {
            Self::Encrypted { bookmark }
            | Self::NotEncrypted { bookmark }
            | Self::Redacted { bookmark }
            | Self::BadPointer { bookmark, .. }
            | Self::BadEmbedded { bookmark, .. } => *bookmark,
            Self::Unreadable(unreadable) => unreadable.bookmark,
        }
    }

    /// Whether some device did not answer, so that the block may be there all the same.
    #[must_use]
    pub fn is_of_devices(&self) -> bool {
        let Self::Unreadable(unreadable) = self else {
            return false;
        };
        unreadable
            .attempts
            .iter()
            .any(|attempt| match &attempt.failure {
                // That of a gang header: its checksum is not the pointer's.
                AttemptFailure::Device(error) => !error.is_checksum() || has_silent_leaf(error),
                AttemptFailure::Checksum(mismatch) => has_silent_leaf(&mismatch.source),
                AttemptFailure::GangMember(member) => member.is_of_devices(),
                AttemptFailure::Pointer(_)
                | AttemptFailure::Decompression(_)
                | AttemptFailure::Sealed(_)
                | AttemptFailure::GangHeader(_)
                | AttemptFailure::GangSize { .. }
                | AttemptFailure::GangDepth => false,
            })
    }

    /// Whether no device could be asked that has some of the block: it is not damaged, as far as anybody knows.
    #[must_use]
    pub fn is_of_absence(&self) -> bool {
        let Self::Unreadable(unreadable) = self else {
            return false;
        };
        let attempts = &unreadable.attempts;
        !attempts.is_empty()
            && attempts.iter().all(|attempt| match &attempt.failure {
                AttemptFailure::Device(error) => error.is_of_absence(),
                AttemptFailure::GangMember(member) => member.is_of_absence(),
                AttemptFailure::Checksum(_)
                | AttemptFailure::Pointer(_)
                | AttemptFailure::Decompression(_)
                | AttemptFailure::Sealed(_)
                | AttemptFailure::GangHeader(_)
                | AttemptFailure::GangSize { .. }
                | AttemptFailure::GangDepth => false,
            })
    }
}

/// Whether some leaf of a vdev gave no bytes at all.
fn has_silent_leaf(error: &vdev::VdevError) -> bool {
    let vdev::VdevError::ReadFailed { failures, .. } = error else {
        return false;
    };
    failures.iter().any(|leaf| {
        matches!(
            leaf.failure,
            vdev::Failure::Device(_) | vdev::Failure::Unavailable(..)
        )
    })
}

/// A block of which every copy was tried in vain.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Which block.
    pub bookmark: Bookmark,
    /// Its pointer.
    pub block: BlockPointer,
    /// What was tried, in order.
    pub attempts: Vec<Attempt>,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: unreadable", self.bookmark)?;
        for (number, attempt) in self.attempts.iter().enumerate() {
            let separator = if number == 0 { ": " } else { "; " };
            write!(f, "{separator}{attempt}")?;
        }
        Ok(())
    }
}

/// One copy that could not be read.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// Where it lies.
    pub dva: Dva,
    /// Why not.
    pub failure: AttemptFailure,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "vdev {} offset {:#x}: {}",
            self.dva.vdev, self.dva.offset, self.failure
        )
    }
}

/// Why a copy could not be read.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AttemptFailure {
    /// The pointer names what does not exist.
    #[error("{0}")]
    Pointer(#[source] FormatError),
    /// The device does not give the bytes.
    #[error("{0}")]
    Device(#[from] VdevError),
    /// The bytes are not those that were written.
    #[error("{0}")]
    Checksum(Box<Mismatch>),
    /// The checksum is right (or off) and yet the bytes do not decompress.
    #[error("{0}")]
    Decompression(#[from] CodecError),
    /// The checksum is right, but with the dataset's key the bytes are not what was written.
    #[error("{0}")]
    Sealed(#[from] BlockFault),
    /// A gang header is not one.
    #[error("gang header: {0}")]
    GangHeader(#[source] FormatError),
    /// A gang header's members do not add up to the block.
    #[error("gang members hold {members} bytes of {whole}")]
    GangSize {
        /// Sum of the members' sizes.
        members: u64,
        /// The block's size.
        whole: u64,
    },
    /// Gang headers are nested deeper than any writer does.
    #[error("gang headers nested too deeply")]
    GangDepth,
    /// A gang member cannot be read.
    #[error("gang member: {0}")]
    GangMember(Box<ReadError>),
}

/// Bytes whose checksum is not the pointer's.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{} checksum mismatch: {source}", kind.name())]
pub struct Mismatch {
    /// Which checksum.
    pub kind: Checksum,
    /// What the pointer says.
    pub expected: ChecksumValue,
    /// What the last bytes read gave.
    pub actual: ChecksumValue,
    /// Which leaves were asked.
    pub source: VdevError,
}

/// A block that cannot be written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// The content is empty, not whole sectors, or more than 16 MiB.
    #[error("{bookmark}: a block cannot have {size} bytes")]
    Size {
        /// Which block.
        bookmark: Bookmark,
        /// Its size.
        size: usize,
    },
    /// The pool gives no space, not even in pieces.
    #[error("{bookmark}: {source}")]
    Allocation {
        /// Which block.
        bookmark: Bookmark,
        /// Why not.
        source: AllocationError,
    },
    /// The allocator answered with an address that is no vdev's.
    #[error("{bookmark}: allocated on vdev {}, which does not exist", dva.vdev)]
    NoVdev {
        /// Which block.
        bookmark: Bookmark,
        /// The address.
        dva: Dva,
    },
    /// The block belongs to an encrypted dataset whose key is not loaded.
    #[error("{bookmark}: encryption key not loaded")]
    Locked {
        /// Which block.
        bookmark: Bookmark,
    },
    /// The block cannot be encrypted.
    #[error("{bookmark}: {source}")]
    Sealing {
        /// Which block.
        bookmark: Bookmark,
        /// Why not.
        source: BlockFault,
    },
    /// A device refuses the write at once.
    #[error("{bookmark}: {source}")]
    Device {
        /// Which block.
        bookmark: Bookmark,
        /// Why.
        source: VdevError,
    },
    /// Embedding was asked for what no pointer can hold.
    #[error("{bookmark}: {source}")]
    Format {
        /// Which block.
        bookmark: Bookmark,
        /// What.
        source: FormatError,
    },
}

/// A block whose space cannot be freed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FreeError {
    /// The dedup table must be asked first.
    #[error("the block is counted by a dedup table")]
    Dedup,
    /// A gang header is unreadable, so its members cannot be found: they leak.
    #[error("gang header unreadable, its members leak: {0}")]
    Gang(#[from] ReadError),
}
