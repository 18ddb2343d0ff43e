//! Gang headers: a block that found no fit is stored in pieces that a header names.
//!
//! A header has 512 bytes and names three pieces. With the feature `dynamic_gang_header` it may be as long as the
//! smallest allocation of the vdevs that it lies on, and names as many as fit before its checksum.

use base::ByteOrder;
use codec::Checksum;

use crate::FormatError;
use crate::block_pointer::{self, BlockPointer, Dva, MAC_SIZE};
use crate::embedded_checksum::{self, EmbeddedChecksum};
use crate::object_type::ObjectType;
use crate::record::{areas, get_at, put_at, require};

areas! {
    /// A gang header on disk. A longer one has more members from 0 on, and its checksum in its last 40 bytes.
    #[doc(alias = "zio_gbh_phys_t")]
    pub struct GangAreas [512] {
        /// The pieces in order; unused ones are holes, and come last.
        #[doc(alias = "zg_blkptr")]
        members: [BlockPointer; MEMBER_COUNT] = 0,
        /// Its checksum, over a verifier of the leader's first address and birth.
        #[doc(alias = "zg_tail")]
        checksum: EmbeddedChecksum = 472,
    }
}

/// Bytes of the shortest header.
pub const SIZE: usize = GangAreas::SIZE;
/// Pieces that the shortest header names.
pub const MEMBER_COUNT: usize = 3;
/// No header is longer: no block is.
pub const SIZE_MAX: usize = 16 << 20;
/// The unit of a piece's size.
pub const PIECE_UNIT: u64 = 512;

/// The pieces of a gang block; unused ones are holes, and come last.
#[derive(Clone, Debug, PartialEq, Eq)]
#[doc(alias = "zio_gbh_phys_t")]
pub struct GangHeader {
    /// The pieces in order: as many as a header of this size has room for.
    pub members: Vec<BlockPointer>,
    size: usize,
}

impl Default for GangHeader {
    /// The shortest.
    fn default() -> Self {
        Self::of_size(SIZE)
    }
}

/// How many pieces a header of `size` bytes has room for.
#[must_use]
pub const fn member_count(size: usize) -> usize {
    size.saturating_sub(embedded_checksum::SIZE) / block_pointer::SIZE
}

/// The verifier of a gang block's header: its first address and birth.
#[must_use]
pub fn verifier(leader: &BlockPointer) -> [u64; 4] {
    verifier_of(leader.dva(0), leader.physical_birth().0)
}

/// Whether the sum in the header is folded, as that in the leader is: a place for a code is left in both.
fn is_folded(leader: &BlockPointer) -> bool {
    leader.is_encrypted() && leader.object_type() != ObjectType::OBJECT_SET
}

fn verifier_of(first: Option<Dva>, birth: u64) -> [u64; 4] {
    let first = first.unwrap_or_default();
    [first.vdev.0, first.offset, birth, 0]
}

/// How many bytes, in whole `unit`s, go to the first of `slots` pieces at least when `remaining` are left for them.
#[must_use]
pub const fn least_piece(remaining: u64, slots: usize, unit: u64) -> u64 {
    if slots <= 1 {
        return remaining;
    }
    let piece = (remaining / slots as u64).next_multiple_of(unit);
    if piece > remaining { remaining } else { piece }
}

impl GangHeader {
    /// One of `size` bytes, at least [`SIZE`], without pieces.
    #[must_use]
    pub fn of_size(size: usize) -> Self {
        let size = size.max(SIZE);
        Self {
            members: vec![BlockPointer::HOLE; member_count(size)],
            size,
        }
    }

    /// Bytes of it.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size
    }

    /// Reads and verifies the header that `leader` points to: one as long as `block`, or, as in pools on which
    /// `dynamic_gang_header` was not active yet, one of the first [`SIZE`] bytes.
    ///
    /// # Errors
    /// When the block is neither.
    pub fn decode(block: &[u8], leader: &BlockPointer) -> Result<Self, FormatError> {
        require("gang header", block, SIZE)?;
        if block.len() > SIZE
            && let Ok(header) = Self::decode_whole(block, leader)
        {
            return Ok(header);
        }
        Self::decode_whole(block.get(..SIZE).unwrap_or_default(), leader)
    }

    fn decode_whole(header: &[u8], leader: &BlockPointer) -> Result<Self, FormatError> {
        let (kind, verifier) = (Checksum::GangHeader, verifier(leader));
        let folded = is_folded(leader)
            .then(|| embedded_checksum::verify_encrypted(kind, header, verifier).ok())
            .flatten();
        let order = match folded {
            Some(order) => order,
            // Also what builds of November 2026 wrote of encrypted blocks: whole, which OpenZFS does not read.
            None => embedded_checksum::verify(kind, header, verifier)?,
        };
        let size = header.len();
        let member = |slot| get_at(header, slot * block_pointer::SIZE, order);
        Ok(Self {
            members: (0..member_count(size)).map(member).collect(),
            size,
        })
    }

    /// The header block for a leader with this first address and birth.
    #[must_use]
    pub fn encode(&self, leader: &BlockPointer) -> Vec<u8> {
        let mut block = vec![0; self.size];
        let members = self.members.iter().take(member_count(self.size));
        for (slot, member) in members.enumerate() {
            let at = slot * block_pointer::SIZE;
            put_at(&mut block, at, member, ByteOrder::NATIVE);
        }
        // There is room for the trailer.
        let (kind, verifier) = (Checksum::GangHeader, verifier(leader));
        let _ = if is_folded(leader) {
            // The leader has the code.
            embedded_checksum::seal_encrypted(kind, &mut block, verifier, &[0; MAC_SIZE])
        } else {
            embedded_checksum::seal(kind, &mut block, verifier)
        };
        block
    }

    /// The pieces in use.
    pub fn used(&self) -> impl Iterator<Item = &BlockPointer> {
        self.members.iter().filter(|member| !member.is_hole())
    }
}

// The trailer of a block is at its end.
const _: () = assert!(GangAreas::AT.checksum.end() == SIZE);
const _: () = assert!(member_count(SIZE) == MEMBER_COUNT);
const _: () = assert!(SIZE_MAX as u64 == block_pointer::BLOCK_SIZE_MAX);

#[cfg(test)]
mod tests;
