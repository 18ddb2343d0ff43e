//! What can go wrong with a volume.

/// A result of this crate.
pub type Result<T> = std::result::Result<T, VolumeError>;

/// Why an operation on a volume did not happen.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// It is a snapshot, its pool was imported read-only, or its property `readonly` is on.
    #[error("the volume is read-only")]
    ReadOnly,
    /// The pool or the dataset has no room.
    #[error("no space left")]
    NoSpace,
    /// A quota is reached.
    #[error("quota exceeded")]
    QuotaExceeded,
    /// Not all of the range lies within the volume.
    #[error("{length} bytes at offset {offset} are not within a volume of {size} bytes")]
    OutOfRange {
        /// Where the range begins.
        offset: u64,
        /// Its bytes.
        length: u64,
        /// The volume's bytes.
        size: u64,
    },
    /// There is no size, or none that fits the blocks.
    #[error("the volume has no valid size")]
    NoSize,
    /// A size that is no multiple of the block size, or 0.
    #[error("{size} bytes are no whole number of blocks of {block_size} bytes")]
    Unaligned {
        /// The size that was asked for.
        size: u64,
        /// Bytes of a block.
        block_size: u32,
    },
    /// The volume was closed, or its dataset was taken out of service.
    #[error("the volume is closed")]
    Closed,
    /// A block could not be read or written.
    #[error(transparent)]
    Storage(#[from] dmu::DmuError),
    /// The pool does not write any more.
    #[error(transparent)]
    Stopped(#[from] txg::TxgError),
    /// The intent log cannot be written.
    #[error(transparent)]
    Log(#[from] intent::IntentError),
}

impl From<dmu::TxError> for VolumeError {
    fn from(error: dmu::TxError) -> Self {
        match error {
            dmu::TxError::NoSpace => Self::NoSpace,
            dmu::TxError::Quota => Self::QuotaExceeded,
            dmu::TxError::Engine(error) => Self::Stopped(error),
        }
    }
}
