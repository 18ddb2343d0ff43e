//! The checksum inside a block (eck): 40 bytes of magic and four words, sealed over a verifier.
//!
//! The verifier says where the block belongs (device offset, address, log sequence), so that a
//! block that was written elsewhere, or an older one, does not verify.

use base::ByteOrder;
use codec::{Checksum, ChecksumValue, Salt, checksum};

use crate::FormatError;
use crate::block_pointer::MAC_SIZE;
use crate::intent_log::ChainElement;
use crate::record::{get_at, put_at, record, require};

record! {
    /// The checksum at the end of a block that nothing else has a checksum of.
    #[doc(alias = "zio_eck_t")]
    pub struct EmbeddedChecksum [40] {
        /// [`MAGIC`], in the writer's byte order.
        #[doc(alias = "zec_magic")]
        magic: u64 = 0,
        /// The sum of the block with the verifier in this place.
        #[doc(alias = "zec_cksum")]
        checksum: [u64; 4] = 8,
    }
}

/// Bytes of the trailer.
pub const SIZE: usize = EmbeddedChecksum::SIZE;
/// The trailer's first word.
pub const MAGIC: u64 = 0x0210_da7a_b10c_7a11;
/// Where the chain header of an intent log block of the newer form says how much is used.
const CHAIN_USED: usize = ChainElement::AT.used_bytes.offset;
/// Where that block keeps its trailer.
const CHAIN_TRAILER: usize = ChainElement::AT.magic.offset;
/// Where the sum lies in a trailer.
const SUM: usize = EmbeddedChecksum::AT.checksum.offset;
/// Where the message authentication code lies in that of an encrypted block.
const CODE: usize = SUM + 2 * size_of::<u64>();
/// The unit in which such a block is summed.
const CHAIN_UNIT: u64 = 4096;

/// The verifier of a label's piece: where it lies on the device.
#[must_use]
pub const fn label_verifier(device_offset: u64) -> [u64; 4] {
    [device_offset, 0, 0, 0]
}

/// Where the trailer is and how many bytes are summed.
fn place(
    kind: Checksum,
    block: &[u8],
    order: Option<ByteOrder>,
) -> Result<(usize, usize), FormatError> {
    if kind != Checksum::Zilog2 {
        require("embedded checksum", block, SIZE)?;
        return Ok((block.len() - SIZE, block.len()));
    }
    require("intent log block", block, CHAIN_TRAILER + SIZE)?;
    let order = match order {
        Some(order) => order,
        None => order_at(block, CHAIN_TRAILER)?,
    };
    let used: u64 = get_at(block, CHAIN_USED, order);
    let summed = used.checked_next_multiple_of(CHAIN_UNIT);
    match summed.map(usize::try_from) {
        Some(Ok(summed)) if summed <= block.len() && summed >= CHAIN_TRAILER + SIZE => {
            Ok((CHAIN_TRAILER, summed))
        }
        _ => Err(FormatError::Invalid {
            what: "intent log block",
            field: "used",
            value: used,
        }),
    }
}

/// What is summed of a block: it is not shorter.
fn summed(block: &[u8], length: usize) -> &[u8] {
    block.get(..length).unwrap_or(block)
}

/// The byte order that the magic at `offset` shows.
fn order_at(block: &[u8], offset: usize) -> Result<ByteOrder, FormatError> {
    for order in [ByteOrder::Little, ByteOrder::Big] {
        if get_at::<u64>(block, offset, order) == MAGIC {
            return Ok(order);
        }
    }
    Err(FormatError::BadMagic {
        what: "embedded checksum",
        found: get_at(block, offset, ByteOrder::NATIVE),
    })
}

/// Writes magic and sum into the block's trailer, in host order.
///
/// # Errors
/// When the block has no room for the trailer.
pub fn seal(kind: Checksum, block: &mut [u8], verifier: [u64; 4]) -> Result<(), FormatError> {
    let order = ByteOrder::NATIVE;
    let (offset, length) = place(kind, block, Some(order))?;
    put_at(block, offset, &MAGIC, order);
    put_at(block, offset + SUM, &verifier, order);
    let value = checksum(kind, summed(block, length), order, &Salt::default());
    put_at(block, offset + SUM, &value.0, order);
    Ok(())
}

/// As [`seal`], of an encrypted block: half of the sum is folded into the other half, and its place has the message
/// authentication code.
///
/// # Errors
/// As [`seal`].
pub fn seal_encrypted(
    kind: Checksum,
    block: &mut [u8],
    verifier: [u64; 4],
    mac: &[u8; MAC_SIZE],
) -> Result<(), FormatError> {
    seal(kind, block, verifier)?;
    let order = ByteOrder::NATIVE;
    let (offset, _) = place(kind, block, Some(order))?;
    let sum: [u64; 4] = get_at(block, offset + SUM, order);
    put_at(block, offset + SUM, &folded(sum), order);
    put_at(block, offset + CODE, mac, order);
    Ok(())
}

/// The message authentication code of an encrypted block.
///
/// # Errors
/// There is no trailer.
pub fn code(kind: Checksum, block: &[u8]) -> Result<[u8; MAC_SIZE], FormatError> {
    let (offset, _) = place(kind, block, None)?;
    Ok(get_at(block, offset + CODE, order_at(block, offset)?))
}

const fn folded([a, b, c, d]: [u64; 4]) -> [u64; 2] {
    [a ^ c, b ^ d]
}

/// Whether the block is the one that belongs where `verifier` says; gives its byte order.
///
/// # Errors
/// When there is no trailer or the sum is another one.
pub fn verify(kind: Checksum, block: &[u8], verifier: [u64; 4]) -> Result<ByteOrder, FormatError> {
    verify_sum(kind, block, verifier, |found, stored| found == stored)
}

/// As [`verify`], of an encrypted block. Its code takes a key to be proven.
///
/// # Errors
/// As [`verify`].
pub fn verify_encrypted(
    kind: Checksum,
    block: &[u8],
    verifier: [u64; 4],
) -> Result<ByteOrder, FormatError> {
    verify_sum(kind, block, verifier, |found, stored| {
        folded(found) == stored[..2]
    })
}

fn verify_sum(
    kind: Checksum,
    block: &[u8],
    verifier: [u64; 4],
    is_right: impl FnOnce([u64; 4], [u64; 4]) -> bool,
) -> Result<ByteOrder, FormatError> {
    let (offset, length) = place(kind, block, None)?;
    let order = order_at(block, offset)?;
    let stored: [u64; 4] = get_at(block, offset + SUM, order);
    let mut copy = summed(block, length).to_vec();
    put_at(&mut copy, offset + SUM, &verifier, order);
    let ChecksumValue(found) = checksum(kind, &copy, order, &Salt::default());
    if !is_right(found, stored) {
        return Err(FormatError::BadChecksum {
            what: "embedded checksum",
        });
    }
    Ok(order)
}

#[cfg(test)]
mod tests;
