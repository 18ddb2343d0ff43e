//! The uberblock: the root of one txg's tree, in a ring on every leaf.

use std::cmp::Ordering;

use base::{ByteOrder, Txg};

use crate::FormatError;
use crate::block_pointer::BlockPointer;
use crate::record::{get_at, put_at, require};

/// The first word.
pub const MAGIC: u64 = 0x00ba_b10c;
/// Marks the multihost fields as present.
pub const MULTIHOST_MAGIC: u64 = 0xa11c_ea11;
/// Bytes in use; the rest of a slot is zero up to its trailer.
pub const SIZE: usize = 216;
/// The words of the uberblock, as the checkpoint stores them.
pub const WORD_COUNT: usize = SIZE / 8;
/// The version of pools with feature flags.
pub const VERSION_FEATURES: u64 = 5000;
/// The newest version before feature flags.
pub const VERSION_LAST_NUMBERED: u64 = 28;

/// The root of a pool as of one txg.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(alias = "uberblock_t")]
pub struct Uberblock {
    /// Pool version.
    #[doc(alias = "ub_version")]
    pub version: u64,
    /// The txg that this is the root of.
    #[doc(alias = "ub_txg")]
    pub txg: Txg,
    /// Sum of the guids of every vdev of the tree, the root (pool) included.
    #[doc(alias = "ub_guid_sum")]
    pub guid_sum: u64,
    /// When it was written, seconds since 1970.
    #[doc(alias = "ub_timestamp")]
    pub timestamp: u64,
    /// The meta object set.
    #[doc(alias = "ub_rootbp")]
    pub root: BlockPointer,
    /// The newest version that the writer knew.
    #[doc(alias = "ub_software_version")]
    pub software_version: u64,
    /// [`MULTIHOST_MAGIC`], or the two fields below mean nothing.
    #[doc(alias = "ub_mmp_magic")]
    pub multihost_magic: u64,
    /// 0: multihost protection is off.
    #[doc(alias = "ub_mmp_delay")]
    pub multihost_delay_ns: u64,
    /// Interval, sequence and fail intervals with their validity bits.
    #[doc(alias = "ub_mmp_config")]
    pub multihost_config: u64,
    /// Not 0 only in an uberblock that a checkpoint keeps.
    #[doc(alias = "ub_checkpoint_txg")]
    pub checkpoint_txg: Txg,
    /// Progress of a RAID-Z expansion.
    #[doc(alias = "ub_raidz_reflow_info")]
    pub reflow_info: u64,
}

impl Uberblock {
    /// The uberblock of a new txg as OpenZFS 2.3 writes it, without multihost protection.
    #[must_use]
    pub const fn new(
        version: u64,
        txg: Txg,
        guid_sum: u64,
        timestamp: u64,
        root: BlockPointer,
    ) -> Self {
        Self {
            version,
            txg,
            guid_sum,
            timestamp,
            root,
            software_version: VERSION_FEATURES,
            multihost_magic: MULTIHOST_MAGIC,
            multihost_delay_ns: 0,
            multihost_config: 0,
            checkpoint_txg: Txg(0),
            reflow_info: 0,
        }
    }

    /// Reads an uberblock of either byte order.
    ///
    /// # Errors
    /// When it is too short or has no magic.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        require("uberblock", bytes, SIZE)?;
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| get_at::<u64>(bytes, 0, *order) == MAGIC)
            .ok_or_else(|| FormatError::BadMagic {
                what: "uberblock",
                found: get_at(bytes, 0, ByteOrder::NATIVE),
            })?;
        Ok(Self::decode_fields(bytes, order))
    }

    /// Reads the words of the MOS directory's checkpoint entry (host order).
    ///
    /// # Errors
    /// When there are too few words or no magic.
    pub fn from_words(words: &[u64]) -> Result<Self, FormatError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Self::decode(&bytes)
    }

    fn decode_fields(bytes: &[u8], order: ByteOrder) -> Self {
        let word = |offset| get_at::<u64>(bytes, offset, order);
        Self {
            version: word(8),
            txg: Txg(word(16)),
            guid_sum: word(24),
            timestamp: word(32),
            root: get_at(bytes, 40, order),
            software_version: word(168),
            multihost_magic: word(176),
            multihost_delay_ns: word(184),
            multihost_config: word(192),
            checkpoint_txg: Txg(word(200)),
            reflow_info: word(208),
        }
    }

    /// Writes the uberblock at the head of `bytes` in host order; the rest stays as it is.
    pub fn encode(&self, bytes: &mut [u8]) {
        let order = ByteOrder::NATIVE;
        put_at(bytes, 0, &MAGIC, order);
        put_at(bytes, 8, &self.version, order);
        put_at(bytes, 16, &self.txg, order);
        put_at(bytes, 24, &self.guid_sum, order);
        put_at(bytes, 32, &self.timestamp, order);
        put_at(bytes, 40, &self.root, order);
        put_at(bytes, 168, &self.software_version, order);
        put_at(bytes, 176, &self.multihost_magic, order);
        put_at(bytes, 184, &self.multihost_delay_ns, order);
        put_at(bytes, 192, &self.multihost_config, order);
        put_at(bytes, 200, &self.checkpoint_txg, order);
        put_at(bytes, 208, &self.reflow_info, order);
    }

    /// The multihost sequence, 0 when it is not there.
    #[must_use]
    pub const fn multihost_sequence(&self) -> u64 {
        const VALID: u64 = 2;
        if self.multihost_magic == MULTIHOST_MAGIC && self.multihost_config & VALID != 0 {
            (self.multihost_config >> 32) & 0xFFFF
        } else {
            0
        }
    }

    /// Whether multihost protection was on when it was written.
    #[must_use]
    pub const fn multihost_active(&self) -> bool {
        self.multihost_magic == MULTIHOST_MAGIC && self.multihost_delay_ns != 0
    }

    /// Which of two uberblocks is newer: txg, then time, then multihost sequence.
    #[must_use]
    pub fn compare_age(&self, other: &Self) -> Ordering {
        let key = |uberblock: &Self| {
            (
                uberblock.txg,
                uberblock.timestamp,
                uberblock.multihost_sequence(),
            )
        };
        key(self).cmp(&key(other))
    }

    /// Whether a pool of this version can be opened at all.
    #[must_use]
    pub const fn version_is_known(&self) -> bool {
        self.version == VERSION_FEATURES
            || (self.version >= 1 && self.version <= VERSION_LAST_NUMBERED)
    }
}

#[cfg(test)]
mod tests;
