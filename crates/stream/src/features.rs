//! What a stream makes use of, so that a receiver that does not know it refuses.

use bitflags::bitflags;
use format::stream::VersionInfo;

bitflags! {
    /// Features of a stream. Those without a name nobody knows.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Features: u64 {
        /// Blocks by reference: nobody makes or reads it any more.
        const DEDUP = 1;
        /// Spill blocks.
        const SA_SPILL = 1 << 2;
        /// Blocks inside of pointers.
        const EMBED_DATA = 1 << 16;
        /// Blocks compressed by lz4.
        const LZ4 = 1 << 17;
        /// Blocks of more than 128 KiB.
        const LARGE_BLOCKS = 1 << 19;
        /// The rest of a stream of which a part was received.
        const RESUMING = 1 << 20;
        /// Ranges are left out on purpose.
        const REDACTED = 1 << 21;
        /// Compressed blocks.
        const COMPRESSED = 1 << 22;
        /// Dnodes of more than one slot.
        const LARGE_DNODE = 1 << 23;
        /// Blocks as they are encrypted.
        const RAW = 1 << 24;
        /// Blocks compressed by zstd.
        const ZSTD = 1 << 25;
        /// A package with holds.
        const HOLDS = 1 << 26;
        /// Sent so that blocks of more than 128 KiB follow blocks that were cut.
        const SWITCH_TO_LARGE_BLOCKS = 1 << 27;
        /// Names of more than 255 bytes.
        const LONG_NAME = 1 << 28;
        /// Microzaps of more than 128 KiB.
        const LARGE_MICROZAP = 1 << 29;
        const _ = !0;
    }
}

impl Features {
    /// All that a receiver may know.
    pub const KNOWN: Self = Self::SA_SPILL
        .union(Self::EMBED_DATA)
        .union(Self::LZ4)
        .union(Self::LARGE_BLOCKS)
        .union(Self::RESUMING)
        .union(Self::REDACTED)
        .union(Self::COMPRESSED)
        .union(Self::LARGE_DNODE)
        .union(Self::RAW)
        .union(Self::ZSTD)
        .union(Self::HOLDS)
        .union(Self::SWITCH_TO_LARGE_BLOCKS)
        .union(Self::LONG_NAME)
        .union(Self::LARGE_MICROZAP);

    /// The features in BEGIN's word.
    #[must_use]
    pub const fn of(version_info: u64) -> Self {
        Self::from_bits_retain(VersionInfo::AT.features.get(version_info))
    }

    /// With others, when there is reason.
    #[must_use]
    pub const fn with_if(self, other: Self, reason: bool) -> Self {
        if reason { self.union(other) } else { self }
    }

    /// Those that nobody knows.
    #[must_use]
    pub const fn unknown(self) -> Self {
        self.difference(Self::KNOWN)
    }
}
