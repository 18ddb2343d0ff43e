//! What BEGIN says beside its plain fields.

use format::nvlist::{NvList, decode_native, decode_xdr};
use format::stream::{BeginRecord, VersionInfo};

use crate::{Features, StreamError};

/// What a BEGIN begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Header {
    /// One stream.
    Substream,
    /// A package of streams.
    Package,
}

impl Header {
    const fn number(self) -> u64 {
        match self {
            Self::Substream => 1,
            Self::Package => 2,
        }
    }

    /// What the word of a BEGIN says.
    ///
    /// # Errors
    /// When it is neither.
    pub fn of(version_info: u64) -> Result<Self, StreamError> {
        match VersionInfo::AT.header.get(version_info) {
            1 => Ok(Self::Substream),
            2 => Ok(Self::Package),
            _ => Err(StreamError::Misplaced("a head of no known kind")),
        }
    }

    /// BEGIN's word.
    #[must_use]
    pub const fn version_info(self, features: Features) -> u64 {
        VersionInfo::AT.features.set(
            VersionInfo::AT.header.set(0, self.number()),
            features.bits(),
        )
    }
}

/// The name in a BEGIN, as far as its first NUL.
#[must_use]
pub fn begin_name(begin: &BeginRecord) -> &[u8] {
    let end = begin.name.iter().position(|byte| *byte == 0);
    begin
        .name
        .get(..end.unwrap_or(begin.name.len()))
        .unwrap_or(&[])
}

/// A name as BEGIN has it; what is longer than its field is cut.
#[must_use]
pub fn name_field(name: &[u8]) -> [u8; 256] {
    let mut field = [0; 256];
    // The last byte stays NUL.
    for (to, from) in field.iter_mut().take(255).zip(name) {
        *to = *from;
    }
    field
}

/// The list in a payload, in either encoding, whichever its header says; nothing in an empty payload.
///
/// # Errors
/// When it is no list.
pub fn decode_list(payload: &[u8]) -> Result<Option<NvList>, StreamError> {
    match payload.first() {
        None => Ok(None),
        Some(0) => Ok(Some(decode_native(payload)?)),
        Some(_) => Ok(Some(decode_xdr(payload)?)),
    }
}
