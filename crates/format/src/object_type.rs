//! Object types: one table of number, name, byteswap class and traits, and the swap of a whole
//! block to host order, which the read pipeline does once so that decoders read host order.

/// The type byte of a dnode, a bonus or a block pointer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub struct ObjectType(pub u8);

/// How the multi-byte values of a block are laid out, so that it can be swapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SwapClass {
    /// Bytes: nothing to swap.
    Bytes,
    /// An array of u16.
    U16,
    /// An array of u32.
    U32,
    /// An array of u64.
    U64,
    /// A block of a ZAP.
    Zap,
    /// A block of dnodes.
    Dnode,
    /// An object set.
    ObjectSet,
    /// A legacy znode.
    Znode,
    /// An array of version-0 ACEs.
    OldAcl,
    /// Packed ACEs of variable size.
    Acl,
}

impl SwapClass {
    const fn from_number(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Bytes,
            1 => Self::U16,
            2 => Self::U32,
            3 => Self::U64,
            4 => Self::Zap,
            5 => Self::Dnode,
            6 => Self::ObjectSet,
            7 => Self::Znode,
            8 => Self::OldAcl,
            9 => Self::Acl,
            _ => return None,
        })
    }
}

/// One row of the table of numbered object types.
#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    class: SwapClass,
    metadata: bool,
    encrypted: bool,
}

macro_rules! object_types {
    ($( $number:literal $constant:ident $name:literal $class:ident $metadata:literal
        $encrypted:literal ; )*) => {
        #[allow(missing_docs)]
        impl ObjectType {
            $( #[doc = $name] pub const $constant: Self = Self($number); )*
        }
        const TABLE: &[Row] = &[
            $( Row {
                name: $name,
                class: SwapClass::$class,
                metadata: $metadata == 1,
                encrypted: $encrypted == 1,
            }, )*
        ];
        const _: () = {
            let mut expected = 0;
            $( assert!($number == expected); expected += 1; )*
            assert!(expected == TABLE.len());
        };
    };
}

// number, constant, name, class, metadata, level-0 payload encrypted in encrypted datasets
object_types! {
    0 NONE "unallocated" Bytes 1 0;
    1 OBJECT_DIRECTORY "object directory" Zap 1 0;
    2 OBJECT_ARRAY "object array" U64 1 0;
    3 PACKED_NVLIST "packed nvlist" Bytes 1 0;
    4 PACKED_NVLIST_SIZE "packed nvlist size" U64 1 0;
    5 BPOBJ "bpobj" U64 1 0;
    6 BPOBJ_HEADER "bpobj header" U64 1 0;
    7 SPACE_MAP_HEADER "SPA space map header" U64 1 0;
    8 SPACE_MAP "SPA space map" U64 1 0;
    9 INTENT_LOG "ZIL intent log" U64 1 1;
    10 DNODE "DMU dnode" Dnode 1 1;
    11 OBJECT_SET "DMU objset" ObjectSet 1 0;
    12 DSL_DIRECTORY "DSL directory" U64 1 0;
    13 DSL_DIRECTORY_CHILD_MAP "DSL directory child map" Zap 1 0;
    14 DSL_SNAPSHOT_MAP "DSL dataset snap map" Zap 1 0;
    15 DSL_PROPERTIES "DSL props" Zap 1 0;
    16 DSL_DATASET "DSL dataset" U64 1 0;
    17 ZNODE "ZFS znode" Znode 1 0;
    18 OLD_ACL "ZFS V0 ACL" OldAcl 1 1;
    19 PLAIN_FILE "ZFS plain file" Bytes 0 1;
    20 DIRECTORY "ZFS directory" Zap 1 1;
    21 MASTER_NODE "ZFS master node" Zap 1 0;
    22 UNLINKED_SET "ZFS delete queue" Zap 1 1;
    23 ZVOL "zvol object" Bytes 0 1;
    24 ZVOL_PROPERTIES "zvol prop" Zap 1 0;
    25 PLAIN_OTHER "other uint8[]" Bytes 0 1;
    26 U64_OTHER "other uint64[]" U64 0 1;
    27 ZAP_OTHER "other ZAP" Zap 1 0;
    28 ERROR_LOG "persistent error log" Zap 1 0;
    29 HISTORY "SPA history" Bytes 1 0;
    30 HISTORY_OFFSETS "SPA history offsets" U64 1 0;
    31 POOL_PROPERTIES "Pool properties" Zap 1 0;
    32 DSL_PERMISSIONS "DSL permissions" Zap 1 0;
    33 ACL "ZFS ACL" Acl 1 1;
    34 SYSTEM_ACL "ZFS SYSACL" Bytes 1 1;
    35 FUID_TABLE "FUID table" Bytes 1 1;
    36 FUID_TABLE_SIZE "FUID table size" U64 1 0;
    37 NEXT_CLONES "DSL dataset next clones" Zap 1 0;
    38 SCAN_QUEUE "scan work queue" Zap 1 0;
    39 USER_GROUP_USED "ZFS user/group/project used" Zap 1 1;
    40 USER_GROUP_QUOTA "ZFS user/group/project quota" Zap 1 1;
    41 USER_REFERENCES "snapshot refcount tags" Zap 1 0;
    42 DDT_ZAP "DDT ZAP algorithm" Zap 1 0;
    43 DDT_STATISTICS "DDT statistics" Zap 1 0;
    44 SYSTEM_ATTRIBUTES "System attributes" Bytes 1 1;
    45 SA_MASTER_NODE "SA master node" Zap 1 1;
    46 SA_REGISTRATION "SA attr registration" Zap 1 1;
    47 SA_LAYOUTS "SA attr layouts" Zap 1 1;
    48 SCAN_TRANSLATIONS "scan translations" Zap 1 0;
    49 DEDUP "deduplicated block" Bytes 0 1;
    50 DEADLIST "DSL deadlist map" Zap 1 0;
    51 DEADLIST_HEADER "DSL deadlist map hdr" U64 1 0;
    52 DSL_CLONES "DSL dir clones" Zap 1 0;
    53 BPOBJ_SUBOBJECTS "bpobj subobj" U64 1 0;
}

impl ObjectType {
    /// New-style type: bytes, metadata.
    pub const OTN_U8_METADATA: Self = Self(0xC0);
    /// New-style type: u64 array, metadata (bptree, redaction lists, …).
    pub const OTN_U64_METADATA: Self = Self(0xC3);
    /// Numbers of four bytes, of the pool's own object set.
    pub const OTN_U32_METADATA: Self = Self(0xC2);
    /// New-style type: ZAP, metadata (zapified DSL objects, feature tables, …).
    pub const OTN_ZAP_METADATA: Self = Self(0xC4);
    /// New-style type: bytes, data.
    pub const OTN_U8_DATA: Self = Self(0x80);

    const NEW_STYLE: u8 = 0x80;
    const NEW_STYLE_METADATA: u8 = 0x40;
    const NEW_STYLE_ENCRYPTED: u8 = 0x20;
    const NEW_STYLE_CLASS: u8 = 0x1F;

    fn row(self) -> Option<&'static Row> {
        TABLE.get(usize::from(self.0))
    }

    const fn is_new_style(self) -> bool {
        self.0 & Self::NEW_STYLE != 0
    }

    /// Whether this is a type that a pool may hold.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.swap_class().is_some()
    }

    /// How a block of this type is swapped; `None` for an invalid type.
    #[must_use]
    pub fn swap_class(self) -> Option<SwapClass> {
        if self.is_new_style() {
            return SwapClass::from_number(self.0 & Self::NEW_STYLE_CLASS);
        }
        self.row().map(|row| row.class)
    }

    /// Whether blocks of this type are metadata: more copies, always compressed and checksummed.
    #[must_use]
    pub fn is_metadata(self) -> bool {
        if self.is_new_style() {
            return self.0 & Self::NEW_STYLE_METADATA != 0;
        }
        self.row().is_some_and(|row| row.metadata)
    }

    /// Whether the level-0 payload is encrypted in an encrypted dataset.
    #[must_use]
    pub fn is_encrypted(self) -> bool {
        if self.is_new_style() {
            return self.0 & Self::NEW_STYLE_ENCRYPTED != 0;
        }
        self.row().is_some_and(|row| row.encrypted)
    }

    /// Whether the block is one that `redundant_metadata=some` still stores once more.
    #[must_use]
    pub fn is_critical_metadata(self, level: u8) -> bool {
        self.is_metadata()
            && (level > 0
                || !matches!(
                    self,
                    Self::DNODE | Self::DIRECTORY | Self::SYSTEM_ATTRIBUTES
                ))
    }

    /// Whether the object's blocks are blocks of a ZAP.
    #[must_use]
    pub fn is_zap(self) -> bool {
        self.swap_class() == Some(SwapClass::Zap)
    }

    /// Whether the block holds file data for the placement of small blocks.
    #[must_use]
    pub fn is_file_data(self) -> bool {
        matches!(self, Self::PLAIN_FILE | Self::U64_OTHER)
    }

    /// Whether a block of this type may live inside its block pointer.
    #[must_use]
    pub fn may_embed(self) -> bool {
        !matches!(self, Self::DNODE | Self::OBJECT_SET)
    }

    /// The name that `zdb` prints.
    #[must_use]
    pub fn name(self) -> &'static str {
        if let Some(row) = self.row() {
            return row.name;
        }
        match (self.swap_class(), self.is_metadata()) {
            (Some(SwapClass::Bytes), false) => "uint8",
            (Some(SwapClass::Bytes), true) => "uint8 (metadata)",
            (Some(SwapClass::U16), false) => "uint16",
            (Some(SwapClass::U16), true) => "uint16 (metadata)",
            (Some(SwapClass::U32), false) => "uint32",
            (Some(SwapClass::U32), true) => "uint32 (metadata)",
            (Some(SwapClass::U64), false) => "uint64",
            (Some(SwapClass::U64), true) => "uint64 (metadata)",
            (Some(SwapClass::Zap), false) => "zap",
            (Some(SwapClass::Zap), true) => "zap (metadata)",
            (Some(_), _) => "new style",
            (None, _) => "invalid",
        }
    }
}

#[cfg(test)]
mod tests;
