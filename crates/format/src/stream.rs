//! The records of send streams: 312 bytes each, then a payload whose length follows from the record.
//!
//! Offsets count from the record's start, with its kind and the length of BEGIN's payload before the body and, in all
//! but BEGIN, the running checksum behind it.

use base::{Guid, ObjectId};

use crate::bits::bits;
use crate::record::{areas, record};

/// Bytes of a record.
pub const RECORD_SIZE: usize = 312;
/// The number that BEGIN has at its head.
pub const MAGIC: u64 = 0x2_f5ba_cbac;

areas! {
    /// What all records have in common.
    #[doc(alias = "dmu_replay_record_t")]
    pub struct RecordAreas [312] {
        /// Which record it is.
        #[doc(alias = "drr_type")]
        kind: u32 = 0,
        /// Bytes of BEGIN's payload; zero in all others.
        #[doc(alias = "drr_payloadlen")]
        payload_length: u32 = 4,
        /// Fletcher-4 of everything since BEGIN up to here; in BEGIN, the tail of the name.
        #[doc(alias = "drr_checksum")]
        checksum: [u64; 4] = 280,
    }
}

record! {
    /// The head of a stream, or of a package of streams.
    #[doc(alias = "drr_begin")]
    pub struct BeginRecord [312] {
        /// Bytes of the list that follows.
        #[doc(alias = "drr_payloadlen")]
        payload_length: u32 = 4,
        /// [`MAGIC`], which shows the byte order.
        #[doc(alias = "drr_magic")]
        magic: u64 = 8,
        /// [`VersionInfo`].
        #[doc(alias = "drr_versioninfo")]
        version_info: u64 = 16,
        /// When the snapshot was made, seconds.
        #[doc(alias = "drr_creation_time")]
        creation_time: u64 = 24,
        /// The kind of object set.
        #[doc(alias = "drr_type")]
        object_set_kind: u32 = 32,
        /// The `FLAG_*` of this module.
        #[doc(alias = "drr_flags")]
        flags: u32 = 36,
        /// The snapshot that is sent.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 40,
        /// The snapshot that the receiver must have; zero in a full stream.
        #[doc(alias = "drr_fromguid")]
        from_guid: Guid = 48,
        /// The name of the snapshot, padded with NUL.
        #[doc(alias = "drr_toname")]
        name: [u8; 256] = 56,
    }
}

/// `from_guid` is the origin of a clone.
pub const FLAG_CLONE: u32 = 1;
/// The file system may be case-insensitive.
pub const FLAG_CASE_INSENSITIVE: u32 = 2;
/// The stream frees everything that it does not write.
pub const FLAG_FREE_RECORDS: u32 = 4;
/// OBJECT says whether there is a spill block.
pub const FLAG_SPILL_BLOCK: u32 = 8;

bits! {
    /// What kind of head a BEGIN is, and what the stream makes use of.
    #[doc(alias = "drr_versioninfo")]
    pub struct VersionInfo [64] {
        /// 1 for a stream, 2 for a package of streams.
        header: 2 = 0,
        /// The features of the stream.
        features: 56 = 2,
    }
}

record! {
    /// A dnode; the payload is its bonus.
    #[doc(alias = "drr_object")]
    pub struct ObjectRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Its type.
        #[doc(alias = "drr_type")]
        kind: u32 = 16,
        /// The type of its bonus.
        #[doc(alias = "drr_bonustype")]
        bonus_kind: u32 = 20,
        /// Bytes of its blocks.
        #[doc(alias = "drr_blksz")]
        block_size: u32 = 24,
        /// Bytes of its bonus.
        #[doc(alias = "drr_bonuslen")]
        bonus_length: u32 = 28,
        /// The number of its checksum.
        #[doc(alias = "drr_checksumtype")]
        checksum: u8 = 32,
        /// The number of its compression.
        #[doc(alias = "drr_compress")]
        compression: u8 = 33,
        /// Slots of the dnode; 0 is 1.
        #[doc(alias = "drr_dn_slots")]
        slots: u8 = 34,
        /// [`RAW_BYTE_SWAP`] and [`OBJECT_HAS_SPILL`].
        #[doc(alias = "drr_flags")]
        flags: u8 = 35,
        /// Raw: bytes of the payload.
        #[doc(alias = "drr_raw_bonuslen")]
        raw_bonus_length: u32 = 36,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 40,
        /// Raw: the shift of its indirect blocks.
        #[doc(alias = "drr_indblkshift")]
        indirect_shift: u8 = 48,
        /// Raw: its levels.
        #[doc(alias = "drr_nlevels")]
        levels: u8 = 49,
        /// Raw: its block pointers.
        #[doc(alias = "drr_nblkptr")]
        pointers: u8 = 50,
        /// Raw: its last block.
        #[doc(alias = "drr_maxblkid")]
        max_block: u64 = 56,
    }
}

/// Of a raw stream: the block is in the order that the stream is not in.
pub const RAW_BYTE_SWAP: u8 = 2;
/// The dnode has a spill block.
pub const OBJECT_HAS_SPILL: u8 = 4;
/// The spill block did not change since the snapshot that the stream starts from.
pub const SPILL_UNMODIFIED: u8 = 4;
/// The block's checksum is good for deduplication.
pub const WRITE_DEDUP_CHECKSUM: u8 = 1;

record! {
    /// Objects that are not there.
    #[doc(alias = "drr_freeobjects")]
    pub struct FreeObjectsRecord [312] {
        /// The first.
        #[doc(alias = "drr_firstobj")]
        first: ObjectId = 8,
        /// How many.
        #[doc(alias = "drr_numobjs")]
        count: u64 = 16,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 24,
    }
}

record! {
    /// A block; the payload is its contents.
    #[doc(alias = "drr_write")]
    pub struct WriteRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Its type.
        #[doc(alias = "drr_type")]
        kind: u32 = 16,
        /// Where the block begins.
        #[doc(alias = "drr_offset")]
        offset: u64 = 24,
        /// Its bytes, decompressed.
        #[doc(alias = "drr_logical_size")]
        logical_size: u64 = 32,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 40,
        /// The number of the block's checksum.
        #[doc(alias = "drr_checksumtype")]
        checksum_kind: u8 = 48,
        /// [`WRITE_DEDUP_CHECKSUM`] and [`RAW_BYTE_SWAP`].
        #[doc(alias = "drr_flags")]
        flags: u8 = 49,
        /// The number of the payload's compression; 0 for a plain payload.
        #[doc(alias = "drr_compressiontype")]
        compression: u8 = 50,
        /// The block's checksum.
        #[doc(alias = "drr_key")]
        checksum: [u64; 4] = 56,
        /// [`BlockKey`].
        #[doc(alias = "ddk_prop")]
        key: u64 = 88,
        /// Bytes of a compressed payload.
        #[doc(alias = "drr_compressed_size")]
        compressed_size: u64 = 96,
        /// Raw: the salt.
        #[doc(alias = "drr_salt")]
        salt: [u8; 8] = 104,
        /// Raw: the initialization vector.
        #[doc(alias = "drr_iv")]
        iv: [u8; 12] = 112,
        /// Raw: the authentication code.
        #[doc(alias = "drr_mac")]
        mac: [u8; 16] = 124,
    }
}

bits! {
    /// What identifies a block beside its checksum.
    #[doc(alias = "ddk_prop")]
    pub struct BlockKey [64] {
        /// Sectors decompressed, less one.
        logical_sectors: 16 = 0,
        /// Sectors stored, less one.
        physical_sectors: 16 = 16,
        /// The number of the compression.
        compression: 7 = 32,
        /// Whether it is encrypted.
        encrypted: 1 = 39,
    }
}

record! {
    /// A range without data.
    #[doc(alias = "drr_free")]
    pub struct FreeRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Where it begins.
        #[doc(alias = "drr_offset")]
        offset: u64 = 16,
        /// Its bytes; all ones: to the end.
        #[doc(alias = "drr_length")]
        length: u64 = 24,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 32,
    }
}

record! {
    /// The end of a stream, or of a package or its head.
    #[doc(alias = "drr_end")]
    pub struct EndRecord [312] {
        /// The checksum of everything before.
        #[doc(alias = "drr_checksum")]
        checksum: [u64; 4] = 8,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 40,
    }
}

record! {
    /// A block that the stream has elsewhere: only in deduplicated streams of old.
    #[doc(alias = "drr_write_byref")]
    pub struct WriteByReferenceRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Where the block begins.
        #[doc(alias = "drr_offset")]
        offset: u64 = 16,
        /// Its bytes.
        #[doc(alias = "drr_length")]
        length: u64 = 24,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 32,
        /// The snapshot that has the block.
        #[doc(alias = "drr_refguid")]
        source_guid: Guid = 40,
        /// The object that has it.
        #[doc(alias = "drr_refobject")]
        source_object: ObjectId = 48,
        /// Where it begins there.
        #[doc(alias = "drr_refoffset")]
        source_offset: u64 = 56,
        /// The number of the block's checksum.
        #[doc(alias = "drr_checksumtype")]
        checksum_kind: u8 = 64,
        /// [`WRITE_DEDUP_CHECKSUM`].
        #[doc(alias = "drr_flags")]
        flags: u8 = 65,
        /// The block's checksum.
        #[doc(alias = "drr_key")]
        checksum: [u64; 4] = 72,
        /// [`BlockKey`].
        #[doc(alias = "ddk_prop")]
        key: u64 = 104,
    }
}

record! {
    /// A spill block; the payload is its contents.
    #[doc(alias = "drr_spill")]
    pub struct SpillRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Its bytes, decompressed.
        #[doc(alias = "drr_length")]
        length: u64 = 16,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 24,
        /// [`RAW_BYTE_SWAP`] and [`SPILL_UNMODIFIED`].
        #[doc(alias = "drr_flags")]
        flags: u8 = 32,
        /// Raw: the number of its compression.
        #[doc(alias = "drr_compressiontype")]
        compression: u8 = 33,
        /// Raw: bytes of the payload.
        #[doc(alias = "drr_compressed_size")]
        compressed_size: u64 = 40,
        /// Raw: the salt.
        #[doc(alias = "drr_salt")]
        salt: [u8; 8] = 48,
        /// Raw: the initialization vector.
        #[doc(alias = "drr_iv")]
        iv: [u8; 12] = 56,
        /// Raw: the authentication code.
        #[doc(alias = "drr_mac")]
        mac: [u8; 16] = 68,
        /// The type of the block; zero in what OpenZFS sends.
        #[doc(alias = "drr_type")]
        kind: u32 = 84,
    }
}

record! {
    /// A block whose pointer holds its contents; the payload is these, padded to eight bytes.
    #[doc(alias = "drr_write_embedded")]
    pub struct WriteEmbeddedRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Where the block begins.
        #[doc(alias = "drr_offset")]
        offset: u64 = 16,
        /// Bytes of the block.
        #[doc(alias = "drr_length")]
        length: u64 = 24,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 32,
        /// The number of the compression.
        #[doc(alias = "drr_compression")]
        compression: u8 = 40,
        /// What the pointer holds: 0 for data.
        #[doc(alias = "drr_etype")]
        embedded_kind: u8 = 41,
        /// Bytes decompressed.
        #[doc(alias = "drr_lsize")]
        logical_size: u32 = 48,
        /// Bytes of the contents.
        #[doc(alias = "drr_psize")]
        physical_size: u32 = 52,
    }
}

record! {
    /// Raw: how the block of dnodes is encrypted whose objects follow.
    #[doc(alias = "drr_object_range")]
    pub struct ObjectRangeRecord [312] {
        /// The first object.
        #[doc(alias = "drr_firstobj")]
        first: ObjectId = 8,
        /// How many slots.
        #[doc(alias = "drr_numslots")]
        slots: u64 = 16,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 24,
        /// The salt.
        #[doc(alias = "drr_salt")]
        salt: [u8; 8] = 32,
        /// The initialization vector.
        #[doc(alias = "drr_iv")]
        iv: [u8; 12] = 40,
        /// The authentication code.
        #[doc(alias = "drr_mac")]
        mac: [u8; 16] = 52,
        /// [`RAW_BYTE_SWAP`].
        #[doc(alias = "drr_flags")]
        flags: u8 = 68,
    }
}

record! {
    /// A range that was left out on purpose.
    #[doc(alias = "drr_redact")]
    pub struct RedactRecord [312] {
        /// The object.
        #[doc(alias = "drr_object")]
        object: ObjectId = 8,
        /// Where it begins.
        #[doc(alias = "drr_offset")]
        offset: u64 = 16,
        /// Its bytes.
        #[doc(alias = "drr_length")]
        length: u64 = 24,
        /// The snapshot.
        #[doc(alias = "drr_toguid")]
        to_guid: Guid = 32,
    }
}
