//! System attributes: the packed attributes of a file in its bonus and spill block.
//!
//! A block is a header (magic, layout number, lengths of the variable attributes) and the values
//! in the order of the layout, each starting at a multiple of 8. Which attributes a layout holds
//! is stored per file system; see [`Registration`]. Blocks keep their writer's byte order until
//! they are rewritten: the magic tells it.

use base::ByteOrder;

use crate::FormatError;
use crate::bits::{bits, low_u16};
use crate::host::FOREIGN;
use crate::record::{get_at, put_at, record};

/// First word of a block of system attributes (`SA_MAGIC`).
pub const MAGIC: u32 = 0x002F_505A;
/// Layout of a legacy znode: no attributes packed here.
pub const LAYOUT_LEGACY: u16 = 0;
/// Layout without attributes.
pub const LAYOUT_EMPTY: u16 = 1;
/// Number of the first layout that a file system defines itself.
pub const LAYOUT_FIRST: u16 = 2;
/// Largest layout number that a header can name.
pub const LAYOUT_MAX: u16 = LayoutInfo::AT.layout.get_u16(u64::MAX);
/// All attributes of a file together, at most.
pub const TOTAL_SIZE_MAX: usize = 128 << 10;

record! {
    /// What starts a block of system attributes.
    #[doc(alias = "sa_hdr_phys_t")]
    pub struct HeaderFields [8] {
        /// [`MAGIC`], in the writer's byte order.
        #[doc(alias = "sa_magic")]
        magic: u32 = 0,
        /// See [`LayoutInfo`].
        #[doc(alias = "sa_layout_info")]
        layout_info: u16 = 4,
        /// The length of the first attribute of variable length; those of more follow, and the header grows by eight
        /// bytes for each four.
        #[doc(alias = "sa_lengths")]
        lengths: [u16; 1] = 6,
    }
}

bits! {
    /// Layout and length of the header of a block of system attributes.
    #[doc(alias = "sa_layout_info")]
    pub struct LayoutInfo [16] {
        /// The number of the layout.
        layout: 10 = 0,
        /// Where the values begin, in units of eight bytes.
        header_size: 6 = 10,
    }
}

bits! {
    /// The value of an attribute's entry in the registry.
    pub struct RegistrationWord [64] {
        /// Number in this file system.
        number: 16 = 0,
        /// See [`ValueClass`].
        class: 8 = 16,
        /// Length in bytes; 0 for a variable one.
        length: 16 = 24,
    }
}

const LENGTHS: usize = HeaderFields::AT.lengths.offset;
const HEADER_SIZE_MIN: usize = HeaderFields::SIZE;

/// How the value of an attribute is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueClass {
    /// An array of u64.
    U64,
    /// An array of u32.
    U32,
    /// An array of u16.
    U16,
    /// Bytes.
    U8,
    /// Packed ACEs.
    Acl,
}

impl ValueClass {
    /// The number stored in a registration.
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::U64 => 0,
            Self::U32 => 1,
            Self::U16 => 2,
            Self::U8 => 3,
            Self::Acl => 4,
        }
    }

    /// The class with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::U64,
            1 => Self::U32,
            2 => Self::U16,
            3 => Self::U8,
            4 => Self::Acl,
            _ => return None,
        })
    }

    /// Swaps a value between the byte orders.
    pub fn swap(self, value: &mut [u8]) {
        let width = match self {
            Self::U64 => 8,
            Self::U32 => 4,
            Self::U16 => 2,
            Self::U8 => return,
            Self::Acl => return crate::acl::swap(value),
        };
        for word in value.chunks_exact_mut(width) {
            word.reverse();
        }
    }
}

macro_rules! attributes {
    ($( $number:literal $variant:ident $name:literal $length:literal $class:ident $doc:literal; )*) => {
        /// The attributes that files of OpenZFS have, in the order of their default numbers.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Attribute { $( #[doc = $doc] $variant = $number, )* }

        impl Attribute {
            /// All of them, in default order.
            pub const ALL: &'static [Self] = &[ $( Self::$variant, )* ];

            /// The name in the registry.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $( Self::$variant => $name, )* }
            }

            /// Length in bytes; 0 for a variable one.
            #[must_use]
            pub const fn length(self) -> u16 {
                match self { $( Self::$variant => $length, )* }
            }

            /// How the value is laid out.
            #[must_use]
            pub const fn class(self) -> ValueClass {
                match self { $( Self::$variant => ValueClass::$class, )* }
            }
        }
    };
}

// default number, variant, name, length (0: variable), class, meaning
attributes! {
    0 Atime "ZPL_ATIME" 16 U64 "Last access: seconds, nanoseconds.";
    1 Mtime "ZPL_MTIME" 16 U64 "Last change of the data.";
    2 Ctime "ZPL_CTIME" 16 U64 "Last change of anything.";
    3 Crtime "ZPL_CRTIME" 16 U64 "Creation.";
    4 Gen "ZPL_GEN" 8 U64 "Txg of creation.";
    5 Mode "ZPL_MODE" 8 U64 "Type and permissions.";
    6 Size "ZPL_SIZE" 8 U64 "Size in bytes; of a directory, entries + 2.";
    7 Parent "ZPL_PARENT" 8 U64 "Directory last linked into.";
    8 Links "ZPL_LINKS" 8 U64 "Link count.";
    9 Xattr "ZPL_XATTR" 8 U64 "Directory of extended attributes.";
    10 Rdev "ZPL_RDEV" 8 U64 "Device number.";
    11 Flags "ZPL_FLAGS" 8 U64 "Flags.";
    12 Uid "ZPL_UID" 8 U64 "Owner.";
    13 Gid "ZPL_GID" 8 U64 "Group.";
    14 Pad "ZPL_PAD" 32 U64 "Unused words of a legacy znode.";
    15 ZnodeAcl "ZPL_ZNODE_ACL" 88 U8 "Access list of a legacy znode.";
    16 DaclCount "ZPL_DACL_COUNT" 8 U64 "Number of access control entries.";
    17 Symlink "ZPL_SYMLINK" 0 U8 "Target of a symbolic link.";
    18 Scanstamp "ZPL_SCANSTAMP" 32 U8 "Stamp of a virus scanner.";
    19 DaclAces "ZPL_DACL_ACES" 0 Acl "Access control entries.";
    20 Dxattr "ZPL_DXATTR" 0 U8 "Packed extended attributes.";
    21 Projid "ZPL_PROJID" 8 U64 "Project id.";
}

/// Attributes whose numbers are the same in every file system (the fields of a legacy znode).
pub const FIXED_NUMBERS: u16 = 16;

impl Attribute {
    /// The attribute of that registry name.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|attribute| attribute.name().as_bytes() == name)
    }
}

/// What the registry says of an attribute: the value of its ZAP entry, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Number in this file system.
    pub number: u16,
    /// Length in bytes; 0 for a variable one.
    pub length: u16,
    /// How the value is laid out.
    pub class: ValueClass,
}

impl Registration {
    /// Unpacks the value of a registry entry.
    ///
    /// # Errors
    /// When the class is not one.
    pub fn unpack(word: u64) -> Result<Self, FormatError> {
        let at = RegistrationWord::AT;
        let class = ValueClass::from_number(at.class.get_u8(word)).ok_or(FormatError::Invalid {
            what: "attribute registration",
            field: "class",
            value: word,
        })?;
        Ok(Self {
            number: at.number.get_u16(word),
            length: at.length.get_u16(word),
            class,
        })
    }

    /// The value of the registry entry.
    #[must_use]
    pub fn pack(self) -> u64 {
        let at = RegistrationWord::AT;
        let word = at.length.set(0, self.length.into());
        let word = at.class.set(word, self.class.number().into());
        at.number.set(word, self.number.into())
    }
}

/// The header of a block of system attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Byte order of the whole block.
    pub order: ByteOrder,
    /// Layout number.
    pub layout: u16,
    /// Where the values begin.
    pub size: usize,
}

impl Header {
    /// Reads a header. `None` when the block was never filled (zero magic).
    ///
    /// # Errors
    /// When the magic is another, or the header does not fit the block.
    pub fn decode(bytes: &[u8]) -> Result<Option<Self>, FormatError> {
        const WHAT: &str = "system attributes";
        let at = HeaderFields::AT;
        let found = at.magic.get(bytes, ByteOrder::NATIVE);
        let order = match found {
            0 => return Ok(None),
            MAGIC => ByteOrder::NATIVE,
            _ if found.swap_bytes() == MAGIC => FOREIGN,
            _ => {
                return Err(FormatError::BadMagic {
                    what: WHAT,
                    found: found.into(),
                });
            }
        };
        let info = u64::from(at.layout_info.get(bytes, order));
        let size = usize::from(LayoutInfo::AT.header_size.get_u8(info)) * 8;
        if size < HEADER_SIZE_MIN || size > bytes.len() {
            return Err(FormatError::Truncated {
                what: WHAT,
                needed: size.max(HEADER_SIZE_MIN),
                available: bytes.len(),
            });
        }
        Ok(Some(Self {
            order,
            layout: LayoutInfo::AT.layout.get_u16(info).max(LAYOUT_EMPTY),
            size,
        }))
    }

    /// The length of the `index`th variable attribute; `None` when the header has no slot for it.
    #[must_use]
    pub fn variable_length(&self, bytes: &[u8], index: usize) -> Option<u16> {
        let offset = LENGTHS + 2 * index;
        (offset + 2 <= self.size).then(|| get_at(bytes, offset, self.order))
    }

    /// Writes a host-order header for `layout` whose variable attributes have `lengths`.
    pub fn encode(bytes: &mut [u8], layout: u16, lengths: impl IntoIterator<Item = u16>) {
        let mut count = 0;
        for length in lengths {
            put_at(bytes, LENGTHS + 2 * count, &length, ByteOrder::NATIVE);
            count += 1;
        }
        let (at, bits) = (HeaderFields::AT, LayoutInfo::AT);
        let info = bits.header_size.set(0, (header_size(count) / 8) as u64);
        let info = low_u16(bits.layout.set(info, layout.into()));
        at.magic.put(bytes, &MAGIC, ByteOrder::NATIVE);
        at.layout_info.put(bytes, &info, ByteOrder::NATIVE);
    }
}

/// Bytes of a header whose layout has `variable` attributes of variable length.
#[must_use]
pub const fn header_size(variable: usize) -> usize {
    HEADER_SIZE_MIN + (2 * variable.saturating_sub(1)).next_multiple_of(8)
}

/// Where the values of a file are cut between the bonus and the spill block: attributes from the
/// returned index on go to the spill block; `None` when all fit the bonus of `capacity` bytes.
///
/// `values` are (length, whether variable) in storage order. The room of the spill pointer is
/// part of the bonus as long as nothing spills.
#[must_use]
pub fn split(values: &[(usize, bool)], capacity: usize) -> Option<usize> {
    const SPILL_POINTER: usize = 128;
    let (mut total, mut variable, mut candidate) = (0usize, 0, None);
    for (index, &(length, is_variable)) in values.iter().enumerate() {
        total = total.next_multiple_of(8) + length;
        variable += usize::from(is_variable);
        let needed = total + header_size(variable);
        if needed > capacity.saturating_sub(SPILL_POINTER) && candidate.is_none() {
            candidate = Some(index);
        }
        if needed > capacity {
            return candidate;
        }
    }
    None
}

#[cfg(test)]
mod tests;
