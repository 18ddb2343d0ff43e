//! Dedup tables: the keys and values of their ZAPs, and the records of their logs.
//!
//! A table counts the references to blocks by their checksum. Its entries are in a ZAP for each [`DedupClass`]; an
//! entry has the addresses, and the number of references, of the block that its [`DedupKey`] describes.

mod log;

use base::{ByteOrder, Txg};
use codec::{Checksum, ChecksumValue, Compression};

use crate::bits::bits;
use crate::block_pointer::{BlockPointer, BlockProperties, DVA_COUNT, Dva, SECTOR_SHIFT};
use crate::object_type::ObjectType;
use crate::record::{get_at, record};

pub use log::{DedupLogHead, DedupLogPhys, DedupRecordHead, LogRecord, RECORD_BYTES, log_records};

/// What an entry is found by: the checksum, and a word of sizes and compression ([`DedupKeyWord`]).
pub type DedupKey = [u64; 5];

const KEY_BYTES: usize = 40;
/// Bytes of a value with one list of addresses.
pub const FLAT_BYTES: usize = FlatDedupPhys::SIZE;
/// Bytes of a value with a list for each number of copies.
pub const LEGACY_BYTES: usize = VARIANTS * DedupVariantPhys::SIZE;
/// Lists of addresses in a value of the older kind: one that nobody makes any more, and those for one to three copies.
const VARIANTS: usize = 4;
/// In the first byte of a stored value: it is little-endian.
const LITTLE_ENDIAN: u8 = 0x80;

/// Block size of the ZAPs of a table, and (as a shift) of their indirect blocks.
pub const TABLE_BLOCK_SHIFT: u8 = 15;
/// The version of a folder of tables of the newer kind, …
pub const DIRECTORY_VERSION: u64 = 1;
/// … and what it says of them: their values are flat, …
pub const DIRECTORY_FLAT: u64 = 1;
/// … and they have logs.
pub const DIRECTORY_LOG: u64 = 2;
/// The name of the version in such a folder, …
pub const VERSION_NAME: &str = "version";
/// … and of what it says.
pub const FLAGS_NAME: &str = "flags";

bits! {
    /// The last word of a key: what of a block besides its checksum must be equal.
    #[doc(alias = "ddk_prop")]
    pub struct DedupKeyWord [64] {
        /// Logical size in sectors of 512 bytes, less 1.
        logical_size: 16 = 0,
        /// Physical size in sectors of 512 bytes, less 1.
        physical_size: 16 = 16,
        /// Compression.
        compression: 7 = 32,
        /// Whether the block is encrypted.
        encrypted: 1 = 39,
    }
}

record! {
    /// One stored block of an entry.
    #[doc(alias = "ddt_phys_t")]
    pub struct DedupVariantPhys [64] {
        /// Its addresses, two words each.
        #[doc(alias = "ddp_dva")]
        addresses: [u64; 6] = 0,
        /// How often it is referred to.
        #[doc(alias = "ddp_refcnt")]
        references: u64 = 48,
        /// The txg that stored it.
        #[doc(alias = "ddp_phys_birth")]
        birth: u64 = 56,
    }
}

record! {
    /// An entry of a table of the newer kind.
    #[doc(alias = "ddt_phys_t")]
    pub struct FlatDedupPhys [72] {
        /// The block's addresses, two words each.
        #[doc(alias = "ddp_dva")]
        addresses: [u64; 6] = 0,
        /// How often it is referred to.
        #[doc(alias = "ddp_refcnt")]
        references: u64 = 48,
        /// The txg that stored it.
        #[doc(alias = "ddp_phys_birth")]
        birth: u64 = 56,
        /// When the entry came into its class, in seconds since 1970.
        #[doc(alias = "ddp_class_start")]
        class_start: u64 = 64,
    }
}

/// The ZAPs of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DedupClass {
    /// What had many references in old pools. Nothing comes into it any more.
    Ditto,
    /// More than one reference.
    Duplicate,
    /// One.
    Unique,
}

impl DedupClass {
    /// All of them, by their numbers.
    pub const ALL: [Self; 3] = [Self::Ditto, Self::Duplicate, Self::Unique];

    /// As it is called in the names of objects.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ditto => "ditto",
            Self::Duplicate => "duplicate",
            Self::Unique => "unique",
        }
    }

    /// Its place in [`Self::ALL`].
    #[must_use]
    pub const fn index(self) -> usize {
        match self {
            Self::Ditto => 0,
            Self::Duplicate => 1,
            Self::Unique => 2,
        }
    }
}

/// The name of the ZAP of a class.
#[must_use]
pub fn zap_name(kind: Checksum, class: DedupClass) -> String {
    format!("DDT-{}-zap-{}", kind.name(), class.name())
}

/// The name of the folder of a table of the newer kind.
#[must_use]
pub fn directory_name(kind: Checksum) -> String {
    format!("DDT-{}", kind.name())
}

/// The name of one of the two logs of a table of the newer kind.
#[must_use]
pub fn log_name(kind: Checksum, number: usize) -> String {
    format!("DDT-log-{}-{number}", kind.name())
}

/// How the values of a table are laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupForm {
    /// A list of addresses for each number of copies.
    Legacy,
    /// One list.
    Flat,
}

/// One stored block of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DedupBlock {
    /// Its addresses, as words.
    pub addresses: [u64; 2 * DVA_COUNT],
    /// How often it is referred to.
    pub references: u64,
    /// The txg that stored it; 0: there is no such block.
    pub birth: u64,
}

impl DedupBlock {
    /// The block of a pointer, not referred to yet.
    #[must_use]
    pub fn of(pointer: &BlockPointer) -> Self {
        let mut addresses = [0; 2 * DVA_COUNT];
        for (to, from) in addresses.iter_mut().zip(&pointer.words) {
            *to = *from;
        }
        Self {
            addresses,
            references: 0,
            birth: pointer.physical_birth().0,
        }
    }

    /// How many addresses it has.
    #[must_use]
    pub fn copies(&self) -> usize {
        let (addresses, _) = self.addresses.as_chunks::<2>();
        let used = |address: &&[u64; 2]| Dva::from_words(**address).is_some();
        addresses.iter().filter(used).count()
    }

    /// Gives its addresses to a pointer.
    pub fn give_addresses(&self, pointer: &mut BlockPointer) {
        for (to, from) in pointer.words.iter_mut().zip(&self.addresses) {
            *to = *from;
        }
    }

    /// Whether there is such a block.
    #[must_use]
    pub const fn is_stored(&self) -> bool {
        self.birth != 0
    }

    /// Whether a pointer leads to it.
    #[must_use]
    pub fn is_of(&self, pointer: &BlockPointer) -> bool {
        self.is_stored()
            && self.addresses.first_chunk::<2>() == pointer.words.first_chunk::<2>()
            && self.birth == pointer.physical_birth().0
    }

    /// The pointer to it, with what its entry's key says; without the mark that a table counts it.
    #[must_use]
    pub fn pointer(&self, kind: Checksum, key: &DedupKey) -> BlockPointer {
        let [a, b, c, d, properties] = *key;
        let at = DedupKeyWord::AT;
        let size = |sectors: u64| (sectors + 1) << SECTOR_SHIFT;
        let (lsize, psize) = (
            size(at.logical_size.get(properties)),
            size(at.physical_size.get(properties)),
        );
        let mut pointer = BlockPointer::for_block(ObjectType::DEDUP, 0, lsize, psize);
        self.give_addresses(&mut pointer);
        if let Ok(compression) = Compression::from_id(at.compression.get_u8(properties)) {
            pointer.set_compression(compression);
        }
        pointer.set_checksum(kind, ChecksumValue([a, b, c, d]));
        pointer.set_birth(Txg(self.birth), Txg(self.birth));
        pointer.set_fill(1);
        if at.encrypted.get(properties) != 0 {
            pointer.set_encrypted();
        }
        pointer
    }
}

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedupValue {
    /// How it is laid out.
    pub form: DedupForm,
    /// Its blocks; of the newer kind the first alone.
    pub blocks: [DedupBlock; VARIANTS],
    /// When it came into its class, in seconds since 1970; of the newer kind.
    pub class_start: u64,
}

impl DedupValue {
    /// An entry without blocks.
    #[must_use]
    pub fn new(form: DedupForm) -> Self {
        Self {
            form,
            blocks: Default::default(),
            class_start: 0,
        }
    }

    /// The value in these bytes; `None` where they are too few.
    #[must_use]
    pub fn decode(form: DedupForm, bytes: &[u8], order: ByteOrder) -> Option<Self> {
        let mut value = Self::new(form);
        match form {
            DedupForm::Legacy => {
                let (variants, _) = bytes.as_chunks::<{ DedupVariantPhys::SIZE }>();
                let variants = variants.first_chunk::<VARIANTS>()?;
                for (block, variant) in value.blocks.iter_mut().zip(variants) {
                    let phys = DedupVariantPhys::decode_padded(variant, order);
                    *block = DedupBlock {
                        addresses: phys.addresses,
                        references: phys.references,
                        birth: phys.birth,
                    };
                }
            }
            DedupForm::Flat => {
                let bytes = bytes.first_chunk::<FLAT_BYTES>()?;
                let phys = FlatDedupPhys::decode_padded(bytes, order);
                value.class_start = phys.class_start;
                let [first, ..] = &mut value.blocks;
                *first = DedupBlock {
                    addresses: phys.addresses,
                    references: phys.references,
                    birth: phys.birth,
                };
            }
        }
        Some(value)
    }

    /// Its bytes, in the order of this machine.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let order = ByteOrder::NATIVE;
        match self.form {
            DedupForm::Legacy => {
                let mut bytes = vec![0; LEGACY_BYTES];
                let (variants, _) = bytes.as_chunks_mut::<{ DedupVariantPhys::SIZE }>();
                for (variant, block) in variants.iter_mut().zip(&self.blocks) {
                    let phys = DedupVariantPhys {
                        addresses: block.addresses,
                        references: block.references,
                        birth: block.birth,
                    };
                    phys.encode(variant, order);
                }
                bytes
            }
            DedupForm::Flat => {
                let [block, ..] = &self.blocks;
                let phys = FlatDedupPhys {
                    addresses: block.addresses,
                    references: block.references,
                    birth: block.birth,
                    class_start: self.class_start,
                };
                let mut bytes = vec![0; FLAT_BYTES];
                phys.encode(&mut bytes, order);
                bytes
            }
        }
    }

    /// The value as a ZAP has it: see [`unpack`].
    #[must_use]
    pub fn unpack(form: DedupForm, stored: &[u8]) -> Option<Self> {
        let size = match form {
            DedupForm::Legacy => LEGACY_BYTES,
            DedupForm::Flat => FLAT_BYTES,
        };
        let (bytes, order) = unpack_sized(stored, &[size])?;
        Self::decode(form, &bytes, order)
    }

    /// The value as a ZAP is to have it: of the older kind zeros are left out if that is shorter. Values of the newer
    /// kind are stored as they are, as OpenZFS 2.3 stores them.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let bytes = self.encode();
        let mut packed = vec![0; bytes.len() - 1];
        let mark = match ByteOrder::NATIVE {
            ByteOrder::Little => LITTLE_ENDIAN,
            ByteOrder::Big => 0,
        };
        let shorter = match self.form {
            DedupForm::Legacy => codec::compress(Compression::Zle, &bytes, &mut packed),
            DedupForm::Flat => None,
        };
        let (kind, payload) = match shorter {
            Some(length) => (Compression::Zle, packed.get(..length).unwrap_or_default()),
            None => (Compression::Off, bytes.as_slice()),
        };
        let mut stored = Vec::with_capacity(1 + payload.len());
        stored.push(kind.id() | mark);
        stored.extend_from_slice(payload);
        stored
    }

    /// References to all of its blocks.
    #[must_use]
    pub fn references(&self) -> u64 {
        let counts = self.counted().map(|block| block.references);
        counts.fold(0, u64::saturating_add)
    }

    /// The blocks whose references count: all but the one that nobody makes any more.
    pub fn counted(&self) -> impl Iterator<Item = &DedupBlock> {
        let skipped = match self.form {
            DedupForm::Legacy => 1,
            DedupForm::Flat => 0,
        };
        self.blocks.iter().skip(skipped)
    }

    /// The class that it belongs to.
    #[must_use]
    pub fn class(&self) -> DedupClass {
        if self.references() > 1 {
            DedupClass::Duplicate
        } else {
            DedupClass::Unique
        }
    }

    /// Where the block with so many copies is.
    #[must_use]
    pub fn block_mut(&mut self, copies: u8) -> Option<&mut DedupBlock> {
        match self.form {
            DedupForm::Legacy => self.blocks.get_mut(usize::from(copies.clamp(1, 3))),
            DedupForm::Flat => self.blocks.first_mut(),
        }
    }

    /// The block to which a pointer leads.
    #[must_use]
    pub fn block_of(&mut self, pointer: &BlockPointer) -> Option<&mut DedupBlock> {
        self.blocks.iter_mut().find(|block| block.is_of(pointer))
    }
}

/// The key of a block that a table counts, which need not have an address yet.
#[must_use]
pub fn key_of(pointer: &BlockPointer) -> DedupKey {
    let ChecksumValue([a, b, c, d]) = pointer.checksum_value();
    let (at, of) = (DedupKeyWord::AT, BlockProperties::AT);
    let properties: u64 = pointer.properties();
    let mut word = at.logical_size.set(0, of.logical_size.get(properties));
    word = at.physical_size.set(word, of.physical_size.get(properties));
    word = at.compression.set(word, of.compression.get(properties));
    word = at.encrypted.set(word, pointer.is_encrypted().into());
    [a, b, c, d, word]
}

/// A stored value of either kind: one byte of compression and byte order, then the payload.
#[must_use]
pub fn unpack(stored: &[u8]) -> Option<(Vec<u8>, ByteOrder)> {
    // Which of the two kinds it is shows only by whether it unpacks to that size.
    unpack_sized(stored, &[LEGACY_BYTES, FLAT_BYTES])
}

fn unpack_sized(stored: &[u8], sizes: &[usize]) -> Option<(Vec<u8>, ByteOrder)> {
    let (&head, payload) = stored.split_first()?;
    let order = if head & LITTLE_ENDIAN != 0 {
        ByteOrder::Little
    } else {
        ByteOrder::Big
    };
    let compression = Compression::from_id(head & !LITTLE_ENDIAN).ok()?;
    match compression {
        Compression::Off => Some((payload.to_vec(), order)),
        // A value that is nothing but zeros is not in a table.
        Compression::Empty => None,
        Compression::Lzjb
        | Compression::Gzip(_)
        | Compression::Zle
        | Compression::Lz4
        | Compression::Zstd(_) => sizes.iter().find_map(|size| {
            let mut bytes = vec![0; *size];
            let unpacked = codec::decompress(compression, payload, &mut bytes);
            unpacked.is_ok().then_some((bytes, order))
        }),
    }
}

/// The first addresses of the blocks that an entry describes and something refers to, with these blocks.
#[must_use]
pub fn addresses(bytes: &[u8], order: ByteOrder) -> Vec<(Dva, DedupBlock)> {
    let form = if bytes.len() >= LEGACY_BYTES {
        DedupForm::Legacy
    } else {
        DedupForm::Flat
    };
    let Some(value) = DedupValue::decode(form, bytes, order) else {
        return Vec::new();
    };
    let blocks = value.blocks.iter().filter(|block| block.references > 0);
    blocks
        .filter_map(|block| {
            let first = block.addresses.first_chunk::<2>()?;
            Some((Dva::from_words(*first)?, *block))
        })
        .collect()
}

/// The entries of a block of a log: key and value. They end with the block, or with what is no entry.
pub fn log_entries(block: &[u8]) -> impl Iterator<Item = (DedupKey, &[u8])> {
    log_records(block).map(|record| (record.key, record.value))
}

#[cfg(test)]
mod tests;
