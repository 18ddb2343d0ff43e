//! Authenticated encryption with one key.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::{AeadInPlace, AesGcm, KeyInit};
use ccm::Ccm;
use format::block_pointer::{IV_SIZE, MAC_SIZE};

use crate::error::BlockFault;
use crate::suite::{Mode, Suite};

/// What opens and seals blocks of one key. Flat: the key schedule is in it.
pub(crate) enum Cipher {
    Gcm128(AesGcm<Aes128, U12>),
    Gcm192(AesGcm<Aes192, U12>),
    Gcm256(AesGcm<Aes256, U12>),
    Ccm128(Ccm<Aes128, U16, U12>),
    Ccm192(Ccm<Aes192, U16, U12>),
    Ccm256(Ccm<Aes256, U16, U12>),
}

impl Cipher {
    /// The cipher of a suite; nothing if the key has another size than the suite's.
    pub(crate) fn new(suite: Suite, key: &[u8]) -> Option<Self> {
        Some(match (suite.mode, suite.key_size) {
            (Mode::Gcm, 16) => Self::Gcm128(AesGcm::new_from_slice(key).ok()?),
            (Mode::Gcm, 24) => Self::Gcm192(AesGcm::new_from_slice(key).ok()?),
            (Mode::Gcm, 32) => Self::Gcm256(AesGcm::new_from_slice(key).ok()?),
            (Mode::Ccm, 16) => Self::Ccm128(Ccm::new_from_slice(key).ok()?),
            (Mode::Ccm, 24) => Self::Ccm192(Ccm::new_from_slice(key).ok()?),
            (Mode::Ccm, 32) => Self::Ccm256(Ccm::new_from_slice(key).ok()?),
            _ => return None,
        })
    }

    /// Makes plain bytes of encrypted ones, in place.
    ///
    /// # Errors
    /// They, or `known`, are not what was encrypted with this key and vector; then what is in `data` is of no use.
    pub(crate) fn open(
        &self,
        iv: &[u8; IV_SIZE],
        mac: &[u8; MAC_SIZE],
        known: &[u8],
        data: &mut [u8],
    ) -> Result<(), BlockFault> {
        let (iv, mac) = (iv.into(), mac.into());
        match self {
            Self::Gcm128(cipher) => cipher.decrypt_in_place_detached(iv, known, data, mac),
            Self::Gcm192(cipher) => cipher.decrypt_in_place_detached(iv, known, data, mac),
            Self::Gcm256(cipher) => cipher.decrypt_in_place_detached(iv, known, data, mac),
            Self::Ccm128(cipher) => cipher.decrypt_in_place_detached(iv, known, data, mac),
            Self::Ccm192(cipher) => cipher.decrypt_in_place_detached(iv, known, data, mac),
            Self::Ccm256(cipher) => cipher.decrypt_in_place_detached(iv, known, data, mac),
        }
        .map_err(|_| BlockFault::Forged)
    }

    /// Makes encrypted bytes of plain ones, in place: the code that proves them, and `known`.
    ///
    /// # Errors
    /// There are more bytes than the mode can take.
    pub(crate) fn seal(
        &self,
        iv: &[u8; IV_SIZE],
        known: &[u8],
        data: &mut [u8],
    ) -> Result<[u8; MAC_SIZE], BlockFault> {
        let iv = iv.into();
        let mac = match self {
            Self::Gcm128(cipher) => cipher.encrypt_in_place_detached(iv, known, data),
            Self::Gcm192(cipher) => cipher.encrypt_in_place_detached(iv, known, data),
            Self::Gcm256(cipher) => cipher.encrypt_in_place_detached(iv, known, data),
            Self::Ccm128(cipher) => cipher.encrypt_in_place_detached(iv, known, data),
            Self::Ccm192(cipher) => cipher.encrypt_in_place_detached(iv, known, data),
            Self::Ccm256(cipher) => cipher.encrypt_in_place_detached(iv, known, data),
        };
        mac.map(Into::into)
            .map_err(|_| BlockFault::Layout("too long to be encrypted"))
    }
}
