//! The records of an intent log.

use base::{ByteOrder, ObjectId, Txg};

use crate::FormatError;
use crate::bits::bits;
use crate::block_pointer::BlockPointer;
use crate::record::{get_at, record, require};

record! {
    /// What starts every record.
    #[doc(alias = "lr_t")]
    pub struct RecordHeader [32] {
        #[doc(alias = "lrc_txtype")]
        /// The kind; the top bit says that names were matched without regard to case.
        kind: u64 = 0,
        #[doc(alias = "lrc_reclen")]
        /// Bytes of the whole record, a multiple of 8.
        length: u64 = 8,
        #[doc(alias = "lrc_txg")]
        /// The txg of the change.
        txg: Txg = 16,
        #[doc(alias = "lrc_seq")]
        /// The record's sequence number.
        sequence: u64 = 24,
    }
}

bits! {
    /// A new object and how many slots its dnode takes.
    #[doc(alias = "lr_foid")]
    pub struct ObjectAndSlots [64] {
        /// The object.
        object: 48 = 0,
        /// Its slots, less 1.
        slots: 8 = 56,
    }
}

record! {
    /// Create, mkdir, extended-attribute directory, symlink.
    #[doc(alias = "lr_create_t")]
    pub struct CreateFields [104] {
        /// The directory.
        directory: ObjectId = 32,
        /// The new object: see [`ObjectAndSlots`].
        object_and_slots: u64 = 40,
        /// The mode with its file type.
        mode: u64 = 48,
        /// The owner.
        uid: u64 = 56,
        /// The group.
        gid: u64 = 64,
        /// The generation.
        generation: u64 = 72,
        /// Seconds and nanoseconds.
        creation_time: [u64; 2] = 80,
        /// The device.
        device: u64 = 96,
    }
}

record! {
    /// What follows [`CreateFields`] in a create with an ACL.
    #[doc(alias = "lr_acl_create_t")]
    pub struct CreateAclFields [144] {
        /// ACEs.
        ace_count: u64 = 104,
        /// Domain strings.
        domain_count: u64 = 112,
        /// Ids of domains.
        fuid_count: u64 = 120,
        /// Bytes of ACEs.
        acl_bytes: u64 = 128,
        /// Flags of the ACL.
        acl_flags: u64 = 136,
    }
}

record! {
    /// Remove and rmdir.
    #[doc(alias = "lr_remove_t")]
    pub struct DirectoryFields [40] {
        /// The directory.
        directory: ObjectId = 32,
    }
}

record! {
    /// Link.
    #[doc(alias = "lr_link_t")]
    pub struct LinkFields [48] {
        /// The directory.
        directory: ObjectId = 32,
        /// The object that gets another name.
        object: ObjectId = 40,
    }
}

record! {
    /// Rename and exchange.
    #[doc(alias = "lr_rename_t")]
    pub struct RenameFields [48] {
        /// The directory of the old name.
        source: ObjectId = 32,
        /// The directory of the new name.
        target: ObjectId = 40,
    }
}

record! {
    /// Rename that leaves a whiteout.
    #[doc(alias = "lr_rename_whiteout_t")]
    pub struct WhiteoutFields [112] {
        /// The directory of the old name.
        source: ObjectId = 32,
        /// The directory of the new name.
        target: ObjectId = 40,
        /// The whiteout: see [`ObjectAndSlots`].
        object_and_slots: u64 = 48,
        /// The whiteout's mode.
        mode: u64 = 56,
        /// Its owner.
        uid: u64 = 64,
        /// Its group.
        gid: u64 = 72,
        /// Its generation.
        generation: u64 = 80,
        /// Seconds and nanoseconds.
        creation_time: [u64; 2] = 88,
        /// Its device, 0.
        device: u64 = 104,
    }
}

record! {
    /// Write.
    #[doc(alias = "lr_write_t")]
    pub struct WriteFields [192] {
        /// The file.
        object: ObjectId = 32,
        /// Where.
        offset: u64 = 40,
        /// How many bytes.
        length: u64 = 48,
        /// The block of an indirect write.
        pointer: BlockPointer = 64,
    }
}

record! {
    /// Truncate or free a range.
    #[doc(alias = "lr_truncate_t")]
    pub struct TruncateFields [56] {
        /// The file.
        object: ObjectId = 32,
        /// Where.
        offset: u64 = 40,
        /// How many bytes; 0 = set the size to `offset`.
        length: u64 = 48,
    }
}

record! {
    /// Set attributes.
    #[doc(alias = "lr_setattr_t")]
    pub struct SetAttributesFields [112] {
        /// The object.
        object: ObjectId = 32,
        /// What is set, in the bits of the operating system that wrote it.
        mask: u64 = 40,
        /// The mode.
        mode: u64 = 48,
        /// The owner.
        uid: u64 = 56,
        /// The group.
        gid: u64 = 64,
        /// The size.
        size: u64 = 72,
        /// Seconds and nanoseconds.
        access_time: [u64; 2] = 80,
        /// Seconds and nanoseconds.
        modification_time: [u64; 2] = 96,
    }
}

record! {
    /// Set a version-0 ACL.
    #[doc(alias = "lr_acl_v0_t")]
    pub struct OldAclFields [48] {
        /// The object.
        object: ObjectId = 32,
        /// ACEs.
        ace_count: u64 = 40,
    }
}

record! {
    /// Set an ACL.
    #[doc(alias = "lr_acl_t")]
    pub struct AclFields [80] {
        /// The object.
        object: ObjectId = 32,
        /// ACEs.
        ace_count: u64 = 40,
        /// Domain strings.
        domain_count: u64 = 48,
        /// Ids of domains.
        fuid_count: u64 = 56,
        /// Bytes of ACEs.
        acl_bytes: u64 = 64,
        /// Flags of the ACL.
        acl_flags: u64 = 72,
    }
}

record! {
    /// Set an extended attribute that lives with the system attributes.
    #[doc(alias = "lr_setsaxattr_t")]
    pub struct SetXattrFields [48] {
        /// The object.
        object: ObjectId = 32,
        /// Bytes of the value; 0 = remove.
        value_size: u64 = 40,
    }
}

record! {
    /// Share blocks of another file.
    #[doc(alias = "lr_clone_range_t")]
    pub struct CloneRangeFields [72] {
        /// The file.
        object: ObjectId = 32,
        /// Where.
        offset: u64 = 40,
        /// How many bytes.
        length: u64 = 48,
        /// The block size.
        block_size: u64 = 56,
        /// How many block pointers follow.
        pointer_count: u64 = 64,
    }
}

record! {
    /// The optional attributes of a create or setattr, as every writer lays them out.
    #[doc(alias = "lr_attr_t")]
    pub struct ExtendedAttributes [72] {
        /// Words of the bitmap, 3.
        word_count: u32 = 0,
        /// Which attributes are there.
        requested: [u32; 3] = 4,
        /// The boolean ones.
        values: u64 = 16,
        /// Seconds and nanoseconds.
        creation_time: [u64; 2] = 24,
        /// The scan stamp, or the project id in its first 8 bytes.
        scan_stamp: [u8; 32] = 40,
    }
}

/// Kinds of record.
#[allow(missing_docs)]
pub mod kind {
    pub const CREATE: u64 = 1;
    pub const MAKE_DIRECTORY: u64 = 2;
    pub const MAKE_XATTR_DIRECTORY: u64 = 3;
    pub const SYMLINK: u64 = 4;
    pub const REMOVE: u64 = 5;
    pub const REMOVE_DIRECTORY: u64 = 6;
    pub const LINK: u64 = 7;
    pub const RENAME: u64 = 8;
    pub const WRITE: u64 = 9;
    pub const TRUNCATE: u64 = 10;
    pub const SET_ATTRIBUTES: u64 = 11;
    pub const OLD_ACL: u64 = 12;
    pub const ACL: u64 = 13;
    pub const CREATE_ACL: u64 = 14;
    pub const CREATE_ATTRIBUTES: u64 = 15;
    pub const CREATE_ACL_ATTRIBUTES: u64 = 16;
    pub const MAKE_DIRECTORY_ACL: u64 = 17;
    pub const MAKE_DIRECTORY_ATTRIBUTES: u64 = 18;
    pub const MAKE_DIRECTORY_ACL_ATTRIBUTES: u64 = 19;
    pub const WRITE_SIZE_ONLY: u64 = 20;
    pub const SET_XATTR: u64 = 21;
    pub const RENAME_EXCHANGE: u64 = 22;
    pub const RENAME_WHITEOUT: u64 = 23;
    pub const CLONE_RANGE: u64 = 24;
    /// The bit beside the kind: names were matched without regard to case.
    pub const CASE_INSENSITIVE: u64 = 1 << 63;
}

/// A record: its header, its fixed fields and the bytes after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The header, with the kind as stored.
    pub header: RecordHeader,
    /// The fields of its kind.
    pub body: Body,
    /// The whole record.
    pub bytes: &'a [u8],
    /// What follows the fixed fields: names, data, ACEs, pointers, with padding.
    pub tail: &'a [u8],
    /// The order of the record's writer.
    pub order: ByteOrder,
}

/// The fixed fields of a record by its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Body {
    Create(CreateFields),
    CreateAcl(CreateFields, CreateAclFields),
    Remove(DirectoryFields),
    Link(LinkFields),
    Rename(RenameFields),
    Whiteout(WhiteoutFields),
    Write(WriteFields),
    Truncate(TruncateFields),
    SetAttributes(SetAttributesFields),
    OldAcl(OldAclFields),
    Acl(AclFields),
    SetXattr(SetXattrFields),
    CloneRange(CloneRangeFields),
}

impl<'a> Record<'a> {
    /// Decodes the record that is `bytes`.
    ///
    /// # Errors
    /// A kind that no log holds, or fewer bytes than its fields take.
    pub fn decode(bytes: &'a [u8], order: ByteOrder) -> Result<Self, FormatError> {
        let header = RecordHeader::decode(bytes, order)?;
        let number = header.kind & !kind::CASE_INSENSITIVE;
        let (body, size) = body(number, bytes, order)?;
        require("log record", bytes, size)?;
        Ok(Self {
            header,
            body,
            bytes,
            tail: bytes.get(size..).unwrap_or(&[]),
            order,
        })
    }

    /// The kind without its case bit.
    #[must_use]
    pub fn kind(&self) -> u64 {
        self.header.kind & !kind::CASE_INSENSITIVE
    }

    /// The name at `offset` of the tail, up to its NUL, and where the next one starts.
    #[must_use]
    pub fn name_at(&self, offset: usize) -> Option<(&'a [u8], usize)> {
        let rest = self.tail.get(offset..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some((rest.get(..end)?, offset + end + 1))
    }

    /// The source pointers of a clone record.
    pub fn pointers(&self) -> impl Iterator<Item = BlockPointer> + use<'a> {
        let count = if let Body::CloneRange(fields) = &self.body {
            usize::try_from(fields.pointer_count).unwrap_or(0)
        } else {
            0
        };
        let order = self.order;
        self.tail
            .chunks_exact(128)
            .take(count)
            .map(move |bytes| get_at(bytes, 0, order))
    }
}

fn body(number: u64, bytes: &[u8], order: ByteOrder) -> Result<(Body, usize), FormatError> {
    let create = || CreateFields::decode_padded(bytes, order);
    Ok(match number {
        1..=4 | 15 | 18 => (Body::Create(create()), CreateFields::SIZE),
        14 | 16 | 17 | 19 => {
            let acl = CreateAclFields::decode_padded(bytes, order);
            (Body::CreateAcl(create(), acl), CreateAclFields::SIZE)
        }
        5 | 6 => (
            Body::Remove(DirectoryFields::decode_padded(bytes, order)),
            DirectoryFields::SIZE,
        ),
        7 => (
            Body::Link(LinkFields::decode_padded(bytes, order)),
            LinkFields::SIZE,
        ),
        8 | 22 => (
            Body::Rename(RenameFields::decode_padded(bytes, order)),
            RenameFields::SIZE,
        ),
        23 => (
            Body::Whiteout(WhiteoutFields::decode_padded(bytes, order)),
            WhiteoutFields::SIZE,
        ),
        9 | 20 => (
            Body::Write(WriteFields::decode_padded(bytes, order)),
            WriteFields::SIZE,
        ),
        10 => (
            Body::Truncate(TruncateFields::decode_padded(bytes, order)),
            TruncateFields::SIZE,
        ),
        11 => {
            let fields = SetAttributesFields::decode_padded(bytes, order);
            (Body::SetAttributes(fields), SetAttributesFields::SIZE)
        }
        12 => (
            Body::OldAcl(OldAclFields::decode_padded(bytes, order)),
            OldAclFields::SIZE,
        ),
        13 => (
            Body::Acl(AclFields::decode_padded(bytes, order)),
            AclFields::SIZE,
        ),
        21 => (
            Body::SetXattr(SetXattrFields::decode_padded(bytes, order)),
            SetXattrFields::SIZE,
        ),
        24 => {
            let fields = CloneRangeFields::decode_padded(bytes, order);
            (Body::CloneRange(fields), CloneRangeFields::SIZE)
        }
        _ => {
            return Err(FormatError::Invalid {
                what: "log record",
                field: "kind",
                value: number,
            });
        }
    })
}

/// Walks the records of a log block.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Records<'a> {
    /// The records in `bytes`, which is the used part of a block.
    #[must_use]
    pub fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { rest: bytes, order }
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, FormatError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let length = RecordHeader::AT.length.get(self.rest, self.order);
        let split = usize::try_from(length)
            .ok()
            .filter(|length| *length >= RecordHeader::SIZE && length.is_multiple_of(8))
            .and_then(|length| self.rest.split_at_checked(length));
        let Some((bytes, rest)) = split else {
            self.rest = &[];
            return Some(Err(FormatError::Invalid {
                what: "log record",
                field: "length",
                value: length,
            }));
        };
        self.rest = rest;
        Some(Record::decode(bytes, self.order))
    }
}
