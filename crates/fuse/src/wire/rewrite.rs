//! The call of ioctl(2) by which `zfs rewrite` has blocks written anew.

use std::ops::Range;

/// `ZFS_IOC_REWRITE`: group 0x83, number 3, 32 bytes to the file system.
pub const REWRITE: u32 = 0x4020_8303;

/// `ZFS_REWRITE_PHYSICAL`: blocks are to keep their logical births.
const PHYSICAL: u64 = 1;

/// What is asked: offset, length (0: to the end), flags and an argument of these, each a word of the host's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewriteCall {
    offset: u64,
    length: u64,
    flags: u64,
}

impl RewriteCall {
    /// What these bytes ask; none where they are too few.
    #[must_use]
    pub fn from_input(input: &[u8]) -> Option<Self> {
        let (words, _) = input.as_chunks::<8>();
        let word = |index: usize| words.get(index).map(|word| u64::from_ne_bytes(*word));
        word(3)?;
        Some(Self {
            offset: word(0)?,
            length: word(1)?,
            flags: word(2)?,
        })
    }

    /// The range; none where a flag is set that is not known, or it ends beyond all files.
    #[must_use]
    pub fn range(&self) -> Option<Range<u64>> {
        let end = match self.length {
            0 => u64::MAX,
            length => self.offset.checked_add(length)?,
        };
        (self.flags & !PHYSICAL == 0).then_some(self.offset..end)
    }

    /// Whether blocks are to keep their logical births.
    #[must_use]
    pub fn is_physical(&self) -> bool {
        self.flags & PHYSICAL != 0
    }
}
