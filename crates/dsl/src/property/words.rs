//! The words of enumerated properties and the numbers stored for them.

use crypto::KeyFormat;

use super::facts::Word;
use super::row::{Row, index};
use super::typed::{PropertyType, Shape};
use super::value::PropertyValue;

/// `no` and `yes`.
pub(super) const YES_NO: &[Word] = &[("yes", 1), ("no", 0)];

/// Declares an enumerated property's type: each value with its stored number and its words, the
/// one that is shown first. The first value is the one of numbers that are none of these, where
/// the property has no default.
macro_rules! enumerated {
    ($($(#[$doc:meta])* pub enum $name:ident {
        $($(#[$value_doc:meta])* $value:ident = $number:literal: $($word:literal)|+,)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$value_doc])* $value = $number,)*
        }

        impl $name {
            /// The number that is stored for it.
            #[must_use]
            pub const fn stored(self) -> u64 {
                self as u64
            }

            const fn all() -> &'static [Self] {
                &[$(Self::$value),*]
            }

            /// The row of a property of this type that anybody may set and children inherit.
            pub(super) const fn row(
                name: &'static str,
                column: &'static str,
                default: Self,
            ) -> Row {
                index(name, column, <Self as PropertyType>::WORDS, default.stored())
            }
        }

        impl PropertyType for $name {
            const SHAPE: Shape = Shape::Index;
            const WORDS: &'static [Word] = &[$($(($word, $number),)+)*];

            fn from_stored(value: &PropertyValue) -> Option<Self> {
                let number = value.number()?;
                let found = Self::all().iter().find(|one| one.stored() == number);
                found.copied()
            }

            fn nothing() -> Self {
                Self::all()[0]
            }
        }
    )* };
}

enumerated! {
    /// `sync`: what is made durable before its transaction group is.
    pub enum SyncPolicy {
        /// What is asked for.
        Standard = 0: "standard",
        /// Every operation.
        Always = 1: "always",
        /// Nothing.
        Disabled = 2: "disabled",
    }

    /// `logbias`: what the intent log is for.
    pub enum LogBias {
        /// Short waits: small writes go into the log.
        Latency = 0: "latency",
        /// Throughput: data go where they belong at once.
        Throughput = 1: "throughput",
    }

    /// `primarycache`, `secondarycache`, `prefetch`: for which blocks.
    pub enum CachePolicy {
        /// For none.
        None = 0: "none",
        /// For metadata.
        Metadata = 1: "metadata",
        /// For all.
        All = 2: "all",
    }

    /// `xattr`: where extended attributes are kept.
    pub enum XattrPolicy {
        /// There are none.
        Off = 0: "off",
        /// In a system attribute.
        SystemAttribute = 2: "on" | "sa",
        /// In a directory.
        Directory = 1: "dir",
    }

    /// `acltype`: which lists of access control there are.
    pub enum AclType {
        /// None.
        Off = 0: "off" | "disabled" | "noacl",
        /// Those of NFS version 4.
        Nfs4 = 2: "nfsv4",
        /// Those of POSIX.
        Posix = 1: "posix" | "posixacl",
    }

    /// `aclmode`: what a change of permissions does to a list.
    pub enum AclMode {
        /// The list goes.
        Discard = 0: "discard",
        /// The group's permissions limit it.
        GroupMask = 2: "groupmask",
        /// It stays.
        PassThrough = 3: "passthrough",
        /// The change is refused.
        Restricted = 4: "restricted",
    }

    /// `aclinherit`: what of a directory's list new files have.
    pub enum AclInherit {
        /// Nothing.
        Discard = 0: "discard",
        /// What denies.
        NoAllow = 1: "noallow",
        /// All but the right to change list and owner.
        Restricted = 4: "restricted",
        /// All.
        PassThrough = 3: "passthrough",
        /// All, the right to execute if it was asked for.
        PassThroughExecute = 5: "passthrough-x",
    }

    /// `snapdir`: whether the directory of snapshots is there and seen.
    pub enum SnapshotDirectory {
        /// It is not there.
        Disabled = 2: "disabled",
        /// It is there for who knows its name.
        Hidden = 0: "hidden",
        /// It is listed.
        Visible = 1: "visible",
    }

    /// `snapdev`: whether volumes' snapshots are devices.
    pub enum SnapshotDevices {
        /// They are not.
        Hidden = 0: "hidden",
        /// They are.
        Visible = 1: "visible",
    }

    /// `redundant_metadata`: which metadata has a copy more.
    pub enum RedundantMetadata {
        /// All.
        All = 0: "all",
        /// Most.
        Most = 1: "most",
        /// Some.
        Some = 2: "some",
        /// None.
        None = 3: "none",
    }

    /// `volmode`: as what volumes are offered.
    pub enum VolumeMode {
        /// As the system is told.
        Default = 0: "default",
        /// With partitions.
        Full = 1: "full" | "geom",
        /// Without partitions.
        Device = 2: "dev",
        /// Not at all.
        None = 3: "none",
    }

    /// `canmount`: whether a file system is mounted.
    pub enum CanMount {
        /// Never.
        Off = 0: "off",
        /// When the pool is there.
        On = 1: "on",
        /// When it is asked for by name.
        NoAuto = 2: "noauto",
    }

    /// `casesensitivity`: whether names that differ in case are the same.
    pub enum CaseRule {
        /// They differ.
        Sensitive = 0: "sensitive",
        /// They are the same.
        Insensitive = 1: "insensitive",
        /// As who asks says.
        Mixed = 2: "mixed",
    }

    /// `direct`: which reads and writes go past the cache.
    pub enum DirectPolicy {
        /// None.
        Disabled = 0: "disabled",
        /// Those that ask for it.
        Standard = 1: "standard",
        /// All.
        Always = 2: "always",
    }

    /// `failmode`: what becomes of changes, and of reads of what lies there, on a pool that lost its devices.
    pub enum FailMode {
        /// They wait.
        Wait = 0: "wait",
        /// They fail.
        Continue = 1: "continue",
        /// The system stops.
        Panic = 2: "panic",
    }
}

pub(super) const CHECKSUM: &[Word] = &[
    ("on", 1),
    ("off", 2),
    ("fletcher2", 6),
    ("fletcher4", 7),
    ("sha256", 8),
    ("noparity", 10),
    ("sha512", 11),
    ("skein", 12),
    ("edonr", 13),
    ("blake3", 14),
];

const VERIFY: u64 = 256;

pub(super) const DEDUP: &[Word] = &[
    ("on", 1),
    ("off", 2),
    ("verify", 1 | VERIFY),
    ("sha256", 8),
    ("sha256,verify", 8 | VERIFY),
    ("sha512", 11),
    ("sha512,verify", 11 | VERIFY),
    ("skein", 12),
    ("skein,verify", 12 | VERIFY),
    ("edonr,verify", 13 | VERIFY),
    ("blake3", 14),
    ("blake3,verify", 14 | VERIFY),
];

/// zstd levels sit above bit 7 of the stored number; the fast ones begin at 103.
const fn zstd(level: u64) -> u64 {
    16 + (level << 7)
}

const fn zstd_fast(index: u64) -> u64 {
    zstd(103 + index)
}

pub(super) const COMPRESSION: &[Word] = &[
    ("on", 1),
    ("off", 2),
    ("lzjb", 3),
    ("gzip", 10),
    ("gzip-1", 5),
    ("gzip-2", 6),
    ("gzip-3", 7),
    ("gzip-4", 8),
    ("gzip-5", 9),
    ("gzip-6", 10),
    ("gzip-7", 11),
    ("gzip-8", 12),
    ("gzip-9", 13),
    ("zle", 14),
    ("lz4", 15),
    ("zstd", 16),
    ("zstd-fast", zstd_fast(0)),
    ("zstd-1", zstd(1)),
    ("zstd-2", zstd(2)),
    ("zstd-3", zstd(3)),
    ("zstd-4", zstd(4)),
    ("zstd-5", zstd(5)),
    ("zstd-6", zstd(6)),
    ("zstd-7", zstd(7)),
    ("zstd-8", zstd(8)),
    ("zstd-9", zstd(9)),
    ("zstd-10", zstd(10)),
    ("zstd-11", zstd(11)),
    ("zstd-12", zstd(12)),
    ("zstd-13", zstd(13)),
    ("zstd-14", zstd(14)),
    ("zstd-15", zstd(15)),
    ("zstd-16", zstd(16)),
    ("zstd-17", zstd(17)),
    ("zstd-18", zstd(18)),
    ("zstd-19", zstd(19)),
    ("zstd-fast-1", zstd_fast(0)),
    ("zstd-fast-2", zstd_fast(1)),
    ("zstd-fast-3", zstd_fast(2)),
    ("zstd-fast-4", zstd_fast(3)),
    ("zstd-fast-5", zstd_fast(4)),
    ("zstd-fast-6", zstd_fast(5)),
    ("zstd-fast-7", zstd_fast(6)),
    ("zstd-fast-8", zstd_fast(7)),
    ("zstd-fast-9", zstd_fast(8)),
    ("zstd-fast-10", zstd_fast(9)),
    ("zstd-fast-20", zstd_fast(10)),
    ("zstd-fast-30", zstd_fast(11)),
    ("zstd-fast-40", zstd_fast(12)),
    ("zstd-fast-50", zstd_fast(13)),
    ("zstd-fast-60", zstd_fast(14)),
    ("zstd-fast-70", zstd_fast(15)),
    ("zstd-fast-80", zstd_fast(16)),
    ("zstd-fast-90", zstd_fast(17)),
    ("zstd-fast-100", zstd_fast(18)),
    ("zstd-fast-500", zstd_fast(19)),
    ("zstd-fast-1000", zstd_fast(20)),
];

pub(super) const ENCRYPTION: &[Word] = &[
    ("off", 2),
    ("on", 1),
    ("aes-128-ccm", 3),
    ("aes-192-ccm", 4),
    ("aes-256-ccm", 5),
    ("aes-128-gcm", 6),
    ("aes-192-gcm", 7),
    ("aes-256-gcm", 8),
];
pub(super) const KEY_FORMAT: &[Word] = KeyFormat::WORDS;
pub(super) const KEY_STATUS: &[Word] = &[("none", 0), ("unavailable", 1), ("available", 2)];
pub(super) const DNODE_SIZE: &[Word] = &[
    ("legacy", 0),
    ("auto", 1),
    ("1k", 1024),
    ("2k", 2048),
    ("4k", 4096),
    ("8k", 8192),
    ("16k", 16384),
];
pub(super) const NORMALIZATION: &[Word] = &[
    ("none", 0),
    ("formC", 0x50),
    ("formD", 0x10),
    ("formKC", 0x60),
    ("formKD", 0x20),
];
pub(super) const COPIES: &[Word] = &[("1", 1), ("2", 2), ("3", 3)];
pub(super) const VERSION: &[Word] = &[
    ("1", 1),
    ("2", 2),
    ("3", 3),
    ("4", 4),
    ("5", 5),
    ("current", 5),
];
