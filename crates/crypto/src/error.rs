//! What can be wrong with keys, and with blocks that keys are to open. No variant has bytes of a key.

/// A key that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The record was wrapped with another key, or is not what was written.
    #[error("the key is not the one that the dataset was encrypted with")]
    WrongKey,
    /// The record has no such cipher.
    #[error("the stored key is for cipher {0}, which does not exist")]
    Suite(u64),
    /// The record has no such format.
    #[error("the stored key has format {0}, which does not exist")]
    Format(u64),
    /// The record is of a version that nobody wrote.
    #[error("the stored key has version {0}, which does not exist")]
    Version(u64),
    /// A part of the record is missing, or has another size.
    #[error("the stored key is damaged: {0}")]
    Record(&'static str),
    /// Passphrases have some length.
    #[error("Passphrase too short (min 8).")]
    PassphraseShort,
    /// Passphrases have not any length.
    #[error("Passphrase too long (max 512).")]
    PassphraseLong,
    /// A raw key has 32 bytes.
    #[error("Raw key too short (expected 32).")]
    RawShort,
    /// A raw key has 32 bytes.
    #[error("Raw key too long (expected 32).")]
    RawLong,
    /// A key in hexadecimal has 64 digits.
    #[error("Hex key too short (expected 64).")]
    HexShort,
    /// A key in hexadecimal has 64 digits.
    #[error("Hex key too long (expected 64).")]
    HexLong,
    /// What is no digit.
    #[error("Invalid hex key.")]
    HexDigit,
    /// So few that guessing is cheap.
    #[error("a passphrase needs at least 100000 iterations, not {0}")]
    Iterations(u64),
    /// Keys must not be swapped out.
    #[error("no memory can be locked for keys (see RLIMIT_MEMLOCK): {0}")]
    Memory(sys::Errno),
}

/// A block that does not open.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockFault {
    /// The bytes, or what the pointer says of them, are not what somebody with the key wrote.
    #[error("message authentication code mismatch")]
    Forged,
    /// The block is not laid out as its type is.
    #[error("encrypted block: {0}")]
    Layout(&'static str),
    /// The block's key cannot be kept.
    #[error("{0}")]
    Key(#[from] KeyError),
}
