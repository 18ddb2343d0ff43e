//! What is read and written: classes, places, outcomes.

use base::Txg;

/// What an operation is for: it decides its priority and where it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IoClass {
    /// Someone waits for the bytes.
    SyncRead,
    /// Someone waits for the durability: intent log, labels.
    SyncWrite,
    /// Read-ahead.
    AsyncRead,
    /// A txg's data.
    AsyncWrite,
    /// Scrub and resilver.
    Scan,
    /// Giving space back.
    Trim,
}

impl IoClass {
    /// Every class, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::SyncRead,
        Self::SyncWrite,
        Self::AsyncRead,
        Self::AsyncWrite,
        Self::Scan,
        Self::Trim,
    ];

    /// The class's name in statistics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SyncRead => "sync_read",
            Self::SyncWrite => "sync_write",
            Self::AsyncRead => "async_read",
            Self::AsyncWrite => "async_write",
            Self::Scan => "scan",
            Self::Trim => "trim",
        }
    }
}

/// A place in the allocatable area of a top-level vdev (offset 0 is byte 4 MiB of a leaf).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRange {
    /// Where: a DVA's offset in bytes.
    pub offset: u64,
    /// How many bytes.
    pub len: usize,
    /// When the bytes were written (physical birth): leaves that missed that txg are asked last.
    pub birth: Txg,
}

/// What a reader says of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// They are the wanted ones: a checksum says so.
    Proven,
    /// Nothing says that they are not: there is no checksum.
    Unproven,
    /// They are not the wanted ones.
    Wrong,
}

impl Verdict {
    /// The verdict of a checksum.
    #[must_use]
    pub const fn proof(matches: bool) -> Self {
        if matches { Self::Proven } else { Self::Wrong }
    }

    /// The verdict on several pieces together.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Wrong, _) | (_, Self::Wrong) => Self::Wrong,
            (Self::Unproven, _) | (_, Self::Unproven) => Self::Unproven,
            (Self::Proven, Self::Proven) => Self::Proven,
        }
    }
}
