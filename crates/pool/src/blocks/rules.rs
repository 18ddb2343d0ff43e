//! Which compression, checksum and how many copies a block gets.
//!
//! Source: the behaviour notes on the write pipeline; real pools show the same in their block pointers.

use codec::{Checksum, Compression, ZstdLevel};
use dmu::BlockKind;
use dsl::StoragePolicy;
use dsl::property::RedundantMetadata;
use format::{ObjectType, version};
use pipeline::{AllocationClass, DedupMode, WritePolicy};

/// The rules of an object set: its effective properties, as far as writing goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WriteRules {
    /// The property compression, as stored (1 on, 2 off, 3 lzjb, …).
    pub(crate) compression: u64,
    /// The property checksum, as stored (1 on, 2 off, 6 fletcher2, …).
    pub(crate) checksum: u64,
    /// The property copies, 1 to 3.
    pub(crate) copies: u8,
    /// The property redundant_metadata.
    pub(crate) redundant_metadata: RedundantMetadata,
    /// The property dedup, as stored (2 off, else a checksum, plus 256 to verify).
    pub(crate) dedup: u64,
    /// The property `special_small_blocks`: file blocks up to so many bytes, as stored, go to special devices.
    pub(crate) small_max: u64,
    /// Whether all blocks are encrypted, or at least proven by the dataset's key.
    pub(crate) encrypt: bool,
    /// Whether this is the pool's own object set: three copies of everything.
    pub(crate) is_meta: bool,
    /// Whether the feature lz4_compress is active; lzjb serves otherwise.
    pub(crate) has_lz4: bool,
    /// Whether the feature embedded_data is active.
    pub(crate) may_embed: bool,
    /// The most copies that the pool makes of a block: 3, or 1 in version 1.
    pub(crate) copies_max: u8,
}

const ON: u64 = 1;
const OFF: u64 = 2;
/// In the property dedup: what has the same checksum is compared.
const VERIFY: u64 = 256;
/// From this level on, `max` keeps one more copy.
const LEVEL_MAX: u8 = 2;

/// The most copies that a pool of a version makes of a block.
pub(crate) const fn copies_max(known: u64) -> u8 {
    if known < version::COPIES { 1 } else { 3 }
}

impl WriteRules {
    /// The rules of the pool's own object set.
    #[must_use]
    pub(crate) const fn meta(has_lz4: bool, may_embed: bool, copies_max: u8) -> Self {
        Self {
            compression: ON,
            checksum: ON,
            copies: copies_max,
            redundant_metadata: RedundantMetadata::All,
            dedup: OFF,
            small_max: 0,
            encrypt: false,
            is_meta: true,
            has_lz4,
            may_embed,
            copies_max,
        }
    }

    /// The rules of a dataset with these effective properties.
    #[must_use]
    pub(crate) fn dataset(policy: &StoragePolicy, meta: Self) -> Self {
        Self {
            compression: policy.compression,
            checksum: policy.checksum,
            copies: u8::try_from(policy.copies).unwrap_or(1).clamp(1, 3),
            redundant_metadata: policy.redundant_metadata,
            dedup: policy.dedup,
            small_max: policy.special_small_blocks,
            encrypt: policy.encrypted,
            is_meta: false,
            ..meta
        }
    }

    /// Whether data get checksums where their object says nothing else.
    #[must_use]
    pub(crate) fn has_checksums(&self) -> bool {
        !checksum(self.checksum).is_off()
    }

    /// How a block of that kind is written.
    #[must_use]
    pub(crate) fn policy(&self, kind: &BlockKind) -> WritePolicy {
        let metadata = is_metadata(kind);
        let compression = self.compression_of(kind, metadata);
        let (dedup, counted) = self.dedup_of(metadata);
        let checksum = counted.unwrap_or_else(|| self.checksum_of(kind, metadata));
        let copies = self.copies_of(kind, metadata);
        WritePolicy {
            compression,
            checksum,
            copies,
            gang_copies: self.gang_copies_of(kind, metadata).max(copies),
            embed: self.may_embed && (kind.level == 0) && kind.object_type.may_embed(),
            zero_detect: compression != Compression::Off || counted.is_some(),
            nopwrite: !metadata
                && counted.is_none()
                && checksum.is_nopwrite_safe()
                && compression != Compression::Off,
            dedup,
            // Where there are no such vdevs, or they are full, the normal ones serve.
            class: if kind.object_type == ObjectType::DDT_ZAP {
                AllocationClass::Dedup
            } else if metadata || self.is_meta {
                AllocationClass::Special
            } else {
                AllocationClass::Normal
            },
            small_max: if kind.object_type == ObjectType::PLAIN_FILE && !metadata {
                self.small_max
            } else {
                0
            },
            encrypt: self.encrypt,
        }
    }

    fn compression_of(&self, kind: &BlockKind, metadata: bool) -> Compression {
        let default = if self.has_lz4 {
            Compression::Lz4
        } else {
            Compression::Lzjb
        };
        if metadata {
            return default;
        }
        let chosen = if kind.compress == 0 {
            self.compression
        } else {
            u64::from(kind.compress)
        };
        compression(chosen).unwrap_or(default)
    }

    fn checksum_of(&self, kind: &BlockKind, metadata: bool) -> Checksum {
        let chosen = if kind.checksum == 0 || metadata {
            self.checksum
        } else {
            kind.checksum.into()
        };
        let chosen = checksum(chosen);
        if metadata && !chosen.is_metadata_safe() {
            Checksum::Fletcher4
        } else {
            chosen
        }
    }

    /// Whether a block is looked for in a dedup table, and the checksum by which it is.
    fn dedup_of(&self, metadata: bool) -> (DedupMode, Option<Checksum>) {
        if metadata || self.is_meta || self.dedup == OFF || self.dedup == 0 {
            return (DedupMode::Off, None);
        }
        let kind = match self.dedup & !VERIFY {
            ON => Checksum::Sha256,
            other => checksum(other),
        };
        if !kind.is_nopwrite_safe() {
            return (DedupMode::Off, None);
        }
        let mode = if self.dedup & VERIFY != 0 || !kind.is_dedup_safe() {
            DedupMode::Verify
        } else {
            DedupMode::Trust
        };
        (mode, Some(kind))
    }

    fn copies_of(&self, kind: &BlockKind, metadata: bool) -> u8 {
        if self.is_meta {
            return self.copies_max;
        }
        let critical = kind.object_type.is_critical_metadata(kind.level);
        let typed = kind.object_type.is_metadata() || kind.spill;
        let more = match self.redundant_metadata {
            RedundantMetadata::All => metadata,
            RedundantMetadata::Most => metadata && (kind.level >= LEVEL_MAX || typed),
            RedundantMetadata::Some => metadata && critical,
            RedundantMetadata::None => false,
        };
        (self.copies + u8::from(more)).clamp(1, self.copies_max)
    }

    fn gang_copies_of(&self, kind: &BlockKind, metadata: bool) -> u8 {
        let typed = kind.object_type.is_metadata() || kind.spill;
        let more = match self.redundant_metadata {
            RedundantMetadata::All => true,
            RedundantMetadata::Most => metadata && (kind.level >= 1 || typed),
            RedundantMetadata::Some => typed,
            RedundantMetadata::None => false,
        };
        (self.copies + u8::from(more)).clamp(1, self.copies_max)
    }
}

/// Metadata: indirect blocks, blocks of metadata objects, spill blocks.
fn is_metadata(kind: &BlockKind) -> bool {
    kind.level > 0 || kind.object_type.is_metadata() || kind.spill
}

/// The compression that a property value names; none for "on" and for what is unknown.
#[must_use]
pub(crate) fn compression(value: u64) -> Option<Compression> {
    const ZSTD: u64 = 16;
    let algorithm = u8::try_from(value & 0x7F).ok()?;
    match value {
        0 | ON => None,
        _ if u64::from(algorithm) == ZSTD => {
            let code = u8::try_from(value >> 7).unwrap_or(0);
            let level = ZstdLevel::from_code(code).unwrap_or(ZstdLevel::DEFAULT);
            Some(Compression::Zstd(level))
        }
        _ => Compression::from_id(algorithm).ok(),
    }
}

/// The checksum that a property value names; fletcher4 for "on" and for what is unknown.
#[must_use]
pub(crate) fn checksum(value: u64) -> Checksum {
    let known = u8::try_from(value & 0xFF)
        .ok()
        .and_then(|id| Checksum::from_id(id).ok());
    known
        .filter(|found| value > ON && !found.is_embedded())
        .unwrap_or(Checksum::Fletcher4)
}

#[cfg(test)]
mod tests;
