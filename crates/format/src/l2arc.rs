//! Cache devices (L2ARC): what a device says of the blocks that it holds copies of.
//!
//! ```text
//! 0            4 M      4 M + one sector                         end of the last whole label but two
//! | labels, boot | header | copies of blocks and log blocks, written round and round | labels |
//! ```
//! A log block lists the copies that were written before it. It also leads to the log block written two before it, so
//! there are two chains, whose ends the header has. All of it can be lost at any time: what a copy holds is judged by
//! the checksum of the pointer that leads to its block.

use std::ops::Range;

use base::{ByteOrder, Guid, Txg};
use codec::{Checksum, ChecksumValue, Compression, Salt};

use crate::FormatError;
use crate::bits::bits;
use crate::block_pointer::{Dva, SECTOR_SHIFT};
use crate::embedded_checksum::{self, label_verifier};
use crate::label;
use crate::record::{areas, get_at, put_at, record, require};

#[cfg(test)]
mod tests;

/// The first word of a header.
pub const MAGIC: u64 = 0x5a46_5343_4143_4845;
/// The only version of headers.
pub const VERSION: u64 = 1;
/// Where the header lies: behind the labels at the front.
pub const HEADER_OFFSET: u64 = label::DATA_START;
/// Bytes of a log block before it is compressed.
pub const LOG_BLOCK_SIZE: usize = 64 << 10;
/// The first word of a log block.
pub const LOG_MAGIC: u64 = 0x4c4f_4742_4c4b_4844;
/// Copies that a log block can list.
pub const LOG_ENTRIES_MAX: u64 = 1022;
/// A device with less room than this keeps no log: what it holds is forgotten with an export.
pub const LOGGED_SIZE_MIN: u64 = 1 << 30;
/// In the flags of a header: the device was not filled to its end yet.
pub const FIRST_SWEEP: u64 = 1;
/// For each 16 MiB of room a log block lists one copy.
const LOG_ENTRIES_SHIFT: u32 = 24;
/// What the kinds of contents are stored as.
const CONTENT_DATA: u64 = 1;
const CONTENT_METADATA: u64 = 2;
/// What the states of a block in the cache of the first level are stored as: used once, or often.
const STATE_RECENT: u64 = 1;

record! {
    /// The header of a cache device, in a sector whose end has a checksum.
    #[derive(Copy)]
    #[doc(alias = "l2arc_dev_hdr_phys_t")]
    pub struct CacheHeader [232] {
        /// [`MAGIC`], in the writer's byte order.
        #[doc(alias = "dh_magic")]
        magic: u64 = 0,
        /// [`VERSION`].
        #[doc(alias = "dh_version")]
        version: u64 = 8,
        /// The pool.
        #[doc(alias = "dh_spa_guid")]
        pool: Guid = 16,
        /// The device.
        #[doc(alias = "dh_vdev_guid")]
        device: Guid = 24,
        /// Copies that each log block lists; 0: there are none.
        #[doc(alias = "dh_log_entries")]
        log_entries: u64 = 32,
        /// Up to here, from where the next copy goes, nothing is valid any more. Device bytes.
        #[doc(alias = "dh_evict")]
        evict: u64 = 40,
        /// [`FIRST_SWEEP`] or 0.
        #[doc(alias = "dh_flags")]
        flags: u64 = 48,
        /// Where the first copy can lie, device bytes.
        #[doc(alias = "dh_start")]
        start: u64 = 56,
        /// Where the last copy ends at most, device bytes.
        #[doc(alias = "dh_end")]
        end: u64 = 64,
        /// The newest log block: a [`LogPointer`].
        #[doc(alias = "dh_start_lbps")]
        newest: [u64; 8] = 72,
        /// The one before it.
        #[doc(alias = "dh_start_lbps")]
        second: [u64; 8] = 136,
        /// Bytes on the device of all log blocks together.
        #[doc(alias = "dh_lb_asize")]
        log_bytes: u64 = 200,
        /// How many log blocks there are.
        #[doc(alias = "dh_lb_count")]
        log_count: u64 = 208,
        /// When the whole device was last discarded, seconds since 1970.
        #[doc(alias = "dh_trim_action_time")]
        trim_time: u64 = 216,
        /// Whether that has ended.
        #[doc(alias = "dh_trim_state")]
        trim_state: u64 = 224,
    }
}

record! {
    /// Where a log block lies.
    #[derive(Copy)]
    #[doc(alias = "l2arc_log_blkptr_t")]
    pub struct LogPointerPhys [64] {
        /// Its device byte.
        #[doc(alias = "lbp_daddr")]
        address: u64 = 0,
        /// Bytes on the device of the copies that it lists.
        #[doc(alias = "lbp_payload_asize")]
        payload_bytes: u64 = 8,
        /// The device byte of the first of them.
        #[doc(alias = "lbp_payload_start")]
        payload_start: u64 = 16,
        /// See [`LogPointerProperties`].
        #[doc(alias = "lbp_prop")]
        properties: u64 = 24,
        /// Checksum of its bytes on the device.
        #[doc(alias = "lbp_cksum")]
        checksum: [u64; 4] = 32,
    }
}

bits! {
    /// The properties of a log block.
    #[doc(alias = "lbp_prop")]
    pub struct LogPointerProperties [64] {
        /// Bytes before compression, in units of 512, less 1.
        logical_size: 16 = 0,
        /// Bytes on the device, in units of 512, less 1.
        stored_size: 16 = 16,
        /// Compression.
        compression: 7 = 32,
        /// Checksum.
        checksum: 8 = 40,
    }
}

areas! {
    /// A log block.
    #[doc(alias = "l2arc_log_blk_phys_t")]
    pub struct LogBlockAreas [64 << 10] {
        /// [`LOG_MAGIC`], in the writer's byte order.
        #[doc(alias = "lb_magic")]
        magic: u64 = 0,
        /// The log block written two before: a [`LogPointer`].
        #[doc(alias = "lb_prev_lbp")]
        previous: [u64; 8] = 8,
        /// The copies, oldest first: each a [`CopyPhys`].
        #[doc(alias = "lb_entries")]
        entries: [u8; (64 << 10) - 128] = 128,
    }
}

record! {
    /// A copy of a block, as a log block lists it.
    #[derive(Copy)]
    #[doc(alias = "l2arc_log_ent_phys_t")]
    pub struct CopyPhys [64] {
        /// The first address of the block.
        #[doc(alias = "le_dva")]
        address: [u64; 2] = 0,
        /// When the block was written.
        #[doc(alias = "le_birth")]
        birth: Txg = 16,
        /// See [`CopyProperties`].
        #[doc(alias = "le_prop")]
        properties: u64 = 24,
        /// The device byte of the copy.
        #[doc(alias = "le_daddr")]
        place: u64 = 32,
        /// The level of Zstandard.
        #[doc(alias = "le_complevel")]
        level: u8 = 40,
    }
}

bits! {
    /// The properties of a copy.
    #[doc(alias = "le_prop")]
    pub struct CopyProperties [64] {
        /// Logical size in units of 512 bytes, less 1.
        logical_size: 16 = 0,
        /// Physical size in units of 512 bytes, less 1.
        physical_size: 16 = 16,
        /// Compression.
        compression: 7 = 32,
        /// Whether it was read ahead.
        prefetched: 1 = 39,
        /// Not used.
        checksum: 8 = 40,
        /// 1 data, 2 metadata.
        content: 8 = 48,
        /// Whether the block is encrypted.
        encrypted: 1 = 56,
        /// What the first level made of it: 1 used once, 3 often.
        state: 4 = 57,
    }
}

/// The room of a cache device for copies, in device bytes: none if it has none.
#[must_use]
pub fn room(device_size: u64, ashift: u32) -> Option<Range<u64>> {
    let header = header_size(ashift) as u64;
    let end = label::usable_device_size(device_size).checked_sub(2 * label::SIZE)?;
    let start = HEADER_OFFSET + header;
    (start < end).then_some(start..end)
}

/// Bytes of the header: a sector.
#[must_use]
pub const fn header_size(ashift: u32) -> usize {
    let shift = if ashift > *label::ASHIFT_RANGE.end() {
        *label::ASHIFT_RANGE.end()
    } else if ashift < *label::ASHIFT_RANGE.start() {
        *label::ASHIFT_RANGE.start()
    } else {
        ashift
    };
    1 << shift
}

/// How many copies each log block of a device lists, by its room.
#[must_use]
pub const fn log_entries(room: &Range<u64>) -> u64 {
    let bytes = room.end.saturating_sub(room.start);
    let fitting = bytes >> LOG_ENTRIES_SHIFT;
    if room.end < LOGGED_SIZE_MIN {
        0
    } else if fitting < LOG_ENTRIES_MAX {
        fitting
    } else {
        LOG_ENTRIES_MAX
    }
}

impl CacheHeader {
    /// Reads the sector of a header.
    ///
    /// # Errors
    /// Its checksum is wrong, or it is of another byte order, or none.
    pub fn open(sector: &[u8]) -> Result<Self, FormatError> {
        let verifier = label_verifier(HEADER_OFFSET);
        embedded_checksum::verify(Checksum::Label, sector, verifier)?;
        let header = Self::decode(sector, ByteOrder::NATIVE)?;
        if header.magic != MAGIC {
            return Err(FormatError::BadMagic {
                what: "header of a cache device",
                found: header.magic,
            });
        }
        if header.version != VERSION {
            return Err(invalid("version", header.version));
        }
        Ok(header)
    }

    /// The sector of a header.
    ///
    /// # Errors
    /// There is no such sector size.
    pub fn seal(&self, ashift: u32) -> Result<Vec<u8>, FormatError> {
        let mut sector = vec![0; header_size(ashift)];
        self.encode(&mut sector, ByteOrder::NATIVE);
        let verifier = label_verifier(HEADER_OFFSET);
        embedded_checksum::seal(Checksum::Label, &mut sector, verifier)?;
        Ok(sector)
    }
}

const fn invalid(field: &'static str, value: u64) -> FormatError {
    FormatError::Invalid {
        what: "header of a cache device",
        field,
        value,
    }
}

/// Where a log block lies, and what it lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogPointer {
    /// Its device byte.
    pub address: u64,
    /// Its bytes on the device.
    pub stored_size: u64,
    /// Bytes on the device of the copies that it lists.
    pub payload_bytes: u64,
    /// The device byte of the first of them.
    pub payload_start: u64,
    /// Its compression.
    pub compression: Compression,
    /// Fletcher4 of its bytes on the device.
    pub checksum: ChecksumValue,
}

impl LogPointer {
    /// Reads one; none if it leads nowhere.
    #[must_use]
    pub fn from_words(words: [u64; 8]) -> Option<Self> {
        let [address, payload_bytes, payload_start, properties, sum @ ..] = words;
        let at = LogPointerProperties::AT;
        let size = |field: u64| (field + 1) << SECTOR_SHIFT;
        let logical_size = size(at.logical_size.get(properties));
        let stored_size = size(at.stored_size.get(properties));
        let is_log = logical_size == LOG_BLOCK_SIZE as u64 && stored_size <= logical_size;
        let checksum = Checksum::from_id(at.checksum.get_u8(properties));
        if address == 0 || !is_log || checksum != Ok(Checksum::Fletcher4) {
            return None;
        }
        Some(Self {
            address,
            stored_size,
            payload_bytes,
            payload_start,
            compression: Compression::from_id(at.compression.get_u8(properties)).ok()?,
            checksum: ChecksumValue(sum),
        })
    }

    /// The words on disk.
    #[must_use]
    pub fn to_words(&self) -> [u64; 8] {
        let at = LogPointerProperties::AT;
        let units = |bytes: u64| (bytes >> SECTOR_SHIFT).saturating_sub(1);
        let word = at.logical_size.set(0, units(LOG_BLOCK_SIZE as u64));
        let word = at.stored_size.set(word, units(self.stored_size));
        let word = at.compression.set(word, u64::from(self.compression.id()));
        let word = at.checksum.set(word, u64::from(Checksum::Fletcher4.id()));
        let [a, b, c, d] = self.checksum.0;
        let [address, bytes, start] = [self.address, self.payload_bytes, self.payload_start];
        [address, bytes, start, word, a, b, c, d]
    }

    /// What the device has of it, from the first copy to its own end.
    #[must_use]
    pub fn span(&self) -> Option<Range<u64>> {
        let end = self.address.checked_add(self.stored_size)?;
        (self.payload_start <= self.address).then_some(self.payload_start..end)
    }
}

/// A copy of a block on a cache device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyEntry {
    /// The first address of the block.
    pub address: Dva,
    /// When the block was written.
    pub birth: Txg,
    /// Bytes of its content.
    pub logical_size: u64,
    /// Bytes as it is stored.
    pub physical_size: u64,
    /// The device byte of the copy.
    pub place: u64,
    /// The number of the block's compression.
    pub compression: u8,
    /// Whether it is metadata.
    pub is_metadata: bool,
    /// Whether the block is encrypted.
    pub is_encrypted: bool,
    /// Whether it was read ahead.
    pub is_prefetched: bool,
}

impl CopyEntry {
    fn decode(bytes: &[u8]) -> Option<Self> {
        let phys = CopyPhys::decode_padded(bytes, ByteOrder::NATIVE);
        let at = CopyProperties::AT;
        let word = phys.properties;
        let size = |field: u64| (field + 1) << SECTOR_SHIFT;
        Some(Self {
            address: Dva::from_words(phys.address)?,
            birth: phys.birth,
            logical_size: size(at.logical_size.get(word)),
            physical_size: size(at.physical_size.get(word)),
            place: phys.place,
            compression: at.compression.get_u8(word),
            is_metadata: at.content.get(word) == CONTENT_METADATA,
            is_encrypted: at.encrypted.get(word) != 0,
            is_prefetched: at.prefetched.get(word) != 0,
        })
    }

    fn encode(&self, bytes: &mut [u8]) {
        let at = CopyProperties::AT;
        let units = |bytes: u64| (bytes >> SECTOR_SHIFT).saturating_sub(1);
        let content = match self.is_metadata {
            true => CONTENT_METADATA,
            false => CONTENT_DATA,
        };
        let word = at.logical_size.set(0, units(self.logical_size));
        let word = at.physical_size.set(word, units(self.physical_size));
        let word = at.compression.set(word, u64::from(self.compression));
        let word = at.prefetched.set(word, u64::from(self.is_prefetched));
        let word = at.content.set(word, content);
        let word = at.encrypted.set(word, u64::from(self.is_encrypted));
        let phys = CopyPhys {
            address: self.address.to_words(),
            birth: self.birth,
            properties: at.state.set(word, STATE_RECENT),
            place: self.place,
            level: 0,
        };
        phys.encode(bytes, ByteOrder::NATIVE);
    }
}

/// A log block's content: copies, oldest first, and what it leads to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogBlock {
    /// The log block written two before.
    pub previous: Option<LogPointer>,
    /// The copies.
    pub copies: Vec<CopyEntry>,
}

impl LogBlock {
    /// Reads the bytes of a log block as they are on the device, of which the first `entries` count.
    ///
    /// # Errors
    /// Its checksum is wrong, or it is none.
    pub fn open(pointer: &LogPointer, stored: &[u8], entries: u64) -> Result<Self, FormatError> {
        let sum = codec::checksum(
            Checksum::Fletcher4,
            stored,
            ByteOrder::NATIVE,
            &Salt::default(),
        );
        if sum != pointer.checksum {
            return Err(FormatError::Invalid {
                what: "log block of a cache device",
                field: "checksum",
                value: pointer.address,
            });
        }
        let mut bytes = vec![0; LOG_BLOCK_SIZE];
        codec::decompress(pointer.compression, stored, &mut bytes).map_err(|_| {
            FormatError::Invalid {
                what: "log block of a cache device",
                field: "compressed content",
                value: pointer.address,
            }
        })?;
        let magic: u64 = get_at(&bytes, LogBlockAreas::AT.magic.offset, ByteOrder::NATIVE);
        if magic != LOG_MAGIC {
            return Err(FormatError::BadMagic {
                what: "log block of a cache device",
                found: magic,
            });
        }
        let previous = get_at(&bytes, LogBlockAreas::AT.previous.offset, ByteOrder::NATIVE);
        let count = usize::try_from(entries.min(LOG_ENTRIES_MAX)).unwrap_or_default();
        let body = bytes.get(LogBlockAreas::AT.entries.offset..);
        let listed = body.unwrap_or_default().chunks_exact(CopyPhys::SIZE);
        Ok(Self {
            previous: LogPointer::from_words(previous),
            copies: listed.take(count).filter_map(CopyEntry::decode).collect(),
        })
    }

    /// The bytes of a log block, compressed where that pays, in whole sectors; and the compression.
    ///
    /// # Errors
    /// It has more copies than fit.
    pub fn seal(&self, ashift: u32) -> Result<(Vec<u8>, Compression), FormatError> {
        let mut bytes = vec![0; LOG_BLOCK_SIZE];
        let order = ByteOrder::NATIVE;
        put_at(
            &mut bytes,
            LogBlockAreas::AT.magic.offset,
            &LOG_MAGIC,
            order,
        );
        let previous = self.previous.map_or([0; 8], |pointer| pointer.to_words());
        put_at(
            &mut bytes,
            LogBlockAreas::AT.previous.offset,
            &previous,
            order,
        );
        let start = LogBlockAreas::AT.entries.offset;
        let body = bytes.get_mut(start..).unwrap_or_default();
        require(
            "log block of a cache device",
            body,
            self.copies.len() * CopyPhys::SIZE,
        )?;
        for (copy, place) in self
            .copies
            .iter()
            .zip(body.chunks_exact_mut(CopyPhys::SIZE))
        {
            copy.encode(place);
        }
        let sector = header_size(ashift);
        let mut packed = vec![0; LOG_BLOCK_SIZE - sector];
        let Some(length) = codec::compress(Compression::Lz4, &bytes, &mut packed) else {
            return Ok((bytes, Compression::Off));
        };
        packed.truncate(length);
        packed.resize(length.next_multiple_of(sector), 0);
        Ok((packed, Compression::Lz4))
    }
}
