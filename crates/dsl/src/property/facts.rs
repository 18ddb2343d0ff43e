//! What rows say of properties, as types of their own.

use bitflags::bitflags;
use format::features::Feature;

bitflags! {
    /// Kinds of dataset, as a set.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
    pub struct Types: u8 {
        /// File systems.
        const FILESYSTEM = 1;
        /// Volumes.
        const VOLUME = 2;
        /// Snapshots.
        const SNAPSHOT = 4;
        /// Bookmarks.
        const BOOKMARK = 8;
        /// File systems and volumes.
        const HEADS = Self::FILESYSTEM.bits() | Self::VOLUME.bits();
        /// Everything.
        const ALL = Self::HEADS.bits() | Self::SNAPSHOT.bits() | Self::BOOKMARK.bits();
    }
}

impl Types {
    /// The kind that a word of `-t` names.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "filesystem" | "fs" => Self::FILESYSTEM,
            "volume" | "vol" => Self::VOLUME,
            "snapshot" | "snap" => Self::SNAPSHOT,
            "bookmark" => Self::BOOKMARK,
            "all" => Self::ALL,
            _ => return None,
        })
    }

    /// The word for a single kind, as the `type` property shows it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::FILESYSTEM => "filesystem",
            Self::VOLUME => "volume",
            Self::SNAPSHOT => "snapshot",
            Self::BOOKMARK => "bookmark",
            _ => "dataset",
        }
    }
}

/// How a number is shown and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Number {
    /// Bytes: `24K`, `0B`.
    Bytes,
    /// Bytes in the style of pool properties: `24K`, `0`.
    Count,
    /// Always in full.
    Exact,
    /// Hundredths: `1.69x`.
    Ratio,
    /// Seconds since 1970, shown to the minute.
    Date,
    /// Seconds since 1970, shown to the second.
    Moment,
    /// Bytes, 0 meaning `none`, which must be written as that.
    Quota,
    /// Bytes, 0 meaning `none`.
    Reservation,
    /// As a reservation, or `auto`, which becomes a number when it is set.
    AutoReservation,
    /// A count, all ones meaning `none`.
    Limit,
    /// `13%`; all ones means unknown.
    Percent,
    /// The state of a vdev: a word, in full a number.
    State,
    /// `13%`, in full as well.
    Share,
    /// Bytes, shown as `-` when 0.
    BytesOrDash,
    /// Bytes, or `auto` (all ones), or `none` (0).
    AutoQuota,
}

/// Which numbers may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Range {
    /// All.
    Any,
    /// Sizes of blocks: powers of two from 512 bytes to 16 MiB.
    BlockSize,
    /// Sizes of blocks, or 0.
    BlockSizeOrZero,
    /// From the first to the second, or 0.
    ZeroOrWithin(u64, u64),
    /// This or more.
    AtLeast(u64),
}

impl Range {
    /// Whether the number lies inside.
    #[must_use]
    pub fn contains(self, number: u64) -> bool {
        const BLOCK_SIZES: std::ops::RangeInclusive<u64> = 512..=16 << 20;
        let block = number.is_power_of_two() && BLOCK_SIZES.contains(&number);
        match self {
            Self::Any => true,
            Self::BlockSize => block,
            Self::BlockSizeOrZero => number == 0 || block,
            Self::ZeroOrWithin(from, to) => number == 0 || (from..=to).contains(&number),
            Self::AtLeast(min) => number >= min,
        }
    }
}

/// Which texts may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextRule {
    /// All.
    Any,
    /// An absolute path, `none` or `legacy`.
    MountPoint,
    /// An absolute path.
    AbsolutePath,
    /// An absolute path, `none`, or nothing.
    FileOrNone,
    /// Up to 32 printable characters.
    Comment,
}

/// A word and the number that is stored for it.
pub type Word = (&'static str, u64);

/// What values a property has.
#[derive(Debug, Clone, Copy)]
pub enum Kind {
    /// A number.
    Number(Number, Range),
    /// One of a list of words; the first word of a number is the one shown.
    Index(&'static [Word]),
    /// Text.
    Text(TextRule),
}

/// Who may give a property its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Nobody: it is measured.
    ReadOnly,
    /// At any time.
    Settable,
    /// Only when the object is made.
    AtCreation,
}

/// What a property is when nobody has set it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Default {
    /// Nothing: shown as `-` or left out.
    Nothing,
    /// A stored number.
    Number(u64),
    /// Text.
    Text(&'static str),
}

/// Where a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Home {
    /// In the table of properties of the dataset, the pool or the vdev.
    Table,
    /// Inside the file system, in its master node.
    FileSystem,
    /// Inside the volume.
    Volume,
    /// In the configuration that the labels of the pool have.
    Labels,
    /// In the uberblock.
    Uberblock,
    /// Nowhere in the pool: it holds while this process has it.
    Process,
}

/// Which values of a property need a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// All.
    All,
    /// This one.
    Is(u64),
    /// All but this one.
    IsNot(u64),
    /// Larger ones.
    Above(u64),
    /// From the first to the second.
    Within(u64, u64),
    /// Those with these low seven bits, whatever the level above them.
    Low(u64),
}

impl Values {
    /// Whether the value is one of them.
    #[must_use]
    pub const fn contain(self, number: u64) -> bool {
        const LOW: u64 = 0x7F;
        match self {
            Self::All => true,
            Self::Is(one) => number == one,
            Self::IsNot(one) => number != one,
            Self::Above(limit) => number > limit,
            Self::Within(first, last) => first <= number && number <= last,
            Self::Low(low) => number & LOW == low,
        }
    }
}

/// What a pool must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requirement {
    /// This feature, enabled.
    Feature(&'static Feature),
    /// This version, or a later one.
    Version(u64),
}

/// What some values need.
#[derive(Debug, Clone, Copy)]
pub struct Need {
    /// Which.
    pub values: Values,
    /// What.
    pub requirement: Requirement,
}

/// What changes beside the value when a property is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Mounted file systems take their options anew.
    Remount,
    /// Mounted file systems go where they belong now, or are unmounted.
    Move,
    /// The directory's quota follows, which must not lie below what is used.
    Quota,
    /// The directory's reservation follows, which must be there to be had.
    Reservation,
    /// What the head references must lie within.
    RefQuota,
    /// What is reserved for the head is charged.
    RefReservation,
    /// File systems and snapshots are counted from now on.
    CountBelow,
    /// The feature of the value becomes active.
    ActivateFeature,
    /// The cache in memory keeps, or does not keep, blocks that are read and written from now on.
    Caching,
    /// It may set space free: it is possible on a pool that is all but full.
    MayFreeSpace,
}

/// A part of a mount's options, for which a mount may differ from the property.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountOption {
    /// `ro`, `rw`.
    ReadOnly,
    /// `atime`, `noatime`.
    AccessTimes,
    /// `dev`, `nodev`.
    Devices,
    /// `exec`, `noexec`.
    Execute,
    /// `suid`, `nosuid`.
    SetUserId,
}

/// Values that are known and not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// None.
    Full,
    /// All, which are set and shown nevertheless: others who have the pool may go by them.
    Stored,
    /// All but the default, for this reason.
    DefaultOnly(Unsupported),
    /// All, for this reason.
    Never(Unsupported),
}

/// Why a value is not carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsupported {
    /// Only roots of encryption have a key of their own.
    NoKey,
    /// It is chosen when a dataset is made, together with its key.
    OnlyNew,
    /// Labels of a system that this is not.
    Labels,
    /// What it stands for is not written by this version.
    NotYet,
}

/// How a measured value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// Without a source; not at all when it cannot be measured.
    Plain,
    /// A count that is kept from when someone asks for it: as set here, else as the default.
    Counted,
    /// As the default if it is that or there is none.
    OrDefault,
    /// As the default if it is that; not at all when it cannot be measured.
    PlainOrDefault,
}
