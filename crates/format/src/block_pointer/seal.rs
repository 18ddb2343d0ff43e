//! What an encrypted dataset's pointers say beside the address: salt, initialisation vector and message
//! authentication code. They are strings of bytes, as they are on disk, in words that a reader of the other byte
//! order has swapped.

use base::ByteOrder;
use codec::Compression;

use super::{BlockPointer, CHECKSUM, ENCRYPTED, FILL, PROPERTIES};
use crate::object_type::ObjectType;

/// Bytes of a salt.
pub const SALT_SIZE: usize = 8;
/// Bytes of an initialisation vector.
pub const IV_SIZE: usize = 12;
/// Bytes of a message authentication code.
pub const MAC_SIZE: usize = 16;

/// The word of the third address that has the salt.
const SALT_WORD: usize = 4;
/// The word that has the first bytes of the initialisation vector; the rest is in the upper half of the fill count.
const IV_WORD: usize = 5;

/// How a block of an encrypted dataset is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// It is not.
    None,
    /// It has its codes inside: the root of an object set.
    Inside,
    /// It is encrypted, and its pointer has the code.
    Encrypted,
    /// It is plain, and its pointer has the code of its bytes.
    Authenticated,
    /// It is plain, and its pointer has the code of its children's.
    Children,
}

impl Protection {
    /// How a block of an encrypted dataset is protected.
    #[must_use]
    pub fn of(object_type: ObjectType, level: u8) -> Self {
        if level > 0 {
            Self::Children
        } else if object_type == ObjectType::OBJECT_SET {
            Self::Inside
        } else if object_type.is_encrypted() {
            Self::Encrypted
        } else {
            Self::Authenticated
        }
    }
}

/// What the pointer to a block of level 0 says of it beside its place and checksum, as whoever encrypted or
/// authenticated it has to say: for a block that is stored again elsewhere without its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedForm {
    /// Bytes of the contents, decompressed.
    pub lsize: u64,
    /// How they are compressed.
    pub compression: Compression,
    /// The salt of an encrypted block.
    pub salt: [u8; SALT_SIZE],
    /// The initialisation vector of an encrypted block.
    pub iv: [u8; IV_SIZE],
    /// The message authentication code.
    pub mac: [u8; MAC_SIZE],
}

impl BlockPointer {
    /// How the block is protected.
    #[must_use]
    pub fn protection(&self) -> Protection {
        if self.is_embedded() || self.is_hole() || !self.is_encrypted() {
            Protection::None
        } else {
            Protection::of(self.object_type(), self.level())
        }
    }

    /// Says that the block belongs to an encrypted dataset.
    pub fn set_encrypted(&mut self) {
        self.words[PROPERTIES] = ENCRYPTED.set(self.words[PROPERTIES], 1);
    }

    /// Sets the salt that the key of an encrypted block is made with, and its initialisation vector. It takes the place
    /// of a third address and of half the fill count: they are to be set before.
    pub fn set_salt_and_iv(&mut self, salt: [u8; SALT_SIZE], iv: [u8; IV_SIZE]) {
        let order = self.byte_order();
        let (first, last) = iv.split_at(8);
        let (mut start, mut rest) = ([0; 8], [0; 4]);
        start.copy_from_slice(first);
        rest.copy_from_slice(last);
        self.words[SALT_WORD] = order.u64(salt);
        self.words[IV_WORD] = order.u64(start);
        let fill = self.words[FILL] & u64::from(u32::MAX);
        self.words[FILL] = u64::from(order.u32(rest)) << 32 | fill;
    }

    /// Sets the message authentication code. It takes the place of half the checksum.
    pub fn set_mac(&mut self, mac: [u8; MAC_SIZE]) {
        let order = self.byte_order();
        let (words, _) = mac.as_chunks::<8>();
        for (place, word) in self.words[CHECKSUM + 2..].iter_mut().zip(words) {
            *place = order.u64(*word);
        }
    }

    /// The salt that the key of an encrypted block is made with.
    #[must_use]
    pub fn salt(&self) -> [u8; SALT_SIZE] {
        self.stored_bytes(SALT_WORD)
    }

    /// The initialisation vector of an encrypted block.
    #[must_use]
    pub fn iv(&self) -> [u8; IV_SIZE] {
        let [a, b, c, d, e, f, g, h] = self.stored_bytes(IV_WORD);
        let last = u32::try_from(self.words[FILL] >> 32).unwrap_or_default();
        let [i, j, k, l] = match self.byte_order() {
            ByteOrder::Little => last.to_le_bytes(),
            ByteOrder::Big => last.to_be_bytes(),
        };
        [a, b, c, d, e, f, g, h, i, j, k, l]
    }

    /// The message authentication code.
    #[must_use]
    pub fn mac(&self) -> [u8; MAC_SIZE] {
        let mut mac = [0; MAC_SIZE];
        let words = [CHECKSUM + 2, CHECKSUM + 3].map(|word| self.stored_bytes(word));
        mac.copy_from_slice(words.as_flattened());
        mac
    }

    /// The bytes of a word as they are on disk.
    fn stored_bytes(&self, word: usize) -> [u8; 8] {
        let word = self.words.get(word).copied().unwrap_or_default();
        match self.byte_order() {
            ByteOrder::Little => word.to_le_bytes(),
            ByteOrder::Big => word.to_be_bytes(),
        }
    }
}
