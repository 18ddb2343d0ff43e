//! The words of a block pointer and the bits in them.

use super::SIZE;
use crate::bits::{Bits, bits};
use crate::record::areas;
use base::Txg;

areas! {
    /// A block pointer. An embedded one keeps its payload in every word but `properties` and `logical_birth`.
    #[doc(alias = "blkptr_t")]
    pub struct BlockPointerAreas [SIZE] {
        /// Up to three addresses of two words each: [`DvaFirst`], [`DvaSecond`].
        #[doc(alias = "blk_dva")]
        addresses: [[u64; 2]; 3] = 0,
        /// See [`BlockProperties`], and [`EmbeddedProperties`] when the pointer is embedded.
        #[doc(alias = "blk_prop")]
        properties: u64 = 48,
        /// See [`BlockMoreProperties`].
        #[doc(alias = "blk_prop2")]
        more_properties: u64 = 56,
        /// Zero.
        #[doc(alias = "blk_pad")]
        pad: u64 = 64,
        /// The txg whose allocation the data lies in; 0: as `logical_birth`.
        #[doc(alias = "blk_phys_birth")]
        physical_birth: Txg = 72,
        /// The txg since which the place has this content.
        #[doc(alias = "blk_birth")]
        logical_birth: Txg = 80,
        /// How many blocks (dnodes, objects) lie below.
        #[doc(alias = "blk_fill")]
        fill: u64 = 88,
        /// The checksum.
        #[doc(alias = "blk_cksum")]
        checksum: [u64; 4] = 96,
    }
}

bits! {
    /// Sizes, numbers and flags of a block pointer.
    #[doc(alias = "blk_prop")]
    pub struct BlockProperties [64] {
        /// Logical size in sectors of 512 bytes, less 1.
        logical_size: 16 = 0,
        /// Physical size in sectors of 512 bytes, less 1.
        physical_size: 16 = 16,
        /// Compression.
        compression: 7 = 32,
        /// E: the pointer is embedded, see [`EmbeddedProperties`].
        embedded: 1 = 39,
        /// Checksum.
        checksum: 8 = 40,
        /// Type of the object.
        object_type: 8 = 48,
        /// Level: 0 is data.
        level: 5 = 56,
        /// X: the pointer uses encryption.
        encrypted: 1 = 61,
        /// D: the dedup table counts the references.
        dedup: 1 = 62,
        /// B: the block is little-endian.
        little_endian: 1 = 63,
    }
}

bits! {
    /// The same word of an embedded pointer; what is not listed is as in [`BlockProperties`].
    #[doc(alias = "blk_prop")]
    pub struct EmbeddedProperties [64] {
        /// Logical size in bytes, less 1.
        logical_size: 25 = 0,
        /// Bytes of payload, less 1.
        physical_size: 7 = 25,
        /// Compression.
        compression: 7 = 32,
        /// E: 1.
        embedded: 1 = 39,
        /// What the payload is: see [`super::EmbeddedKind`].
        kind: 8 = 40,
    }
}

bits! {
    /// More flags of a block pointer that is not embedded.
    #[doc(alias = "blk_prop2")]
    pub struct BlockMoreProperties [64] {
        /// The block was written anew by `zfs rewrite -P`: its logical birth is that of the block before.
        rewritten: 1 = 63,
    }
}

bits! {
    /// The first word of an address.
    #[doc(alias = "dva_t")]
    pub struct DvaFirst [64] {
        /// Sectors of 512 bytes allocated, with parity, padding and (gang) header.
        allocated_size: 24 = 0,
        /// The top-level vdev.
        vdev: 24 = 32,
    }
}

bits! {
    /// The second word of an address.
    #[doc(alias = "dva_t")]
    pub struct DvaSecond [64] {
        /// Sectors of 512 bytes from the first byte after the front labels and boot area.
        offset: 63 = 0,
        /// G: a gang header lies there instead of the data.
        gang: 1 = 63,
    }
}

pub(super) const PROPERTIES: usize = BlockPointerAreas::AT.properties.offset / 8;
pub(super) const MORE_PROPERTIES: usize = BlockPointerAreas::AT.more_properties.offset / 8;
pub(super) const PHYSICAL_BIRTH: usize = BlockPointerAreas::AT.physical_birth.offset / 8;
pub(super) const LOGICAL_BIRTH: usize = BlockPointerAreas::AT.logical_birth.offset / 8;
pub(super) const FILL: usize = BlockPointerAreas::AT.fill.offset / 8;
pub(super) const CHECKSUM: usize = BlockPointerAreas::AT.checksum.offset / 8;

pub(super) const LOGICAL_SIZE: Bits = BlockProperties::AT.logical_size;
pub(super) const PHYSICAL_SIZE: Bits = BlockProperties::AT.physical_size;
pub(super) const EMBEDDED_LOGICAL_SIZE: Bits = EmbeddedProperties::AT.logical_size;
pub(super) const EMBEDDED_PHYSICAL_SIZE: Bits = EmbeddedProperties::AT.physical_size;
pub(super) const EMBEDDED_KIND: Bits = EmbeddedProperties::AT.kind;
pub(super) const COMPRESSION: Bits = BlockProperties::AT.compression;
pub(super) const EMBEDDED: Bits = BlockProperties::AT.embedded;
pub(super) const CHECKSUM_KIND: Bits = BlockProperties::AT.checksum;
pub(super) const TYPE: Bits = BlockProperties::AT.object_type;
pub(super) const LEVEL: Bits = BlockProperties::AT.level;
pub(super) const ENCRYPTED: Bits = BlockProperties::AT.encrypted;
pub(super) const DEDUP: Bits = BlockProperties::AT.dedup;
pub(super) const LITTLE_ENDIAN: Bits = BlockProperties::AT.little_endian;
pub(super) const REWRITTEN: Bits = BlockMoreProperties::AT.rewritten;

pub(super) const DVA_ALLOCATED_SIZE: Bits = DvaFirst::AT.allocated_size;
pub(super) const DVA_VDEV: Bits = DvaFirst::AT.vdev;
pub(super) const DVA_OFFSET: Bits = DvaSecond::AT.offset;
pub(super) const DVA_GANG: Bits = DvaSecond::AT.gang;
