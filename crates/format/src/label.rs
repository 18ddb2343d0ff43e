//! The four labels of a leaf: where they lie, what they hold, and their uberblock rings.
//!
//! ```text
//! 0        256 K     512 K          4 M                    size-512 K  size-256 K
//! | label 0 | label 1 | boot (3.5 M) | allocatable space … | label 2   | label 3 |
//! label: 8 K blank | 8 K boot environment | 112 K configuration | 128 K uberblock ring
//! ```
//! Every piece carries its own embedded checksum, whose verifier is the piece's device offset.

use base::{ByteOrder, Txg};
use codec::Checksum;

use crate::FormatError;
use crate::embedded_checksum::{self, label_verifier};
use crate::nvlist::{NvList, decode_xdr, encode_xdr};
use crate::record::areas;
use crate::uberblock::Uberblock;

areas! {
    /// A label. Each piece but the blank one ends in its own embedded checksum.
    #[doc(alias = "vdev_label_t")]
    pub struct LabelAreas [256 << 10] {
        /// For partition tables and boot loaders of others; never written.
        #[doc(alias = "vl_pad1")]
        blank: [u8; 8 << 10] = 0,
        /// The boot environment.
        #[doc(alias = "vl_be")]
        boot_environment: [u8; 8 << 10] = 8 << 10,
        /// The configuration: a packed list (XDR).
        #[doc(alias = "vl_vdev_phys")]
        config: [u8; 112 << 10] = 16 << 10,
        /// The uberblocks, in slots of 1 to 8 KiB by the sector size.
        #[doc(alias = "vl_uberblock")]
        ring: [u8; 128 << 10] = 128 << 10,
    }
}

/// Bytes of a label.
pub const SIZE: u64 = LabelAreas::SIZE as u64;
/// How many labels a leaf has.
pub const COUNT: usize = 4;
/// Where the boot environment lies in a label.
pub const BOOT_ENVIRONMENT_OFFSET: u64 = LabelAreas::AT.boot_environment.offset as u64;
/// Its size.
pub const BOOT_ENVIRONMENT_SIZE: usize = LabelAreas::AT.boot_environment.width();
/// Where the configuration lies in a label.
pub const CONFIG_OFFSET: u64 = LabelAreas::AT.config.offset as u64;
/// Its size.
pub const CONFIG_SIZE: usize = LabelAreas::AT.config.width();
/// Where the uberblock ring lies in a label.
pub const RING_OFFSET: u64 = LabelAreas::AT.ring.offset as u64;
/// Its size.
pub const RING_SIZE: usize = LabelAreas::AT.ring.width();
/// Where allocatable space starts: device byte of offset 0 of a block address.
pub const DATA_START: u64 = 4 << 20;
/// Where the boot area starts, which ends at [`DATA_START`]. The beginning of a RAID-Z vdev goes through it when it
/// gets another child.
pub const BOOT_START: u64 = 2 * SIZE;
/// What both ends of a leaf take together.
pub const RESERVED: u64 = DATA_START + 2 * SIZE;
/// The smallest device.
pub const DEVICE_SIZE_MIN: u64 = 64 << 20;
/// The smallest and largest sector sizes, as powers of two.
pub const ASHIFT_RANGE: std::ops::RangeInclusive<u32> = 9..=16;

/// A pool's or device's state in a label.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolState {
    /// In use, or never exported.
    Active,
    /// Exported: any host may import it.
    Exported,
    /// Destroyed: listed only when asked for.
    Destroyed,
    /// A hot spare of some pool.
    Spare,
    /// A cache device of some pool.
    Cache,
}

impl PoolState {
    /// The state of a number.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Active,
            1 => Self::Exported,
            2 => Self::Destroyed,
            3 => Self::Spare,
            4 => Self::Cache,
            _ => return None,
        })
    }

    /// The number on disk.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::Active => 0,
            Self::Exported => 1,
            Self::Destroyed => 2,
            Self::Spare => 3,
            Self::Cache => 4,
        }
    }
}

/// The part of a device that counts: whole labels only.
#[must_use]
pub const fn usable_device_size(device_size: u64) -> u64 {
    device_size - device_size % SIZE
}

/// Allocatable bytes of a leaf; 0 when the device is too small.
#[must_use]
pub const fn leaf_asize(device_size: u64) -> u64 {
    usable_device_size(device_size).saturating_sub(RESERVED)
}

/// Device offset of a label; `None` when the device is too small to hold four.
#[must_use]
pub fn offset(device_size: u64, label: usize) -> Option<u64> {
    let size = usable_device_size(device_size);
    if size < RESERVED || label >= COUNT {
        return None;
    }
    let index = label as u64;
    Some(if label < 2 {
        index * SIZE
    } else {
        size - (4 - index) * SIZE
    })
}

/// log2 of an uberblock slot on a vdev of this sector size.
#[must_use]
pub const fn slot_shift(ashift: u32) -> u32 {
    match ashift {
        0..=10 => 10,
        11 | 12 => ashift,
        _ => 13,
    }
}

/// Slots in a ring.
#[must_use]
pub const fn slot_count(ashift: u32) -> u64 {
    RING_SIZE as u64 >> slot_shift(ashift)
}

/// The slot that a txg's uberblock goes to; multihost protection keeps the last one to itself.
#[must_use]
pub const fn slot_of(txg: Txg, ashift: u32, multihost: bool) -> u64 {
    txg.0 % (slot_count(ashift) - multihost as u64)
}

/// Offset of a slot in its label.
#[must_use]
pub const fn slot_offset(slot: u64, ashift: u32) -> u64 {
    RING_OFFSET + (slot << slot_shift(ashift))
}

/// Reads a configuration piece that was read from `device_offset`.
///
/// # Errors
/// When the checksum or the list is bad.
pub fn decode_config(piece: &[u8], device_offset: u64) -> Result<NvList, FormatError> {
    verify(piece, device_offset)?;
    decode_xdr(piece)
}

/// The configuration piece to write at `device_offset`.
///
/// # Errors
/// When the list is longer than a label's room for it.
pub fn encode_config(config: &NvList, device_offset: u64) -> Result<Vec<u8>, FormatError> {
    let list = encode_xdr(config);
    let room = CONFIG_SIZE - embedded_checksum::SIZE;
    let mut piece = vec![0; CONFIG_SIZE];
    match piece.get_mut(..list.len()) {
        Some(head) if list.len() <= room => head.copy_from_slice(&list),
        _ => {
            return Err(FormatError::NoRoom {
                what: "label configuration",
                needed: list.len(),
                available: room,
            });
        }
    }
    seal(&mut piece, device_offset)?;
    Ok(piece)
}

/// Reads an uberblock slot that was read from `device_offset`.
///
/// # Errors
/// When the slot is empty or damaged: bad magic or checksum.
pub fn decode_uberblock(slot: &[u8], device_offset: u64) -> Result<Uberblock, FormatError> {
    let uberblock = Uberblock::read(slot)?;
    verify(slot, device_offset)?;
    Ok(uberblock)
}

/// The slot to write at `device_offset`.
#[must_use]
pub fn encode_uberblock(uberblock: &Uberblock, ashift: u32, device_offset: u64) -> Vec<u8> {
    let mut slot = vec![0; 1 << slot_shift(ashift)];
    uberblock.write(&mut slot);
    // A slot is at least 1 KiB, so that there is room for the trailer.
    let _ = seal(&mut slot, device_offset);
    slot
}

/// A fresh ring to write at `device_offset`: the current uberblock as of txg 0, sealed as one
/// piece, so that no slot of it counts.
#[must_use]
pub fn blank_ring(current: &Uberblock, device_offset: u64) -> Vec<u8> {
    let mut ring = vec![0; RING_SIZE];
    let mut blank = *current;
    blank.txg = Txg(0);
    blank.write(&mut ring);
    let _ = seal(&mut ring, device_offset);
    ring
}

/// An empty boot environment to write at `device_offset`.
#[must_use]
pub fn blank_boot_environment(device_offset: u64) -> Vec<u8> {
    let mut piece = vec![0; BOOT_ENVIRONMENT_SIZE];
    let _ = seal(&mut piece, device_offset);
    piece
}

/// Seals any piece that goes to `device_offset`.
///
/// # Errors
/// When the piece has no room for the trailer.
pub fn seal(piece: &mut [u8], device_offset: u64) -> Result<(), FormatError> {
    embedded_checksum::seal(Checksum::Label, piece, label_verifier(device_offset))
}

/// Verifies any piece that was read from `device_offset`; gives its byte order.
///
/// # Errors
/// When the piece is not what was sealed for this place.
pub fn verify(piece: &[u8], device_offset: u64) -> Result<ByteOrder, FormatError> {
    embedded_checksum::verify(Checksum::Label, piece, label_verifier(device_offset))
}

#[cfg(test)]
mod tests;
