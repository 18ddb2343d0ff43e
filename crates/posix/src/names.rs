//! Names and what directory entries store for them.

use base::ObjectId;
use dmu::ZapMatch;
use format::zap::NormalizationFlags;

use crate::{CaseSensitivity, FileType, PosixError, Result};

const OBJECT_BITS: u32 = 48;
const TYPE_SHIFT: u32 = 60;

/// What a file system demands of names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameRules {
    pub(crate) case: CaseSensitivity,
    /// Normalisation flags of the master node.
    pub(crate) normalization: u64,
    pub(crate) utf8_only: bool,
}

impl NameRules {
    /// Whether two different spellings may name one entry.
    pub(crate) fn is_normalized(&self) -> bool {
        self.normalization != 0 || self.case != CaseSensitivity::Sensitive
    }

    /// How a directory is searched for a name.
    pub(crate) fn matching(&self) -> ZapMatch {
        match self.case {
            CaseSensitivity::Sensitive if self.normalization == 0 => ZapMatch::Exact,
            CaseSensitivity::Mixed => ZapMatch::NormalizedCase,
            CaseSensitivity::Sensitive | CaseSensitivity::Insensitive => ZapMatch::Normalized,
        }
    }

    /// The normalisation word of a new directory.
    pub(crate) fn directory_normalization(&self) -> u64 {
        let folds = self.case != CaseSensitivity::Sensitive;
        self.normalization
            | if folds {
                NormalizationFlags::FOLD_UPPER
            } else {
                0
            }
    }

    /// Refuses what can be no entry's name. `.` and `..` are the caller's to know.
    pub(crate) fn check(&self, name: &[u8], length_max: usize) -> Result<()> {
        if name.is_empty() {
            return Err(PosixError::NotFound);
        }
        if name.len() > length_max {
            return Err(PosixError::NameTooLong);
        }
        if name.iter().any(|&byte| byte == b'/' || byte == 0) {
            return Err(PosixError::Invalid("a name with a slash or a zero byte"));
        }
        if self.utf8_only && std::str::from_utf8(name).is_err() {
            return Err(PosixError::InvalidName);
        }
        Ok(())
    }
}

/// The stored value of a directory entry.
pub(crate) fn pack_entry(object: ObjectId, file_type: Option<FileType>) -> u64 {
    let kind = file_type.map_or(0, FileType::bits);
    u64::from(kind) << TYPE_SHIFT | object.0 & ((1 << OBJECT_BITS) - 1)
}

/// The object and kind that an entry names.
pub(crate) fn unpack_entry(value: u64) -> (ObjectId, Option<FileType>) {
    let kind = (value >> TYPE_SHIFT) as u32;
    (
        ObjectId(value & ((1 << OBJECT_BITS) - 1)),
        FileType::from_bits(kind),
    )
}

/// `.` or `..`.
pub(crate) fn is_dot(name: &[u8]) -> bool {
    name == b"." || name == b".."
}
