//! The keys of a dataset, and what they say of blocks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use base::lock::{LockClass, Mutex, rank};
use format::ObjectType;
use format::block_pointer::{BlockPointer, MAC_SIZE, Protection, SALT_SIZE};
use hkdf::Hkdf;
use hmac::{Hmac, Mac};
use sha2::Sha512;
use subtle::ConstantTimeEq;
use sys::Locked;

use crate::cipher::Cipher;
use crate::error::{BlockFault, KeyError};
use crate::sealing::SealingKey;
use crate::stack::with_clean_stack;
use crate::stored::{HMAC_SIZE, MASTER_SIZE};
use crate::suite::Suite;
use crate::{dnodes, object_set, tree};

static BLOCK_KEYS: LockClass = LockClass::new("crypto.block_keys", rank::LAST + 12);
static SEALING: LockClass = LockClass::new("crypto.sealing", rank::LAST + 11);

/// Keys of blocks that are kept, each in a page of its own.
const BLOCK_KEYS_MAX: usize = 16;

/// How often keys were loaded.
static LOADS: AtomicU32 = AtomicU32::new(0);

struct Master {
    key: [u8; MASTER_SIZE],
    hmac: [u8; HMAC_SIZE],
}

/// The keys of a dataset.
pub struct DatasetKeys {
    suite: Suite,
    version: u64,
    load: u32,
    master: Locked<Master>,
    /// By the salt that they are made with.
    block_keys: Mutex<BTreeMap<[u8; SALT_SIZE], Arc<Locked<Cipher>>>>,
    /// What new blocks are encrypted with, once there is one.
    pub(crate) sealing: Mutex<Option<SealingKey>>,
}

impl DatasetKeys {
    pub(crate) fn new(
        suite: Suite,
        version: u64,
        key: &[u8],
        hmac: &[u8],
    ) -> Result<Self, KeyError> {
        let empty = Master {
            key: [0; MASTER_SIZE],
            hmac: [0; HMAC_SIZE],
        };
        let mut master = Locked::new(empty).map_err(KeyError::Memory)?;
        for (place, byte) in master.key.iter_mut().zip(key) {
            *place = *byte;
        }
        for (place, byte) in master.hmac.iter_mut().zip(hmac) {
            *place = *byte;
        }
        Ok(Self {
            suite,
            version,
            load: LOADS.fetch_add(1, Ordering::Relaxed).wrapping_add(1),
            master,
            block_keys: Mutex::new(&BLOCK_KEYS, BTreeMap::new()),
            sealing: Mutex::new(&SEALING, None),
        })
    }

    /// A number that no other keys have that this process loaded, nor these when they are loaded again; never 0.
    #[must_use]
    pub const fn load_number(&self) -> u32 {
        self.load
    }

    /// Makes plain bytes of the stored ones of an encrypted block, in place.
    ///
    /// # Errors
    /// They are not what was written with these keys; then what is in `stored` is of no use.
    pub fn open(&self, block: &BlockPointer, stored: &mut [u8]) -> Result<(), BlockFault> {
        let cipher = self.block_key(block.salt())?;
        let (iv, mac) = (block.iv(), block.mac());
        if block.object_type() != ObjectType::DNODE {
            return cipher.open(&iv, &mac, &[], stored);
        }
        let parts = dnodes::parts(stored, block.byte_order(), self.version)?;
        parts.change(stored, |known, data| cipher.open(&iv, &mac, known, data))
    }

    /// Encrypts the stored bytes of a block of level 0 once more, as its pointer says that they were. Only what gives
    /// the pointer's code again is left in `stored`: the very bytes that its salt and vector were used for, and none
    /// other.
    ///
    /// # Errors
    /// These are other bytes, or it is a block of dnodes.
    pub fn seal_again(&self, block: &BlockPointer, stored: &mut [u8]) -> Result<(), BlockFault> {
        if block.object_type() == ObjectType::DNODE {
            return Err(BlockFault::Layout("a block of dnodes is not sealed again"));
        }
        let cipher = self.block_key(block.salt())?;
        let mac = cipher.seal(&block.iv(), &[], stored)?;
        let same = proven(mac.ct_eq(&block.mac()).into());
        if same.is_err() {
            stored.fill(0);
        }
        same
    }

    /// Proves the stored bytes of a block that is plain, as far as they themselves prove it: indirect blocks are left
    /// to [`Self::prove_children`].
    ///
    /// # Errors
    /// They are not what was written with these keys.
    pub fn prove(&self, block: &BlockPointer, stored: &[u8]) -> Result<(), BlockFault> {
        match block.protection() {
            Protection::None | Protection::Children | Protection::Encrypted => Ok(()),
            Protection::Inside => object_set::prove(self, block.byte_order(), stored),
            Protection::Authenticated => {
                let code = self.code_of_plain(stored)?;
                proven(code.ct_eq(&block.mac()).into())
            }
        }
    }

    /// Proves an indirect block, decompressed, in host order.
    ///
    /// # Errors
    /// Its children are not those that were written.
    pub fn prove_children(&self, block: &BlockPointer, content: &[u8]) -> Result<(), BlockFault> {
        if block.protection() != Protection::Children {
            return Ok(());
        }
        let code = self.code_of_children(content);
        proven(code.ct_eq(&block.mac()).into())
    }

    /// The code of the stored bytes of a block that is plain and level 0.
    pub(crate) fn code_of_plain(&self, stored: &[u8]) -> Result<[u8; MAC_SIZE], BlockFault> {
        let mut code = [0; MAC_SIZE];
        code.copy_from_slice(&self.code(&[stored])?[..MAC_SIZE]);
        Ok(code)
    }

    /// The code of an indirect block in host order.
    pub(crate) fn code_of_children(&self, content: &[u8]) -> [u8; MAC_SIZE] {
        tree::code_of_children(content, self.version)
    }

    pub(crate) const fn version(&self) -> u64 {
        self.version
    }

    /// The message authentication code of some bytes.
    pub(crate) fn code(&self, parts: &[&[u8]]) -> Result<[u8; 64], BlockFault> {
        with_clean_stack(|| {
            let mut code = Hmac::<Sha512>::new_from_slice(&self.master.hmac)
                .map_err(|_| BlockFault::Layout("size of key"))?;
            parts.iter().for_each(|part| code.update(part));
            Ok(code.finalize().into_bytes().into())
        })
    }

    /// The key of the blocks with a salt.
    pub(crate) fn block_key(
        &self,
        salt: [u8; SALT_SIZE],
    ) -> Result<Arc<Locked<Cipher>>, BlockFault> {
        if let Some(found) = self.block_keys.lock().get(&salt) {
            return Ok(Arc::clone(found));
        }
        let made = with_clean_stack(|| self.derive(salt)).map(Arc::new);
        let mut keys = self.block_keys.lock();
        let made = match made {
            Ok(made) => made,
            // What may be locked is used up: then what others are not using goes.
            Err(KeyError::Memory(_)) => {
                keys.clear();
                Arc::new(with_clean_stack(|| self.derive(salt))?)
            }
            Err(error) => return Err(error.into()),
        };
        if keys.len() >= BLOCK_KEYS_MAX {
            keys.pop_first();
        }
        keys.insert(salt, Arc::clone(&made));
        Ok(made)
    }

    pub(crate) fn derive(&self, salt: [u8; SALT_SIZE]) -> Result<Locked<Cipher>, KeyError> {
        let size = self.suite.key_size;
        let mut key = zeroize::Zeroizing::new([0_u8; MASTER_SIZE]);
        let damaged = || KeyError::Record("size of key");
        let master = self.master.key.get(..size).ok_or_else(damaged)?;
        let key = key.get_mut(..size).ok_or_else(damaged)?;
        let derivation = Hkdf::<Sha512>::new(None, master);
        derivation.expand(&salt, key).map_err(|_| damaged())?;
        let cipher = Cipher::new(self.suite, key).ok_or_else(damaged)?;
        Locked::new(cipher).map_err(KeyError::Memory)
    }
}

/// What is in it is nobody's business.
impl fmt::Debug for DatasetKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatasetKeys")
            .field("suite", &self.suite)
            .finish_non_exhaustive()
    }
}

pub(crate) const fn proven(is_right: bool) -> Result<(), BlockFault> {
    if is_right {
        Ok(())
    } else {
        Err(BlockFault::Forged)
    }
}

#[cfg(test)]
pub(crate) mod tests;
