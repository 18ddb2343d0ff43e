//! The object set: the block under a dataset's root pointer, with the dnode of its dnodes.
//!
//! Three sizes exist: 1 KiB (pools before version 15), 2 KiB (user and group accounting) and
//! 4 KiB (project accounting; what we write). A missing tail reads as zeros. Host order.

use base::ByteOrder;

use crate::FormatError;
use crate::dnode::{self, DnodePhys, SLOT_SIZE};
use crate::intent_log::LogHeader;
use crate::object_type::swap_u64;
use crate::record::{get_at, put_at, require};

/// The size that we write.
pub const SIZE: usize = 4096;
/// The size before user and group accounting.
pub const SIZE_OLD: usize = 1024;
/// The size before project accounting.
pub const SIZE_USER: usize = 2048;

const LOG_HEADER: usize = 512;
const KIND: usize = 704;
const FLAGS: usize = 712;
const PORTABLE_MAC: usize = 720;
const LOCAL_MAC: usize = 752;
const USER_USED: usize = 1024;
const GROUP_USED: usize = 1536;
const PROJECT_USED: usize = 2048;

/// What an object set holds (`os_type`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ObjectSetKind {
    /// Nothing (the DSL origin).
    None,
    /// The meta object set.
    Meta,
    /// A file system.
    FileSystem,
    /// A block volume.
    Volume,
    /// Something else (tests).
    Other,
}

impl ObjectSetKind {
    /// The kind of a stored number.
    #[must_use]
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Meta,
            2 => Self::FileSystem,
            3 => Self::Volume,
            4 => Self::Other,
            _ => return None,
        })
    }

    /// The number stored.
    #[must_use]
    pub const fn number(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Meta => 1,
            Self::FileSystem => 2,
            Self::Volume => 3,
            Self::Other => 4,
        }
    }
}

/// An object set, decoded.
#[doc(alias = "objset_phys_t")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectSetPhys {
    /// The dnode whose data are all the dnodes.
    #[doc(alias = "os_meta_dnode")]
    pub meta_dnode: DnodePhys,
    /// The intent log's anchor.
    #[doc(alias = "os_zil_header")]
    pub log_header: LogHeader,
    /// What the object set holds.
    #[doc(alias = "os_type")]
    pub kind: ObjectSetKind,
    /// See the `FLAG_` constants.
    #[doc(alias = "os_flags")]
    pub flags: u64,
    /// Message authentication code that survives a raw send; zero when not encrypted.
    pub portable_mac: [u8; 32],
    /// Message authentication code of the accounting; zero when not encrypted.
    pub local_mac: [u8; 32],
    /// Space by user (object −1).
    #[doc(alias = "os_userused_dnode")]
    pub user_used: Option<DnodePhys>,
    /// Space by group (object −2).
    #[doc(alias = "os_groupused_dnode")]
    pub group_used: Option<DnodePhys>,
    /// Space by project (object −3).
    #[doc(alias = "os_projectused_dnode")]
    pub project_used: Option<DnodePhys>,
}

impl ObjectSetPhys {
    /// User and group accounting is complete.
    pub const FLAG_USER_ACCOUNTING: u64 = 1;
    /// Accounting of object counts is complete.
    pub const FLAG_USER_OBJECT_ACCOUNTING: u64 = 2;
    /// Project accounting is complete.
    pub const FLAG_PROJECT_QUOTA: u64 = 4;

    /// Decodes the block of an object set (host order).
    ///
    /// # Errors
    /// A block too short, a bad kind, or a bad dnode.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        require("object set", bytes, SIZE_OLD)?;
        let number = get_at(bytes, KIND, ByteOrder::NATIVE);
        let kind = ObjectSetKind::from_number(number).ok_or(FormatError::Invalid {
            what: "object set",
            field: "kind",
            value: number,
        })?;
        Ok(Self {
            meta_dnode: DnodePhys::decode(bytes)?,
            log_header: LogHeader::decode_padded(&bytes[LOG_HEADER..], ByteOrder::NATIVE),
            kind,
            flags: get_at(bytes, FLAGS, ByteOrder::NATIVE),
            portable_mac: get_at(bytes, PORTABLE_MAC, ByteOrder::NATIVE),
            local_mac: get_at(bytes, LOCAL_MAC, ByteOrder::NATIVE),
            user_used: special(bytes, USER_USED)?,
            group_used: special(bytes, GROUP_USED)?,
            project_used: special(bytes, PROJECT_USED)?,
        })
    }

    /// Writes the object set over `bytes`, whose length is one of the three sizes (host order).
    ///
    /// # Errors
    /// When `bytes` has not room for what the object set holds.
    pub fn encode(&self, bytes: &mut [u8]) -> Result<(), FormatError> {
        require("object set", bytes, SIZE_OLD)?;
        bytes.fill(0);
        self.meta_dnode.encode(&mut bytes[..SLOT_SIZE])?;
        self.log_header
            .encode(&mut bytes[LOG_HEADER..], ByteOrder::NATIVE);
        put_at(bytes, KIND, &self.kind.number(), ByteOrder::NATIVE);
        put_at(bytes, FLAGS, &self.flags, ByteOrder::NATIVE);
        put_at(bytes, PORTABLE_MAC, &self.portable_mac, ByteOrder::NATIVE);
        put_at(bytes, LOCAL_MAC, &self.local_mac, ByteOrder::NATIVE);
        let specials = [
            (USER_USED, &self.user_used),
            (GROUP_USED, &self.group_used),
            (PROJECT_USED, &self.project_used),
        ];
        for (offset, dnode) in specials {
            if let Some(dnode) = dnode {
                require("object set", bytes, offset + SLOT_SIZE)?;
                dnode.encode(&mut bytes[offset..offset + SLOT_SIZE])?;
            }
        }
        Ok(())
    }
}

fn special(bytes: &[u8], offset: usize) -> Result<Option<DnodePhys>, FormatError> {
    match bytes.get(offset..offset + SLOT_SIZE) {
        Some(slot) if slot[0] != 0 => DnodePhys::decode(slot).map(Some),
        _ => Ok(None),
    }
}

/// Swaps an object set to host order.
pub fn swap_block(block: &mut [u8]) {
    for offset in [0, USER_USED, GROUP_USED, PROJECT_USED] {
        if let Some(slot) = block.get_mut(offset..offset + SLOT_SIZE)
            && slot[0] != 0
        {
            dnode::swap_dnode(slot);
        }
    }
    if let Some(words) = block.get_mut(LOG_HEADER..PORTABLE_MAC) {
        swap_u64(words);
    }
}

#[cfg(test)]
mod tests;
