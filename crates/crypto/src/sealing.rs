//! Encrypting blocks: what makes of plain bytes those that are stored, and what their pointers have to say of it.
//!
//! Invariant: a salt and an initialisation vector together are used once, by all that ever wrote with a master key.
//! Both are drawn from the kernel's random numbers and kept nowhere, so no crash, no rollback and no copy of a pool's
//! image brings one back. Chance is the only thing that could: see docs/internals/encryption.md for how little.

use std::sync::Arc;

use base::ByteOrder;
use base::random::Rng;
use format::ObjectType;
use format::block_pointer::{IV_SIZE, MAC_SIZE, SALT_SIZE};
use sys::{Locked, SystemRng};

use crate::cipher::Cipher;
use crate::error::BlockFault;
use crate::keys::DatasetKeys;
use crate::stored::VERSION;
use crate::{dnodes, log, object_set, tree};

/// So many blocks are encrypted with a salt; then the next one is drawn.
const SALT_USES: u32 = 400_000_000;

/// Salt and initialisation vector: those of one block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealMark {
    /// What the block's key is made with.
    pub salt: [u8; SALT_SIZE],
    /// The initialisation vector.
    pub iv: [u8; IV_SIZE],
}

/// What the pointer to a block has to say of how it was sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockSeal {
    /// Of an encrypted block.
    pub mark: Option<SealMark>,
    /// The code of the block; none has the root of an object set, where the codes are inside.
    pub mac: Option<[u8; MAC_SIZE]>,
}

/// What new blocks are encrypted with.
pub(crate) struct SealingKey {
    salt: [u8; SALT_SIZE],
    left: u32,
    cipher: Arc<Locked<Cipher>>,
}

impl DatasetKeys {
    /// Encrypts the stored bytes of a block of level 0, in place. Of a block of dnodes only the bonuses are.
    ///
    /// # Errors
    /// No key can be kept in memory, or it is no block of dnodes.
    pub fn seal(&self, kind: ObjectType, stored: &mut [u8]) -> Result<BlockSeal, BlockFault> {
        let (mark, cipher) = self.draw()?;
        let mac = if kind == ObjectType::DNODE {
            let parts = dnodes::parts(stored, ByteOrder::NATIVE, self.version())?;
            parts.change(stored, |known, data| cipher.seal(&mark.iv, known, data))?
        } else {
            cipher.seal(&mark.iv, &[], stored)?
        };
        Ok(BlockSeal {
            mark: Some(mark),
            mac: Some(mac),
        })
    }

    /// Proves a block of level 0 that is stored plain.
    ///
    /// # Errors
    /// No code can be computed.
    pub fn seal_plain(&self, stored: &[u8]) -> Result<BlockSeal, BlockFault> {
        Ok(BlockSeal {
            mark: None,
            mac: Some(self.code_of_plain(stored)?),
        })
    }

    /// Proves an indirect block, of which `content` is not compressed.
    #[must_use]
    pub fn seal_children(&self, content: &[u8]) -> BlockSeal {
        BlockSeal {
            mark: None,
            mac: Some(self.code_of_children(content)),
        }
    }

    /// Puts the codes into the root block of an object set.
    ///
    /// # Errors
    /// It is none.
    pub fn seal_root(&self, block: &mut [u8]) -> Result<BlockSeal, BlockFault> {
        object_set::seal(self, block)?;
        Ok(BlockSeal {
            mark: None,
            mac: None,
        })
    }

    /// Salt and vector of a block that is allocated before it is written: of a log. To be used for it once.
    ///
    /// # Errors
    /// No key can be kept in memory.
    pub fn new_mark(&self) -> Result<SealMark, BlockFault> {
        self.draw().map(|(mark, _)| mark)
    }

    /// Encrypts what is secret of the records of a log block, of which `used` bytes are filled, in place.
    ///
    /// # Errors
    /// Its records are cut off, or no key can be kept in memory.
    pub fn seal_log(
        &self,
        mark: &SealMark,
        block: &mut [u8],
        used: usize,
    ) -> Result<[u8; MAC_SIZE], BlockFault> {
        let cipher = self.block_key(mark.salt)?;
        let parts = log::parts(block, used, ByteOrder::NATIVE)?;
        parts.change(block, |known, data| cipher.seal(&mark.iv, known, data))
    }

    /// The reverse, of a block that a writer of some byte order filled.
    ///
    /// # Errors
    /// It is not what was written with these keys.
    pub fn open_log(
        &self,
        (mark, mac): (&SealMark, &[u8; MAC_SIZE]),
        block: &mut [u8],
        (used, order): (usize, ByteOrder),
    ) -> Result<(), BlockFault> {
        let cipher = self.block_key(mark.salt)?;
        let parts = log::parts(block, used, order)?;
        parts.change(block, |known, data| cipher.open(&mark.iv, mac, known, data))
    }

    /// A salt and a vector for one block, with the cipher of that salt.
    fn draw(&self) -> Result<(SealMark, Arc<Locked<Cipher>>), BlockFault> {
        let mut iv = [0; IV_SIZE];
        SystemRng.fill(&mut iv);
        let mut sealing = self.sealing.lock();
        if let Some(key) = sealing.as_mut().filter(|key| key.left > 0) {
            key.left -= 1;
            let salt = key.salt;
            return Ok((SealMark { salt, iv }, Arc::clone(&key.cipher)));
        }
        let mut salt = [0; SALT_SIZE];
        SystemRng.fill(&mut salt);
        let cipher = self.block_key(salt)?;
        *sealing = Some(SealingKey {
            salt,
            left: SALT_USES - 1,
            cipher: Arc::clone(&cipher),
        });
        Ok((SealMark { salt, iv }, cipher))
    }
}

/// Proves an indirect block of a dataset whose keys are not loaded, of which `content` is not compressed: the codes of
/// its children are in it, and that is all it takes.
#[must_use]
pub fn seal_children(content: &[u8]) -> BlockSeal {
    BlockSeal {
        mark: None,
        mac: Some(tree::code_of_children(content, VERSION)),
    }
}

#[cfg(test)]
mod tests;
