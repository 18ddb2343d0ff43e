//! The ciphers that a dataset can have.

use crate::error::KeyError;

/// How a block cipher encrypts and authenticates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Counter with CBC-MAC.
    Ccm,
    /// Galois/counter mode.
    Gcm,
}

/// A cipher: AES with a size of key, in a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suite {
    /// The mode.
    pub mode: Mode,
    /// Bytes of a key: 16, 24 or 32.
    pub key_size: usize,
}

impl Suite {
    /// The number of the one that is taken where nobody chooses: aes-256-gcm.
    pub const DEFAULT_NUMBER: u64 = 8;

    /// The suite of a stored number.
    ///
    /// # Errors
    /// There is none.
    pub const fn from_number(number: u64) -> Result<Self, KeyError> {
        let (mode, key_size) = match number {
            3 => (Mode::Ccm, 16),
            4 => (Mode::Ccm, 24),
            5 => (Mode::Ccm, 32),
            6 => (Mode::Gcm, 16),
            7 => (Mode::Gcm, 24),
            8 => (Mode::Gcm, 32),
            _ => return Err(KeyError::Suite(number)),
        };
        Ok(Self { mode, key_size })
    }
}
