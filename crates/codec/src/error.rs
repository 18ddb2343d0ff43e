//! What can be wrong with an algorithm number or a compressed stream.

/// A number that names no algorithm, or bytes that no compressor wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    /// The compression number is not one that appears on disk.
    #[error("unknown compression number {0}")]
    UnknownCompression(u8),
    /// The checksum number is not one that appears on disk.
    #[error("unknown checksum number {0}")]
    UnknownChecksum(u8),
    /// The stream ends before its output is complete, or its header claims more than there is.
    #[error("{0} stream is truncated")]
    Truncated(&'static str),
    /// The stream is malformed.
    #[error("{0} stream is malformed")]
    Malformed(&'static str),
    /// The stream decodes to a length other than the block's logical size.
    #[error("{algorithm} stream decodes to {actual} bytes instead of {expected}")]
    WrongLength {
        /// Which algorithm.
        algorithm: &'static str,
        /// The block's logical size.
        expected: usize,
        /// What the stream gave.
        actual: usize,
    },
    /// Columns and rows of parity that do not belong together, or more columns are lost than parity tells of.
    #[error("columns cannot be computed from these rows of parity")]
    ParityShape,
}
