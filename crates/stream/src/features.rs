//! What a stream makes use of, so that a receiver that does not know it refuses.

use format::stream::VersionInfo;

/// Features of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Features(pub u64);

impl Features {
    /// None.
    pub const NONE: Self = Self(0);
    /// Blocks by reference: nobody makes or reads it any more.
    pub const DEDUP: Self = Self(1);
    /// Spill blocks.
    pub const SA_SPILL: Self = Self(1 << 2);
    /// Blocks inside of pointers.
    pub const EMBED_DATA: Self = Self(1 << 16);
    /// Blocks compressed by lz4.
    pub const LZ4: Self = Self(1 << 17);
    /// Blocks of more than 128 KiB.
    pub const LARGE_BLOCKS: Self = Self(1 << 19);
    /// The rest of a stream of which a part was received.
    pub const RESUMING: Self = Self(1 << 20);
    /// Ranges are left out on purpose.
    pub const REDACTED: Self = Self(1 << 21);
    /// Compressed blocks.
    pub const COMPRESSED: Self = Self(1 << 22);
    /// Dnodes of more than one slot.
    pub const LARGE_DNODE: Self = Self(1 << 23);
    /// Blocks as they are encrypted.
    pub const RAW: Self = Self(1 << 24);
    /// Blocks compressed by zstd.
    pub const ZSTD: Self = Self(1 << 25);
    /// A package with holds.
    pub const HOLDS: Self = Self(1 << 26);
    /// Sent so that blocks of more than 128 KiB follow blocks that were cut.
    pub const SWITCH_TO_LARGE_BLOCKS: Self = Self(1 << 27);
    /// Names of more than 255 bytes.
    pub const LONG_NAME: Self = Self(1 << 28);
    /// Microzaps of more than 128 KiB.
    pub const LARGE_MICROZAP: Self = Self(1 << 29);

    /// All that a receiver may know.
    pub const KNOWN: Self = Self(
        Self::SA_SPILL.0
            | Self::EMBED_DATA.0
            | Self::LZ4.0
            | Self::LARGE_BLOCKS.0
            | Self::RESUMING.0
            | Self::REDACTED.0
            | Self::COMPRESSED.0
            | Self::LARGE_DNODE.0
            | Self::RAW.0
            | Self::ZSTD.0
            | Self::HOLDS.0
            | Self::SWITCH_TO_LARGE_BLOCKS.0
            | Self::LONG_NAME.0
            | Self::LARGE_MICROZAP.0,
    );

    /// The features in BEGIN's word.
    #[must_use]
    pub const fn of(version_info: u64) -> Self {
        Self(VersionInfo::AT.features.get(version_info))
    }

    /// Whether all of `other` are among them.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With others, when there is reason.
    #[must_use]
    pub const fn with_if(self, other: Self, reason: bool) -> Self {
        if reason { self.with(other) } else { self }
    }

    /// With others.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that nobody knows.
    #[must_use]
    pub const fn unknown(self) -> Self {
        Self(self.0 & !Self::KNOWN.0)
    }
}
