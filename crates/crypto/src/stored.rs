//! The stored record of a dataset's keys, and how it is unwrapped.

use base::random::Rng;
use format::block_pointer::{IV_SIZE, MAC_SIZE};
use sys::{Locked, SystemRng};

use crate::cipher::Cipher;
use crate::error::KeyError;
use crate::keys::DatasetKeys;
use crate::material::WrappingKey;
use crate::stack::with_clean_stack;
use crate::suite::Suite;

/// Bytes of a stored master key, however many of them the suite uses.
pub(crate) const MASTER_SIZE: usize = 32;
/// Bytes of the key of message authentication codes.
pub(crate) const HMAC_SIZE: usize = 64;

/// Bytes of both.
const PLAIN_SIZE: usize = MASTER_SIZE + HMAC_SIZE;

/// The newest version of a record.
pub(crate) const VERSION: u64 = 1;

/// A dataset's keys as they are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrappedKeys {
    /// The vector that they were wrapped with.
    pub iv: [u8; IV_SIZE],
    /// What proves them.
    pub mac: [u8; MAC_SIZE],
    /// The master key, wrapped; after the suite's size come bytes of no use.
    pub master: [u8; MASTER_SIZE],
    /// The key of message authentication codes, wrapped.
    pub hmac: [u8; HMAC_SIZE],
}

/// A stored record of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredKeys {
    /// The cipher's number.
    pub suite: u64,
    /// The keys' own identity.
    pub guid: u64,
    /// 1, or 0 in pools from before the format was settled.
    pub version: u64,
    /// The keys.
    pub wrapped: WrappedKeys,
}

impl StoredKeys {
    /// New keys for a cipher, drawn from the kernel's random numbers and wrapped.
    ///
    /// # Errors
    /// There is no such cipher, or no memory for keys.
    pub fn create(suite: u64, key: &WrappingKey) -> Result<Self, KeyError> {
        let size = Suite::from_number(suite)?.key_size;
        let mut plain = Locked::new([0_u8; PLAIN_SIZE]).map_err(KeyError::Memory)?;
        SystemRng.fill(&mut plain[..size + HMAC_SIZE]);
        let record = Self {
            suite,
            guid: SystemRng.nonzero_u64(),
            version: VERSION,
            wrapped: WrappedKeys {
                iv: [0; IV_SIZE],
                mac: [0; MAC_SIZE],
                master: [0; MASTER_SIZE],
                hmac: [0; HMAC_SIZE],
            },
        };
        record.wrapping(plain, key)
    }

    /// The same keys, wrapped with another key.
    ///
    /// # Errors
    /// They are not wrapped with `old`, or there is no memory for keys.
    pub fn rewrap(&self, old: &WrappingKey, new: &WrappingKey) -> Result<Self, KeyError> {
        self.wrapping(self.opened(old)?, new)
    }

    /// The record with these keys in it: the master key, and that of codes behind it.
    fn wrapping(
        &self,
        mut plain: Locked<[u8; PLAIN_SIZE]>,
        key: &WrappingKey,
    ) -> Result<Self, KeyError> {
        let suite = Suite::from_number(self.suite)?;
        let size = suite.key_size;
        let known = self.known()?;
        let mut record = *self;
        let wrapped = &mut record.wrapped;
        SystemRng.fill(&mut wrapped.iv);
        // Encrypted where they lie: nothing of them is in memory of another kind.
        let data = &mut plain[..size + HMAC_SIZE];
        wrapped.mac = with_clean_stack(|| {
            let cipher = wrapping_cipher(suite, key)?;
            cipher
                .seal(&wrapped.iv, &known, data)
                .map_err(|_| KeyError::Record("size of key"))
        })?;
        let (master, hmac) = data.split_at(size);
        wrapped.master = [0; MASTER_SIZE];
        wrapped.master[..size].copy_from_slice(master);
        wrapped.hmac.copy_from_slice(hmac);
        Ok(record)
    }

    /// The keys in it.
    ///
    /// # Errors
    /// The wrapping key is another, or the record makes no sense.
    pub fn unwrap(&self, key: &WrappingKey) -> Result<DatasetKeys, KeyError> {
        let suite = Suite::from_number(self.suite)?;
        let opened = self.opened(key)?;
        let (master, hmac) = opened[..suite.key_size + HMAC_SIZE].split_at(suite.key_size);
        DatasetKeys::new(suite, self.version, master, hmac)
    }

    /// The master key, and that of codes behind it.
    fn opened(&self, key: &WrappingKey) -> Result<Locked<[u8; PLAIN_SIZE]>, KeyError> {
        let suite = Suite::from_number(self.suite)?;
        let known = self.known()?;
        let mut opened = Locked::new([0_u8; PLAIN_SIZE]).map_err(KeyError::Memory)?;
        let size = suite.key_size;
        let (master, hmac) = (&self.wrapped.master[..size], &self.wrapped.hmac);
        let plain = &mut opened[..size + HMAC_SIZE];
        plain[..size].copy_from_slice(master);
        plain[size..].copy_from_slice(hmac);
        with_clean_stack(|| {
            let cipher = wrapping_cipher(suite, key)?;
            cipher
                .open(&self.wrapped.iv, &self.wrapped.mac, &known, plain)
                .map_err(|_| KeyError::WrongKey)
        })?;
        Ok(opened)
    }

    /// What is authenticated with the keys.
    fn known(&self) -> Result<Vec<u8>, KeyError> {
        let words: &[u64] = match self.version {
            0 => &[self.guid],
            VERSION => &[self.guid, self.suite, self.version],
            version => return Err(KeyError::Version(version)),
        };
        Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
    }

    /// A record of keys that a test chose.
    #[cfg(test)]
    pub(crate) fn wrap(suite: u64, version: u64, key: &WrappingKey, plain: &[u8; 96]) -> Self {
        let mut record = Self {
            suite,
            guid: 77,
            version,
            wrapped: WrappedKeys {
                iv: [9; IV_SIZE],
                mac: [0; MAC_SIZE],
                master: [0; MASTER_SIZE],
                hmac: [0; HMAC_SIZE],
            },
        };
        let of = Suite::from_number(suite).unwrap();
        let mut data = [&plain[..of.key_size], &plain[MASTER_SIZE..]].concat();
        let known = record.known().unwrap();
        let wrapped = &mut record.wrapped;
        let cipher = wrapping_cipher(of, key).unwrap();
        wrapped.mac = cipher.seal(&wrapped.iv, &known, &mut data).unwrap();
        let (master, hmac) = data.split_at(of.key_size);
        wrapped.master[..of.key_size].copy_from_slice(master);
        wrapped.hmac.copy_from_slice(hmac);
        record
    }
}

/// Keys are wrapped with 256 bits, whatever size they have themselves.
fn wrapping_cipher(suite: Suite, key: &WrappingKey) -> Result<Cipher, KeyError> {
    let wide = Suite {
        key_size: key.bytes().len(),
        ..suite
    };
    Cipher::new(wide, key.bytes()).ok_or(KeyError::Record("size of key"))
}

#[cfg(test)]
mod tests;
