//! An object set that is received as another pool stores it, sealed with a key that nobody is asked for.
//!
//! Its blocks of dnodes are written with the seals that came with them, whatever of their dnodes has come so far: they
//! are proven only once all is there. Until it is closed it is read without a key, even if that is loaded.

use codec::Compression;
use format::BlockPointer;
use format::block_pointer::SealedForm;

use super::seals::Seals;
use super::{ObjectSet, meta};
use crate::error::{DmuError, Result};
use crate::tx::Tx;

/// The shape of a sealed object set's array of dnodes, and what proves its root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SealedShape {
    /// The code of the root block that holds wherever it is received.
    pub portable_mac: [u8; 32],
    /// The array's checksum, as its dnode says.
    pub checksum: u8,
    /// Its compression.
    pub compress: u8,
    /// Its levels.
    pub levels: u8,
    /// Bytes of its blocks.
    pub block_size: u32,
    /// Log2 of its indirect blocks' size.
    pub indirect_shift: u8,
    /// Its dnode's pointers.
    pub pointer_count: u8,
    /// Its last block.
    pub max_block: u64,
}

impl ObjectSet {
    /// From now on what is written was sealed elsewhere. Its space is not counted by owner before that is done anew.
    ///
    /// # Errors
    /// The array of dnodes that is there cannot get that shape.
    pub fn begin_sealed(&self, tx: &Tx, shape: &SealedShape) -> Result<()> {
        let refuse = |what: &'static str| {
            let place = meta::Meta::reader(&self.shared).place(0, 0);
            Err(DmuError::corrupt(place, what))
        };
        if shape.block_size as usize != meta::BLOCK_SIZE {
            return refuse("the blocks of dnodes are not 16 KiB");
        }
        let is_shape = (12..=17).contains(&shape.indirect_shift)
            && (1..=3).contains(&shape.pointer_count)
            && (1..=format::dnode::LEVELS_MAX).contains(&shape.levels);
        if !is_shape {
            return refuse("no array of dnodes has that shape");
        }
        let mut next = meta::MetaVersion::clone(&self.shared.meta.version());
        if next.tree.is_empty() {
            next.tree.levels = shape.levels;
            next.tree.indirect_shift = shape.indirect_shift;
            next.tree.pointer_count = shape.pointer_count;
            next.header.indirect_shift = shape.indirect_shift;
            next.header.pointer_count = shape.pointer_count;
        }
        let is_same = next.tree.indirect_shift == shape.indirect_shift
            && next.tree.pointer_count == shape.pointer_count
            && next.tree.levels <= shape.levels
            && next.header.max_block <= shape.max_block;
        if !is_same {
            return refuse("the array of dnodes has another shape");
        }
        next.header.checksum = shape.checksum;
        next.header.compress = shape.compress;
        next.header.levels_min = shape.levels;
        next.header.max_block = shape.max_block;
        next.tree.max_block = shape.max_block;
        self.shared.seals.get_or_init(Seals::new);
        self.shared.meta.swap(next);
        {
            let mut header = self.header.lock();
            header.flags = 0;
            header.portable_mac = shape.portable_mac;
            header.local_mac = [0; 32];
        }
        self.touch_header(tx);
        Ok(())
    }

    /// Whether what is written was sealed elsewhere.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.shared.seals.get().is_some()
    }

    /// With what a block of dnodes is sealed that will come.
    pub fn seal_dnodes(&self, block: u64, form: SealedForm) {
        if let Some(seals) = self.shared.seals.get() {
            seals.insert(block, form);
        }
    }

    /// Whether it is known with what a block of dnodes is sealed.
    ///
    /// # Errors
    /// A block above it cannot be read.
    pub fn has_seal(&self, block: u64) -> Result<bool> {
        let Some(seals) = self.shared.seals.get() else {
            return Ok(false);
        };
        if seals.get(block).is_some() {
            return Ok(true);
        }
        let stored = self.shared.meta.pointer(&self.shared, 0, block)?;
        Ok(!stored.is_hole())
    }

    /// What the pointer to a block of dnodes is to say: what came last, else what it says now.
    pub(super) fn seal_of(&self, block: u64, previous: &BlockPointer) -> Option<SealedForm> {
        let seals = self.shared.seals.get()?;
        seals.get(block).or_else(|| {
            (!previous.is_hole()).then(|| SealedForm {
                lsize: meta::BLOCK_SIZE as u64,
                compression: Compression::Off,
                salt: previous.salt(),
                iv: previous.iv(),
                mac: previous.mac(),
            })
        })
    }

    /// The pointer says it now.
    pub(super) fn forget_seal(&self, block: u64, written: &BlockPointer) {
        if let Some(seals) = self.shared.seals.get() {
            seals.forget(block, written);
        }
    }
}
