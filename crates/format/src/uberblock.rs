//! The uberblock: the root of one txg's tree, in a ring on every leaf.

use std::cmp::Ordering;

use base::{ByteOrder, Txg};

use crate::FormatError;
use crate::bits::bits;
use crate::block_pointer::BlockPointer;
use crate::record::{record, require};

/// The first word.
pub const MAGIC: u64 = 0x00ba_b10c;
/// Marks the multihost fields as present.
pub const MULTIHOST_MAGIC: u64 = 0xa11c_ea11;
/// Bytes in use; the rest of a slot is zero up to its trailer.
pub const SIZE: usize = Uberblock::SIZE;
/// The words of the uberblock, as the checkpoint stores them.
pub const WORD_COUNT: usize = SIZE / 8;
/// The version of pools with feature flags.
pub const VERSION_FEATURES: u64 = 5000;
/// The newest version before feature flags.
pub const VERSION_LAST_NUMBERED: u64 = 28;

/// Whether a pool can have this version.
#[must_use]
pub const fn version_is_known(version: u64) -> bool {
    version == VERSION_FEATURES || (version >= 1 && version <= VERSION_LAST_NUMBERED)
}

record! {
    /// The root of a pool as of one txg.
    #[derive(Copy)]
    #[doc(alias = "uberblock_t")]
    pub struct Uberblock [216] {
        /// [`MAGIC`], in the writer's byte order.
        #[doc(alias = "ub_magic")]
        magic: u64 = 0,
        /// Pool version.
        #[doc(alias = "ub_version")]
        version: u64 = 8,
        /// The txg that this is the root of.
        #[doc(alias = "ub_txg")]
        txg: Txg = 16,
        /// Sum of the guids of every vdev of the tree, the root (pool) included.
        #[doc(alias = "ub_guid_sum")]
        guid_sum: u64 = 24,
        /// When it was written, seconds since 1970.
        #[doc(alias = "ub_timestamp")]
        timestamp: u64 = 32,
        /// The meta object set.
        #[doc(alias = "ub_rootbp")]
        root: BlockPointer = 40,
        /// The newest version that the writer knew.
        #[doc(alias = "ub_software_version")]
        software_version: u64 = 168,
        /// [`MULTIHOST_MAGIC`], or the two fields below mean nothing.
        #[doc(alias = "ub_mmp_magic")]
        multihost_magic: u64 = 176,
        /// 0: multihost protection is off.
        #[doc(alias = "ub_mmp_delay")]
        multihost_delay_ns: u64 = 184,
        /// See [`MultihostConfig`].
        #[doc(alias = "ub_mmp_config")]
        multihost_config: u64 = 192,
        /// Not 0 only in an uberblock that a checkpoint keeps.
        #[doc(alias = "ub_checkpoint_txg")]
        checkpoint_txg: Txg = 200,
        /// See [`ReflowInfo`].
        #[doc(alias = "ub_raidz_reflow_info")]
        reflow_info: u64 = 208,
    }
}
bits! {
    /// Interval, sequence and fail intervals of multihost protection, each with a bit that says whether it counts.
    #[doc(alias = "ub_mmp_config")]
    pub struct MultihostConfig [64] {
        /// Whether `interval` counts.
        interval_valid: 1 = 0,
        /// Whether `sequence` counts.
        sequence_valid: 1 = 1,
        /// Whether `fail_intervals` counts.
        fail_intervals_valid: 1 = 2,
        /// Milliseconds between two writes of the host that has the pool.
        interval: 24 = 8,
        /// Counts the uberblocks of one txg.
        sequence: 16 = 32,
        /// After how many intervals without a write the host suspends the pool.
        fail_intervals: 16 = 48,
    }
}

bits! {
    /// How far the expansion of a RAID-Z vdev came.
    #[doc(alias = "ub_raidz_reflow_info")]
    pub struct ReflowInfo [64] {
        /// The next sector that is copied, in units of 512 bytes.
        offset: 55 = 0,
        /// The state of the scratch area that the first sectors are copied through.
        state: 9 = 55,
    }
}

/// What a scratch area holds of a RAID-Z vdev that is getting another child: [`ReflowInfo`]'s state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Scratch {
    /// Nothing, for nothing has moved.
    #[default]
    Unused = 0,
    /// The first sectors, which are nowhere else for certain.
    Holds = 1,
    /// Nothing that counts: they have moved to their places.
    Moved = 2,
    /// The same, which an import has done.
    MovedByImport = 3,
    /// The same, and others have moved behind them.
    MovedOn = 4,
}

/// How far a RAID-Z vdev has moved that is getting another child.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflow {
    /// Up to which byte.
    pub moved: u64,
    /// What the scratch areas hold.
    pub scratch: Scratch,
}

impl Scratch {
    const ALL: [Self; 5] = [
        Self::Unused,
        Self::Holds,
        Self::Moved,
        Self::MovedByImport,
        Self::MovedOn,
    ];
}

impl Reflow {
    /// What a word says; none if it has a state that is not known.
    #[must_use]
    pub fn of_word(word: u64) -> Option<Self> {
        let state = ReflowInfo::AT.state.get(word);
        let mut all = Scratch::ALL.into_iter();
        Some(Self {
            moved: ReflowInfo::AT.offset.get(word) << 9,
            scratch: all.find(|scratch| *scratch as u64 == state)?,
        })
    }

    /// The word that says so.
    #[must_use]
    pub const fn word(self) -> u64 {
        let word = ReflowInfo::AT.offset.set(0, self.moved >> 9);
        ReflowInfo::AT.state.set(word, self.scratch as u64)
    }
}

impl Uberblock {
    /// How far the RAID-Z vdev has moved that is getting another child.
    ///
    /// # Errors
    /// A state that is not known.
    pub fn reflow(&self) -> Result<Reflow, FormatError> {
        Reflow::of_word(self.reflow_info).ok_or(FormatError::Invalid {
            what: "uberblock",
            field: "raidz_reflow_info",
            value: self.reflow_info,
        })
    }

    /// Whether the first bytes that moved are in the scratch area of each child, and perhaps nowhere else.
    #[must_use]
    pub const fn is_in_scratch(&self) -> bool {
        ReflowInfo::AT.state.get(self.reflow_info) == Scratch::Holds as u64
    }

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
            magic: MAGIC,
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
    pub fn read(bytes: &[u8]) -> Result<Self, FormatError> {
        require("uberblock", bytes, SIZE)?;
        let order = [ByteOrder::Little, ByteOrder::Big]
            .into_iter()
            .find(|order| Self::AT.magic.get(bytes, *order) == MAGIC)
            .ok_or_else(|| FormatError::BadMagic {
                what: "uberblock",
                found: Self::AT.magic.get(bytes, ByteOrder::NATIVE),
            })?;
        Ok(Self::decode_padded(bytes, order))
    }

    /// Reads the words of the MOS directory's checkpoint entry (host order).
    ///
    /// # Errors
    /// When there are too few words or no magic.
    pub fn from_words(words: &[u64]) -> Result<Self, FormatError> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Self::read(&bytes)
    }

    /// Writes the uberblock at the head of `bytes` in host order; the rest stays as it is.
    pub fn write(&self, bytes: &mut [u8]) {
        self.encode(bytes, ByteOrder::NATIVE);
    }

    /// The multihost sequence, 0 when it is not there.
    #[must_use]
    pub const fn multihost_sequence(&self) -> u64 {
        let config = self.multihost_config;
        let valid = MultihostConfig::AT.sequence_valid.get(config) == 1;
        if self.multihost_magic == MULTIHOST_MAGIC && valid {
            MultihostConfig::AT.sequence.get(config)
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
        version_is_known(self.version)
    }
}

#[cfg(test)]
mod tests;
