//! What links the blocks of an intent log: the next pointer, the length used, and a checksum that
//! is seeded with the block's identity so that a stale block never continues a chain.

use base::ByteOrder;
use codec::Checksum;

use crate::FormatError;
use crate::block_pointer::BlockPointer;
use crate::embedded_checksum::{EmbeddedChecksum, MAGIC};
use crate::record::{record, require};

record! {
    /// The chain structure of a log block: at its head (slim form) or tail (old form).
    #[doc(alias = "zil_chain_t")]
    pub struct ChainElement [184] {
        #[doc(alias = "zc_pad")]
        /// How many more blocks belong to the same commit: its records count only if all of them are there. Padding,
        /// 0 and not looked at, in OpenZFS, where each block counts by itself.
        following: u64 = 0,
        #[doc(alias = "zc_next_blk")]
        /// The next block, allocated but perhaps never written.
        next: BlockPointer = 8,
        #[doc(alias = "zc_nused")]
        /// Bytes used: of the whole block in the slim form, of records alone in the old one.
        used_bytes: u64 = 136,
        #[doc(alias = "zec_magic")]
        /// The magic of embedded checksums.
        magic: u64 = 144,
        #[doc(alias = "zec_cksum")]
        /// The checksum.
        checksum: [u64; 4] = 152,
    }
}

// The last two fields are an embedded checksum.
const _: () = assert!(
    ChainElement::AT.magic.offset + EmbeddedChecksum::SIZE == ChainElement::SIZE
        && ChainElement::AT.checksum.offset - ChainElement::AT.magic.offset
            == EmbeddedChecksum::AT.checksum.offset
);

/// Where a log block keeps its chain structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainForm {
    /// At the end of the block (pools before version 23).
    Old,
    /// At the head of the block, so that only the used part need be written.
    Slim,
}

/// A block's place in a chain: two random words, the object set, the sequence number. It lies in
/// the checksum words of the pointer to the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity(pub [u64; 4]);

impl Identity {
    /// The identity of the first block of a new chain.
    #[must_use]
    pub const fn first(random: [u64; 2], object_set: u64) -> Self {
        Self([random[0], random[1], object_set, 1])
    }

    /// The identity that a pointer to a log block carries.
    #[must_use]
    pub fn of(pointer: &BlockPointer) -> Self {
        let [.., one, two, three, four] = pointer.words;
        Self([one, two, three, four])
    }

    /// The sequence number of the block.
    #[must_use]
    pub fn sequence(self) -> u64 {
        self.0[3]
    }

    /// The identity of the next block.
    #[must_use]
    pub fn next(self) -> Self {
        let [one, two, three, sequence] = self.0;
        Self([one, two, three, sequence.wrapping_add(1)])
    }
}

impl ChainForm {
    /// The form that the checksum kind of a log block's pointer implies.
    #[must_use]
    pub fn of(pointer: &BlockPointer) -> Option<Self> {
        match pointer.checksum() {
            Ok(Checksum::Zilog) => Some(Self::Old),
            Ok(Checksum::Zilog2) => Some(Self::Slim),
            Ok(
                Checksum::Off
                | Checksum::Label
                | Checksum::GangHeader
                | Checksum::Fletcher2
                | Checksum::Fletcher4
                | Checksum::Sha256
                | Checksum::NoParity
                | Checksum::Sha512
                | Checksum::Skein
                | Checksum::Edonr
                | Checksum::Blake3,
            )
            | Err(_) => None,
        }
    }

    /// Where the chain structure of a block of `size` bytes starts.
    #[must_use]
    pub fn element_offset(self, size: usize) -> usize {
        match self {
            Self::Old => size.saturating_sub(ChainElement::SIZE),
            Self::Slim => 0,
        }
    }

    /// Where the records of a block start.
    #[must_use]
    pub fn records_offset(self) -> usize {
        match self {
            Self::Old => 0,
            Self::Slim => ChainElement::SIZE,
        }
    }

    /// The part of the block that holds records.
    ///
    /// # Errors
    /// When the length used is impossible.
    pub fn records(self, element: &ChainElement, size: usize) -> Result<RecordRange, FormatError> {
        let used = usize::try_from(element.used_bytes).unwrap_or(usize::MAX);
        let range = self.records_offset()..used;
        let limit = match self {
            Self::Old => size.saturating_sub(ChainElement::SIZE),
            Self::Slim => size,
        };
        if range.start > range.end || range.end > limit {
            return Err(FormatError::Invalid {
                what: "log block",
                field: "used bytes",
                value: element.used_bytes,
            });
        }
        Ok(range)
    }
}

/// A range of bytes of a log block.
pub type RecordRange = std::ops::Range<usize>;

impl ChainElement {
    /// Finds the chain structure of a raw block, and the order of its writer.
    ///
    /// # Errors
    /// A block too short, or without the magic in either order: the normal end of a chain.
    pub fn find(block: &[u8], form: ChainForm) -> Result<(Self, ByteOrder), FormatError> {
        require("log block", block, Self::SIZE)?;
        let bytes = block.get(form.element_offset(block.len())..).unwrap_or(&[]);
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let element = Self::decode(bytes, order)?;
            if element.magic == MAGIC {
                return Ok((element, order));
            }
        }
        let found = Self::decode(bytes, ByteOrder::NATIVE)?.magic;
        Err(FormatError::BadMagic {
            what: "log block",
            found,
        })
    }

    /// The structure of a block whose records end at `used_bytes`, and with which
    /// `following` more make a commit; the checksum is sealed when the block is whole.
    #[must_use]
    pub fn new(next: BlockPointer, used_bytes: u64, following: u64) -> Self {
        Self {
            following,
            next,
            used_bytes,
            magic: MAGIC,
            checksum: [0; 4],
        }
    }

    /// Whether the next pointer continues the chain of a block with this identity.
    #[must_use]
    pub fn continues(&self, identity: Identity) -> bool {
        Identity::of(&self.next) == identity.next()
    }
}
