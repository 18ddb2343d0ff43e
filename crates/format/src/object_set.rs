//! The object set: the block under a dataset's root pointer, with the dnode of its dnodes.
//!
//! Three sizes exist: 1 KiB (pools before version 15), 2 KiB (user and group accounting) and
//! 4 KiB (project accounting; what we write). A missing tail reads as zeros. Host order.

use base::ByteOrder;

use crate::FormatError;
use crate::dnode::{DnodePhys, SLOT_SIZE};
use crate::intent_log::LogHeader;
use crate::record::{Place, areas, head_mut, require};
use crate::version;

/// The size that we write, in all but old pools ([`ObjectSetPhys::size_in`]).
pub const SIZE: usize = 4096;
/// The size before user and group accounting.
pub const SIZE_OLD: usize = 1024;
/// The size before project accounting.
pub const SIZE_USER: usize = 2048;

areas! {
    /// An object set on disk. The dnodes are of one slot; [`crate::dnode`] decodes them.
    #[doc(alias = "objset_phys_t")]
    pub struct ObjectSetAreas [SIZE] {
        /// The dnode whose data are all the dnodes.
        #[doc(alias = "os_meta_dnode")]
        meta_dnode: [u8; SLOT_SIZE] = 0,
        /// The intent log's anchor.
        #[doc(alias = "os_zil_header")]
        log_header: LogHeader = 512,
        /// What the object set holds: see [`ObjectSetKind`].
        #[doc(alias = "os_type")]
        kind: u64 = 704,
        /// See the `FLAG_` constants.
        #[doc(alias = "os_flags")]
        flags: u64 = 712,
        /// Message authentication code that survives a raw send; zero when not encrypted.
        #[doc(alias = "os_portable_mac")]
        portable_mac: [u8; 32] = 720,
        /// Message authentication code of the accounting; zero when not encrypted.
        #[doc(alias = "os_local_mac")]
        local_mac: [u8; 32] = 752,
        /// Space by user (object −1).
        #[doc(alias = "os_userused_dnode")]
        user_used: [u8; SLOT_SIZE] = 1024,
        /// Space by group (object −2).
        #[doc(alias = "os_groupused_dnode")]
        group_used: [u8; SLOT_SIZE] = 1536,
        /// Space by project (object −3).
        #[doc(alias = "os_projectused_dnode")]
        project_used: [u8; SLOT_SIZE] = 2048,
    }
}

/// Object sets in memory are in host order.
const ORDER: ByteOrder = ByteOrder::NATIVE;

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

    /// The size of a new one in a pool of a version.
    #[must_use]
    pub const fn size_in(version: u64) -> usize {
        if version < version::OWNER_ACCOUNTING {
            SIZE_OLD
        } else {
            SIZE
        }
    }

    /// Decodes the block of an object set (host order).
    ///
    /// # Errors
    /// A block too short, a bad kind, or a bad dnode.
    pub fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        require("object set", bytes, SIZE_OLD)?;
        let at = ObjectSetAreas::AT;
        let number = at.kind.get(bytes, ORDER);
        let kind = ObjectSetKind::from_number(number).ok_or(FormatError::Invalid {
            what: "object set",
            field: "kind",
            value: number,
        })?;
        Ok(Self {
            meta_dnode: DnodePhys::decode(bytes)?,
            log_header: at.log_header.get(bytes, ORDER),
            kind,
            flags: at.flags.get(bytes, ORDER),
            portable_mac: at.portable_mac.get(bytes, ORDER),
            local_mac: at.local_mac.get(bytes, ORDER),
            user_used: special(bytes, at.user_used)?,
            group_used: special(bytes, at.group_used)?,
            project_used: special(bytes, at.project_used)?,
        })
    }

    /// Writes the object set over `bytes`, whose length is one of the three sizes (host order).
    ///
    /// # Errors
    /// When `bytes` has not room for what the object set holds.
    pub fn encode(&self, bytes: &mut [u8]) -> Result<(), FormatError> {
        require("object set", bytes, SIZE_OLD)?;
        bytes.fill(0);
        self.meta_dnode
            .encode(head_mut("object set", bytes, SLOT_SIZE)?)?;
        let at = ObjectSetAreas::AT;
        at.log_header.put(bytes, &self.log_header, ORDER);
        at.kind.put(bytes, &self.kind.number(), ORDER);
        at.flags.put(bytes, &self.flags, ORDER);
        at.portable_mac.put(bytes, &self.portable_mac, ORDER);
        at.local_mac.put(bytes, &self.local_mac, ORDER);
        let specials = [
            (at.user_used, &self.user_used),
            (at.group_used, &self.group_used),
            (at.project_used, &self.project_used),
        ];
        for (place, dnode) in specials {
            if let Some(dnode) = dnode {
                let room = head_mut("object set", bytes, place.end())?;
                dnode.encode(room.get_mut(place.offset..).unwrap_or_default())?;
            }
        }
        Ok(())
    }
}

type SlotPlace = Place<[u8; SLOT_SIZE]>;

fn special(bytes: &[u8], place: SlotPlace) -> Result<Option<DnodePhys>, FormatError> {
    match bytes.get(place.offset..place.end()) {
        Some(slot) if is_used(slot) => DnodePhys::decode(slot).map(Some),
        _ => Ok(None),
    }
}

pub(crate) fn is_used(slot: &[u8]) -> bool {
    slot.first().is_some_and(|object_type| *object_type != 0)
}

#[cfg(test)]
mod tests;
