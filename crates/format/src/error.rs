//! What can be wrong with bytes that claim to be a ZFS structure.

/// A structure that cannot be decoded or encoded: which one, and what about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// Fewer bytes than the structure needs.
    #[error("{what}: {needed} bytes needed, {available} there")]
    Truncated {
        /// The structure.
        what: &'static str,
        /// Bytes that it needs.
        needed: usize,
        /// Bytes that there are.
        available: usize,
    },
    /// The magic number is not the one of this structure in either byte order.
    #[error("{what}: bad magic {found:#x}")]
    BadMagic {
        /// The structure.
        what: &'static str,
        /// The number found.
        found: u64,
    },
    /// A field holds a value that no writer stores there.
    #[error("{what}: {field} is {value:#x}, which is not valid")]
    Invalid {
        /// The structure.
        what: &'static str,
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// What is to be stored exceeds the room of the structure.
    #[error("{what}: {needed} do not fit in {available}")]
    NoRoom {
        /// The structure.
        what: &'static str,
        /// What the new content needs (bytes, chunks or entries).
        needed: usize,
        /// What there is.
        available: usize,
    },
    /// A checksum inside the structure is not that of its bytes at this place.
    #[error("{what}: the checksum does not match")]
    BadChecksum {
        /// The structure.
        what: &'static str,
    },
}
