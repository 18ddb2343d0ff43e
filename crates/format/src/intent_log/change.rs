//! What a record says was done: its fixed fields and all that follows them, as one value, and the
//! way back to bytes.

mod encode;
mod parse;

use base::{ByteOrder, ObjectId};

use super::record::{ExtendedAttributes, Record};
use crate::FormatError;
use crate::block_pointer::BlockPointer;

/// What a setattr sets, as Linux numbers it in [`SetAttributes::mask`].
pub mod attribute {
    /// The mode.
    pub const MODE: u64 = 0x1;
    /// The owner.
    pub const UID: u64 = 0x2;
    /// The group.
    pub const GID: u64 = 0x4;
    /// The size.
    pub const SIZE: u64 = 0x8;
    /// The access time.
    pub const ACCESS_TIME: u64 = 0x10;
    /// The modification time.
    pub const MODIFICATION_TIME: u64 = 0x20;
    /// The time of the last change of anything.
    pub const CHANGE_TIME: u64 = 0x40;
    /// Extended attributes follow.
    pub const EXTENDED: u64 = 1 << 31;
}

/// Bits of [`ExtendedAttributes::requested`], first word, and of its values.
pub mod extended {
    /// The creation time.
    pub const CREATION_TIME: u32 = 0x1;
    /// Changed since the last archive run.
    pub const ARCHIVE: u32 = 0x2;
    /// System (DOS).
    pub const SYSTEM: u32 = 0x4;
    /// Read-only (DOS).
    pub const READ_ONLY: u32 = 0x8;
    /// Hidden (DOS).
    pub const HIDDEN: u32 = 0x10;
    /// Nobody may unlink it.
    pub const NO_UNLINK: u32 = 0x20;
    /// Nobody may change it.
    pub const IMMUTABLE: u32 = 0x40;
    /// It only grows.
    pub const APPEND_ONLY: u32 = 0x80;
    /// Skipped by dump.
    pub const NO_DUMP: u32 = 0x100;
    /// New entries take the directory's project.
    pub const PROJECT_INHERIT: u32 = 0x2_0000;
    /// The project.
    pub const PROJECT: u32 = 0x4_0000;
}

/// The object that a record brings into being.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewObject {
    /// Its number.
    pub object: ObjectId,
    /// Slots of its dnode, at least 1.
    pub slots: u8,
    /// Type and permissions.
    pub mode: u64,
    /// The owner; from 2^32 on, an index into the record's domains in the upper half.
    pub uid: u64,
    /// The group; the same.
    pub gid: u64,
    /// The generation.
    pub generation: u64,
    /// Seconds and nanoseconds.
    pub creation_time: [u64; 2],
    /// The device number.
    pub device: u64,
}

/// What kind of thing came to be under a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created<'a> {
    /// A file, pipe, socket or device.
    File,
    /// A directory.
    Directory,
    /// The hidden directory of a file's extended attributes; it has no name.
    XattrDirectory,
    /// A symbolic link with its target.
    Symlink(&'a [u8]),
}

/// An access list in a record. Writers give the number of entries without their bytes in
/// creations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acl<'a> {
    /// Entries.
    pub ace_count: u64,
    /// Flags of the list.
    pub flags: u64,
    /// The entries' bytes.
    pub aces: &'a [u8],
    /// Ids of domains, for the entries.
    pub fuids: Vec<u64>,
}

/// A creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Create<'a> {
    /// What came to be.
    pub created: Created<'a>,
    /// In which directory; of a hidden directory, the file it belongs to.
    pub directory: ObjectId,
    /// The object.
    pub new: NewObject,
    /// Under which name.
    pub name: &'a [u8],
    /// With which access list, if not the one that the mode amounts to.
    pub acl: Option<Acl<'a>>,
    /// With which optional attributes.
    pub attributes: Option<ExtendedAttributes>,
    /// Domains of identities.
    pub domains: Vec<&'a [u8]>,
}

/// How a rename treats its target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Renamed {
    /// The target, if there is one, goes.
    Replacing,
    /// Both change places.
    Exchanged,
    /// A whiteout comes where the source was.
    LeavingWhiteout(NewObject),
}

/// Where the bytes of a write are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written<'a> {
    /// In the record: as many as the write is long.
    Here(&'a [u8]),
    /// In a block of the file that was written out at once.
    Block(BlockPointer),
    /// In such a block that an earlier record names: this one only tells the size.
    Before,
}

/// A change of attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAttributes<'a> {
    /// The object.
    pub object: ObjectId,
    /// What is set: bits of [`attribute`].
    pub mask: u64,
    /// Type and permissions.
    pub mode: u64,
    /// The owner.
    pub uid: u64,
    /// The group.
    pub gid: u64,
    /// The size.
    pub size: u64,
    /// Seconds and nanoseconds.
    pub access_time: [u64; 2],
    /// Seconds and nanoseconds; taken also when only the size is set.
    pub modification_time: [u64; 2],
    /// With [`attribute::EXTENDED`].
    pub extended: Option<ExtendedAttributes>,
    /// Domains of identities.
    pub domains: Vec<&'a [u8]>,
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Something came to be.
    Create(Create<'a>),
    /// A name went.
    Remove {
        /// From where.
        directory: ObjectId,
        /// The name.
        name: &'a [u8],
        /// Whether a directory had it.
        is_directory: bool,
    },
    /// A file got another name.
    Link {
        /// The directory.
        directory: ObjectId,
        /// The file.
        object: ObjectId,
        /// The name.
        name: &'a [u8],
    },
    /// A name moved.
    Rename {
        /// How.
        renamed: Renamed,
        /// From where.
        from: (ObjectId, &'a [u8]),
        /// To where.
        to: (ObjectId, &'a [u8]),
    },
    /// Data were written.
    Write {
        /// The file.
        object: ObjectId,
        /// From where.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// Which.
        data: Written<'a>,
    },
    /// A range was freed, or (length 0) the size set to `offset`.
    Truncate {
        /// The file.
        object: ObjectId,
        /// From where.
        offset: u64,
        /// How many bytes.
        length: u64,
    },
    /// Attributes were set.
    SetAttributes(SetAttributes<'a>),
    /// An access list was set.
    SetAcl {
        /// The object.
        object: ObjectId,
        /// The list.
        acl: Acl<'a>,
        /// Domains of identities.
        domains: Vec<&'a [u8]>,
        /// Entries of version 0 (file systems before version 3).
        is_old: bool,
    },
    /// An extended attribute among the system attributes was set, or (without value) removed.
    SetXattr {
        /// The object.
        object: ObjectId,
        /// The attribute's name.
        name: &'a [u8],
        /// Its value.
        value: Option<&'a [u8]>,
    },
    /// Blocks of another file were shared.
    CloneRange {
        /// The file.
        object: ObjectId,
        /// From where.
        offset: u64,
        /// How many bytes.
        length: u64,
        /// The block size.
        block_size: u64,
        /// The blocks.
        pointers: Vec<BlockPointer>,
    },
}

impl<'a> Change<'a> {
    /// What a decoded record says.
    ///
    /// # Errors
    /// The record ends in the middle, or contradicts itself.
    pub fn parse(record: &Record<'a>) -> Result<Self, FormatError> {
        parse::parse(record)
    }

    /// The record in this byte order; its txg and sequence number are 0 until it is placed in a
    /// block.
    #[must_use]
    pub fn encode(&self, order: ByteOrder) -> Vec<u8> {
        encode::encode(self, order)
    }

    /// The object whose contents or attributes changed; none when names did.
    #[must_use]
    pub fn object(&self) -> Option<ObjectId> {
        match self {
            Self::Write { object, .. }
            | Self::Truncate { object, .. }
            | Self::SetAttributes(SetAttributes { object, .. })
            | Self::SetAcl { object, .. }
            | Self::SetXattr { object, .. }
            | Self::CloneRange { object, .. } => Some(*object),
            Self::Create(_) | Self::Remove { .. } | Self::Link { .. } | Self::Rename { .. } => None,
        }
    }
}

/// How many domains the owner and group of a record without an access list name: the distinct
/// indexes in their upper halves.
fn domain_count(uid: u64, gid: u64) -> usize {
    let (one, two) = (uid >> 32, gid >> 32);
    usize::from(one != 0) + usize::from(two != 0 && two != one)
}

#[cfg(test)]
mod tests;
