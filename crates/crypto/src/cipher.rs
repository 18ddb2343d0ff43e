//! Authenticated encryption with one key.

use aes::{Aes128, Aes192, Aes256};
use aes_gcm::aead::consts::{U12, U16};
use aes_gcm::{AeadInPlace, AesGcm, KeyInit};
use ccm::Ccm;
use format::block_pointer::{IV_SIZE, MAC_SIZE};
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, Algorithm, LessSafeKey, Nonce, Tag, UnboundKey};

use crate::error::BlockFault;
use crate::suite::{Mode, Suite};

/// What opens and seals blocks of one key. Flat: the key schedule is in it, so that who keeps it in locked memory has
/// all of the key there.
pub(crate) enum Cipher {
    /// Keys of 128 and 256 bits.
    Gcm(LessSafeKey),
    /// Keys of 192 bits, which ring does not have.
    Gcm192(AesGcm<Aes192, U12>),
    Ccm128(Ccm<Aes128, U16, U12>),
    Ccm192(Ccm<Aes192, U16, U12>),
    Ccm256(Ccm<Aes256, U16, U12>),
}

impl Cipher {
    /// The cipher of a suite; nothing if the key has another size than the suite's.
    pub(crate) fn new(suite: Suite, key: &[u8]) -> Option<Self> {
        Some(match (suite.mode, suite.key_size) {
            (Mode::Gcm, 16) => Self::Gcm(gcm_key(&AES_128_GCM, key)?),
            (Mode::Gcm, 24) => Self::Gcm192(AesGcm::new_from_slice(key).ok()?),
            (Mode::Gcm, 32) => Self::Gcm(gcm_key(&AES_256_GCM, key)?),
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
        match self {
            Self::Gcm(key) => {
                let nonce = Nonce::assume_unique_for_key(*iv);
                let (known, mac) = (Aad::from(known), Tag::from(*mac));
                match key.open_in_place_separate_tag(nonce, known, mac, data, 0..) {
                    Ok(_) => Ok(()),
                    Err(ring::error::Unspecified) => Err(BlockFault::Forged),
                }
            }
            Self::Gcm192(cipher) => open_with(cipher, iv, mac, known, data),
            Self::Ccm128(cipher) => open_with(cipher, iv, mac, known, data),
            Self::Ccm192(cipher) => open_with(cipher, iv, mac, known, data),
            Self::Ccm256(cipher) => open_with(cipher, iv, mac, known, data),
        }
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
        match self {
            Self::Gcm(key) => {
                let nonce = Nonce::assume_unique_for_key(*iv);
                let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(known), data);
                let tag = sealed.map_err(|_| TOO_LONG)?;
                tag.as_ref().try_into().map_err(|_| TOO_LONG)
            }
            Self::Gcm192(cipher) => seal_with(cipher, iv, known, data),
            Self::Ccm128(cipher) => seal_with(cipher, iv, known, data),
            Self::Ccm192(cipher) => seal_with(cipher, iv, known, data),
            Self::Ccm256(cipher) => seal_with(cipher, iv, known, data),
        }
    }
}

const TOO_LONG: BlockFault = BlockFault::Layout("too long to be encrypted");

fn gcm_key(algorithm: &'static Algorithm, key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(algorithm, key).ok().map(LessSafeKey::new)
}

fn open_with(
    cipher: &impl AeadInPlace<NonceSize = U12, TagSize = U16>,
    iv: &[u8; IV_SIZE],
    mac: &[u8; MAC_SIZE],
    known: &[u8],
    data: &mut [u8],
) -> Result<(), BlockFault> {
    let opened = cipher.decrypt_in_place_detached(iv.into(), known, data, mac.into());
    opened.map_err(|_| BlockFault::Forged)
}

fn seal_with(
    cipher: &impl AeadInPlace<NonceSize = U12, TagSize = U16>,
    iv: &[u8; IV_SIZE],
    known: &[u8],
    data: &mut [u8],
) -> Result<[u8; MAC_SIZE], BlockFault> {
    let sealed = cipher.encrypt_in_place_detached(iv.into(), known, data);
    sealed.map(Into::into).map_err(|_| TOO_LONG)
}

#[cfg(test)]
mod tests;
