//! The calls of ioctl(2) on a file's flags and project: `chattr`, `lsattr`, project quotas.
//! Numbers and layouts as in `ioctl_iflags(2)` and `ioctl_xfs_fsgetxattr(2)`; programs of 32 bits give
//! the first two another size.

use posix::flags;

/// What is asked or told about a file's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFlagsCall {
    /// `FS_IOC_GETFLAGS`.
    GetFlags,
    /// `FS_IOC_SETFLAGS`.
    SetFlags,
    /// `FS_IOC_FSGETXATTR`.
    GetExtended,
    /// `FS_IOC_FSSETXATTR`.
    SetExtended,
}

impl FileFlagsCall {
    /// The call of this number.
    #[must_use]
    pub const fn from_command(command: u32) -> Option<Self> {
        Some(match command {
            0x8008_6601 | 0x8004_6601 => Self::GetFlags,
            0x4008_6602 | 0x4004_6602 => Self::SetFlags,
            0x801c_581f => Self::GetExtended,
            0x401c_5820 => Self::SetExtended,
            _ => return None,
        })
    }
}

/// Bytes of `struct fsxattr`.
const EXTENDED_LEN: usize = 28;

/// Flags of a file, their bits in `FS_IOC_GETFLAGS`, and in `struct fsxattr`.
const BITS: [(u64, u32, u32); 4] = [
    (flags::IMMUTABLE, 0x10, 0x8),
    (flags::APPEND_ONLY, 0x20, 0x10),
    (flags::NO_DUMP, 0x40, 0x80),
    (flags::PROJECT_INHERIT, 0x2000_0000, 0x200),
];

/// A file's flags and project.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileFlags {
    /// Flags, of those in [`posix::flags`] that Linux has.
    pub flags: u64,
    /// The project; none where the call does not speak of it.
    pub project: Option<u32>,
}

impl FileFlags {
    /// All flags that can be told.
    pub const ALL: u64 =
        flags::IMMUTABLE | flags::APPEND_ONLY | flags::NO_DUMP | flags::PROJECT_INHERIT;

    /// The flags as `FS_IOC_GETFLAGS` gives them.
    #[must_use]
    pub fn to_flags(self) -> Vec<u8> {
        self.bits(|(_, plain, _)| plain).to_ne_bytes().to_vec()
    }

    /// The flags as `FS_IOC_SETFLAGS` has them; none when it has others.
    #[must_use]
    pub fn from_flags(input: &[u8]) -> Option<Self> {
        let (bits, _) = input.split_first_chunk()?;
        Some(Self {
            flags: meant(u32::from_ne_bytes(*bits), |(_, plain, _)| plain)?,
            project: None,
        })
    }

    /// Flags and project as `struct fsxattr`: flags, extent size, extents, project, extent size of
    /// copies, padding.
    #[must_use]
    pub fn to_extended(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(EXTENDED_LEN);
        let project = self.project.unwrap_or(0);
        for word in [self.bits(|(.., extended)| extended), 0, 0, project] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        bytes.resize(EXTENDED_LEN, 0);
        bytes
    }

    /// Flags and project of a `struct fsxattr`; none when it has flags that are not known.
    #[must_use]
    pub fn from_extended(input: &[u8]) -> Option<Self> {
        let input = input.get(..EXTENDED_LEN)?;
        let word = |index: usize| {
            let bytes = input.get(index * 4..)?.first_chunk()?;
            Some(u32::from_ne_bytes(*bytes))
        };
        Some(Self {
            flags: meant(word(0)?, |(.., extended)| extended)?,
            project: word(3),
        })
    }

    fn bits(self, which: impl Fn((u64, u32, u32)) -> u32) -> u32 {
        let set = BITS.into_iter().filter(|(flag, ..)| self.flags & flag != 0);
        set.fold(0, |bits, row| bits | which(row))
    }
}

/// The flags that `bits` mean; none when there are others.
fn meant(bits: u32, which: impl Fn((u64, u32, u32)) -> u32) -> Option<u64> {
    let known = BITS.into_iter().fold(0, |all, row| all | which(row));
    let set = BITS.into_iter().filter(|row| bits & which(*row) != 0);
    (bits & !known == 0).then(|| set.fold(0, |flags, (flag, ..)| flags | flag))
}
