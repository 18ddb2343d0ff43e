//! Gang headers: a block that found no fit is stored in up to three pieces.

use base::ByteOrder;
use codec::Checksum;

use crate::FormatError;
use crate::block_pointer::{BlockPointer, Dva, MAC_SIZE};
use crate::embedded_checksum::{self, EmbeddedChecksum};
use crate::object_type::ObjectType;
use crate::record::{areas, require};

areas! {
    /// A gang header on disk.
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

/// Bytes of a header.
pub const SIZE: usize = GangAreas::SIZE;
/// Pieces that a header names.
pub const MEMBER_COUNT: usize = 3;
/// The unit of a piece's size.
pub const PIECE_UNIT: u64 = 512;

/// The pieces of a gang block; unused ones are holes, and come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[doc(alias = "zio_gbh_phys_t")]
pub struct GangHeader {
    /// The pieces in order.
    pub members: [BlockPointer; MEMBER_COUNT],
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

/// How many bytes go to the piece in `slot` when `remaining` are left.
#[must_use]
pub const fn piece_size(remaining: u64, slot: usize) -> u64 {
    let slots = MEMBER_COUNT.saturating_sub(slot) as u64;
    if slots <= 1 {
        return remaining;
    }
    let piece = (remaining / slots).next_multiple_of(PIECE_UNIT);
    if piece > remaining { remaining } else { piece }
}

impl GangHeader {
    /// Reads and verifies the header that `leader` points to.
    ///
    /// # Errors
    /// When the block is not that header.
    pub fn decode(block: &[u8], leader: &BlockPointer) -> Result<Self, FormatError> {
        require("gang header", block, SIZE)?;
        let header = block.get(..SIZE).unwrap_or_default();
        let (kind, verifier) = (Checksum::GangHeader, verifier(leader));
        let folded = is_folded(leader)
            .then(|| embedded_checksum::verify_encrypted(kind, header, verifier).ok())
            .flatten();
        let order = match folded {
            Some(order) => order,
            // Also what builds of November 2026 wrote of encrypted blocks: whole, which OpenZFS does not read.
            None => embedded_checksum::verify(kind, header, verifier)?,
        };
        Ok(Self {
            members: GangAreas::AT.members.get(header, order),
        })
    }

    /// The header block for a leader with this first address and birth.
    #[must_use]
    pub fn encode(&self, leader: &BlockPointer) -> [u8; SIZE] {
        let mut block = [0; SIZE];
        GangAreas::AT
            .members
            .put(&mut block, &self.members, ByteOrder::NATIVE);
        // 512 bytes have room for the trailer.
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

#[cfg(test)]
mod tests;
