//! Block pointers: where a block lies, how it is stored, and the sum that proves it.
//!
//! The words are [`BlockPointerAreas`], the bits in them [`BlockProperties`], [`DvaFirst`] and [`DvaSecond`].
//! An embedded pointer (E) keeps up to 112 bytes of payload in every word but 6 and 10.
//! Invariant: accessors never panic and never trust a field; [`BlockPointer::check`] says whether
//! a pointer that came from disk makes sense at all.

use std::fmt;

use base::{ByteOrder, Txg, VdevId};
use codec::{Checksum, ChecksumValue, Compression};

use crate::FormatError;
use crate::bits::Bits;
use crate::object_type::ObjectType;
use crate::record::{Plain, Shown, get_at, put_at, require};

mod seal;
mod words;

pub use seal::{IV_SIZE, MAC_SIZE, Protection, SALT_SIZE, SealedForm};
pub use words::{
    BlockMoreProperties, BlockPointerAreas, BlockProperties, DvaFirst, DvaSecond,
    EmbeddedProperties,
};
use words::{
    CHECKSUM, CHECKSUM_KIND, COMPRESSION, DEDUP, DVA_ALLOCATED_SIZE, DVA_GANG, DVA_OFFSET,
    DVA_VDEV, EMBEDDED, EMBEDDED_KIND, EMBEDDED_LOGICAL_SIZE, EMBEDDED_PHYSICAL_SIZE, ENCRYPTED,
    FILL, LEVEL, LITTLE_ENDIAN, LOGICAL_BIRTH, LOGICAL_SIZE, MORE_PROPERTIES, PHYSICAL_BIRTH,
    PHYSICAL_SIZE, PROPERTIES, REWRITTEN, TYPE,
};

/// Bytes of a block pointer on disk.
pub const SIZE: usize = 128;
/// log2 of [`SIZE`].
pub const SIZE_SHIFT: u32 = 7;
/// How many copies a block can have.
pub const DVA_COUNT: usize = 3;
/// The largest payload that an embedded pointer holds.
pub const EMBEDDED_PAYLOAD_MAX: usize = 112;
/// The largest logical or physical block.
pub const BLOCK_SIZE_MAX: u64 = 16 << 20;
/// The smallest block, and the unit of sizes and offsets in a pointer.
pub const SECTOR_SHIFT: u32 = 9;

/// The kind of embedded pointer that stands for a block that was left out.
const REDACTED_KIND: u8 = 2;

/// How many words of an embedded pointer carry payload, in their order: all but properties and birth.
const PAYLOAD_WORDS: usize = EMBEDDED_PAYLOAD_MAX / size_of::<u64>();

/// One copy of a block: a data virtual address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Dva {
    /// The top-level vdev.
    pub vdev: VdevId,
    /// Byte offset on it; 0 is the first byte after the front labels and boot area.
    pub offset: u64,
    /// Bytes allocated, with parity, padding and (gang) header.
    pub asize: u64,
    /// Whether a gang header lies there instead of the data.
    pub gang: bool,
}

impl Dva {
    /// The address in two words; `None` when it is unused.
    #[must_use]
    pub const fn from_words(words: [u64; 2]) -> Option<Self> {
        let asize = DVA_ALLOCATED_SIZE.get(words[0]) << SECTOR_SHIFT;
        if asize == 0 {
            return None;
        }
        Some(Self {
            vdev: VdevId(DVA_VDEV.get(words[0])),
            offset: DVA_OFFSET.get(words[1]) << SECTOR_SHIFT,
            asize,
            gang: DVA_GANG.get(words[1]) == 1,
        })
    }

    /// The two words of the address.
    #[must_use]
    pub const fn to_words(self) -> [u64; 2] {
        let first = DVA_VDEV.set(
            DVA_ALLOCATED_SIZE.set(0, self.asize >> SECTOR_SHIFT),
            self.vdev.0,
        );
        let second = DVA_OFFSET.set(0, self.offset >> SECTOR_SHIFT);
        [first, DVA_GANG.set(second, self.gang as u64)]
    }
}

impl fmt::Display for Dva {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:x}:{:x}", self.vdev, self.offset, self.asize)
    }
}

/// What an embedded pointer holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EmbeddedKind {
    /// The block's (compressed) bytes.
    Data,
    /// Reserved; never data.
    Reserved,
    /// The block was left out of a redacted stream.
    Redacted,
    /// A number that no version writes.
    Unknown(u8),
}

/// A block pointer's sixteen words in host order.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlockPointer {
    /// The words.
    pub words: [u64; 16],
}

impl Default for BlockPointer {
    fn default() -> Self {
        Self::HOLE
    }
}

impl BlockPointer {
    /// The block pointer of nothing: never written.
    pub const HOLE: Self = Self { words: [0; 16] };

    /// A hole that remembers when it became one (feature `hole_birth`).
    #[must_use]
    pub fn hole_with_birth(lsize: u64, object_type: ObjectType, level: u8, birth: Txg) -> Self {
        let mut hole = Self::HOLE;
        hole.set(LOGICAL_SIZE, (lsize >> SECTOR_SHIFT).wrapping_sub(1));
        hole.set_kind(object_type, level);
        hole.set_birth(birth, Txg(0));
        hole
    }

    /// An empty pointer to a block that we write: host byte order, no address yet.
    #[must_use]
    pub fn for_block(object_type: ObjectType, level: u8, lsize: u64, psize: u64) -> Self {
        let mut pointer = Self::HOLE;
        pointer.set_kind(object_type, level);
        pointer.set_sizes(lsize, psize);
        pointer.set_byte_order(ByteOrder::NATIVE);
        pointer
    }

    /// An embedded pointer; `None` when the payload or sizes do not fit one.
    #[must_use]
    pub fn embedded(
        object_type: ObjectType,
        lsize: u64,
        compression: Compression,
        birth: Txg,
        payload: &[u8],
    ) -> Option<Self> {
        if payload.is_empty() || payload.len() > EMBEDDED_PAYLOAD_MAX {
            return None;
        }
        if lsize == 0 || lsize > BLOCK_SIZE_MAX {
            return None;
        }
        let mut pointer = Self::HOLE;
        pointer.set(EMBEDDED, 1);
        pointer.set(EMBEDDED_LOGICAL_SIZE, lsize - 1);
        pointer.set(EMBEDDED_PHYSICAL_SIZE, payload.len() as u64 - 1);
        pointer.set_compression(compression);
        pointer.set_kind(object_type, 0);
        pointer.set_byte_order(ByteOrder::NATIVE);
        pointer.words[LOGICAL_BIRTH] = birth.0;
        pointer.set_payload_words(get_at(payload, 0, ByteOrder::Little));
        Some(pointer)
    }

    /// The pointer of a block that was left out of a redacted stream.
    #[must_use]
    pub fn redacted(object_type: ObjectType, lsize: u64, birth: Txg) -> Self {
        let mut pointer = Self::HOLE;
        pointer.set(EMBEDDED, 1);
        pointer.set(EMBEDDED_KIND, REDACTED_KIND.into());
        pointer.set(EMBEDDED_LOGICAL_SIZE, lsize.saturating_sub(1));
        pointer.set_compression(Compression::Off);
        pointer.set_kind(object_type, 0);
        pointer.set_byte_order(ByteOrder::NATIVE);
        pointer.words[LOGICAL_BIRTH] = birth.0;
        pointer
    }

    /// Reads a pointer from the head of `bytes`.
    ///
    /// # Errors
    /// When there are fewer than 128 bytes.
    pub fn decode(bytes: &[u8], order: ByteOrder) -> Result<Self, FormatError> {
        require("block pointer", bytes, SIZE)?;
        Ok(Self {
            words: get_at(bytes, 0, order),
        })
    }

    /// Writes the pointer to the head of `bytes`; what has no room is left out.
    pub fn encode(&self, bytes: &mut [u8], order: ByteOrder) {
        put_at(bytes, 0, &self.words, order);
    }

    fn property(&self, bits: Bits) -> u64 {
        bits.get(self.words[PROPERTIES])
    }

    fn flag(&self, bits: Bits) -> bool {
        self.property(bits) != 0
    }

    fn set(&mut self, bits: Bits, value: u64) {
        self.words[PROPERTIES] = bits.set(self.words[PROPERTIES], value);
    }

    /// Whether the payload lies in the pointer itself.
    #[must_use]
    pub fn is_embedded(&self) -> bool {
        self.flag(EMBEDDED)
    }

    /// Whether the pointer points nowhere: the block reads as zeros.
    #[must_use]
    pub fn is_hole(&self) -> bool {
        !self.is_embedded() && self.words[0] == 0 && self.words[1] == 0
    }

    /// Whether the block is stored in pieces behind a gang header.
    #[must_use]
    pub fn is_gang(&self) -> bool {
        !self.is_embedded() && DVA_GANG.get(self.words[1]) == 1
    }

    /// The word of sizes, numbers and flags.
    #[must_use]
    pub const fn properties(&self) -> u64 {
        let [.., properties, _, _, _, _, _, _, _, _, _] = self.words;
        properties
    }

    /// Says whether the dedup table counts the block's references.
    pub fn set_dedup(&mut self, counted: bool) {
        self.set(DEDUP, counted.into());
    }

    /// Whether the dedup table counts the block's references.
    #[must_use]
    pub fn is_dedup(&self) -> bool {
        !self.is_embedded() && self.flag(DEDUP)
    }

    /// Whether the pointer uses encryption (X): ciphertext, authenticated, or MACs of children.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        self.flag(ENCRYPTED)
    }

    /// What an embedded pointer holds; `None` for every other pointer.
    #[must_use]
    pub fn embedded_kind(&self) -> Option<EmbeddedKind> {
        self.is_embedded().then(|| match self.embedded_number() {
            0 => EmbeddedKind::Data,
            1 => EmbeddedKind::Reserved,
            REDACTED_KIND => EmbeddedKind::Redacted,
            other => EmbeddedKind::Unknown(other),
        })
    }

    /// The number of what an embedded pointer holds; of another pointer, of its checksum.
    #[must_use]
    pub fn embedded_number(&self) -> u8 {
        EMBEDDED_KIND.get_u8(self.words[PROPERTIES])
    }

    /// Whether the block was left out of a redacted stream.
    #[must_use]
    pub fn is_redacted(&self) -> bool {
        self.embedded_kind() == Some(EmbeddedKind::Redacted)
    }

    /// The byte order of the block that is pointed to.
    #[must_use]
    pub fn byte_order(&self) -> ByteOrder {
        if self.flag(LITTLE_ENDIAN) {
            ByteOrder::Little
        } else {
            ByteOrder::Big
        }
    }

    /// The level: 0 is data.
    #[must_use]
    pub fn level(&self) -> u8 {
        if self.is_embedded() {
            return 0;
        }
        LEVEL.get_u8(self.words[PROPERTIES])
    }

    /// The type of the object that the block belongs to.
    #[must_use]
    pub fn object_type(&self) -> ObjectType {
        ObjectType(TYPE.get_u8(self.words[PROPERTIES]))
    }

    /// Logical size in bytes; 0 for a hole that was never written.
    #[must_use]
    pub fn lsize(&self) -> u64 {
        if self.is_embedded() {
            return self.property(EMBEDDED_LOGICAL_SIZE) + 1;
        }
        if self.words[PROPERTIES] == 0 {
            return 0;
        }
        (self.property(LOGICAL_SIZE) + 1) << SECTOR_SHIFT
    }

    /// Physical size in bytes (as stored, once); the payload's length when embedded; 0 for holes.
    #[must_use]
    pub fn psize(&self) -> u64 {
        if self.is_embedded() {
            return self.property(EMBEDDED_PHYSICAL_SIZE) + 1;
        }
        if self.is_hole() {
            return 0;
        }
        (self.property(PHYSICAL_SIZE) + 1) << SECTOR_SHIFT
    }

    /// The checksum's number.
    #[must_use]
    pub fn checksum_id(&self) -> u8 {
        if self.is_embedded() {
            return Checksum::Off.id();
        }
        CHECKSUM_KIND.get_u8(self.words[PROPERTIES])
    }

    /// The checksum.
    ///
    /// # Errors
    /// When no checksum has the stored number.
    pub fn checksum(&self) -> Result<Checksum, FormatError> {
        Checksum::from_id(self.checksum_id()).map_err(|_| self.invalid("checksum"))
    }

    /// The compression's number.
    #[must_use]
    pub fn compression_id(&self) -> u8 {
        COMPRESSION.get_u8(self.words[PROPERTIES])
    }

    /// The compression (of zstd, the level is in the block's own header).
    ///
    /// # Errors
    /// When no compression has the stored number.
    pub fn compression(&self) -> Result<Compression, FormatError> {
        Compression::from_id(self.compression_id()).map_err(|_| self.invalid("compression"))
    }

    /// Logical birth: the txg since which the place has this content; for a hole, the txg it became one (0: never
    /// written). By it is told what an increment has to send.
    #[must_use]
    pub fn birth(&self) -> Txg {
        Txg(self.words[LOGICAL_BIRTH])
    }

    /// Physical birth: the txg whose allocation the data lies in.
    #[must_use]
    pub fn physical_birth(&self) -> Txg {
        if self.is_embedded() || self.words[PHYSICAL_BIRTH] == 0 {
            return self.birth();
        }
        Txg(self.words[PHYSICAL_BIRTH])
    }

    /// The txg since which the dataset has this pointer, and is charged with it: snapshots before it have another one,
    /// those since have this. It is the logical birth, but of a block that was [written anew](Self::is_rewritten).
    #[must_use]
    pub fn space_birth(&self) -> Txg {
        if self.is_rewritten() {
            return self.physical_birth();
        }
        self.birth()
    }

    /// Whether the block was written anew by `zfs rewrite -P`, at its physical birth, and kept its logical one.
    #[must_use]
    pub fn is_rewritten(&self) -> bool {
        !self.is_embedded() && REWRITTEN.get(self.words[MORE_PROPERTIES]) == 1
    }

    /// How many blocks (dnodes, objects) lie below; 1 for data and embedded blocks, 0 for holes.
    #[must_use]
    pub fn fill(&self) -> u64 {
        if self.is_embedded() {
            return 1;
        }
        if self.is_encrypted() && self.level() == 0 && self.object_type().is_encrypted() {
            return self.words[FILL] & u64::from(u32::MAX);
        }
        self.words[FILL]
    }

    /// The address of one copy; `None` when there is no such copy.
    #[must_use]
    pub fn dva(&self, index: usize) -> Option<Dva> {
        if self.is_embedded() {
            return None;
        }
        let encrypted = self.is_encrypted() && self.level() == 0;
        if encrypted && index == 2 && self.object_type().is_encrypted() {
            return None; // salt and initialisation vector
        }
        let first = index.checked_mul(2)?;
        if index >= DVA_COUNT {
            return None;
        }
        Dva::from_words([*self.words.get(first)?, *self.words.get(first + 1)?])
    }

    /// The addresses of all copies.
    pub fn dvas(&self) -> impl Iterator<Item = Dva> + use<> {
        let pointer = *self;
        (0..DVA_COUNT).map_while(move |index| pointer.dva(index))
    }

    /// How many copies there are.
    #[must_use]
    pub fn copies(&self) -> usize {
        self.dvas().count()
    }

    /// The sum over all copies of what they allocate, in bytes.
    #[must_use]
    pub fn asize(&self) -> u64 {
        self.dvas().map(|dva| dva.asize).sum()
    }

    /// What datasets are charged as compressed size: the physical one, none when embedded.
    #[must_use]
    pub fn compressed_charge(&self) -> u64 {
        if self.is_embedded() { 0 } else { self.psize() }
    }

    /// What datasets are charged as uncompressed size: as [`Self::compressed_charge`] for
    /// metadata, logical for data.
    #[must_use]
    pub fn uncompressed_charge(&self) -> u64 {
        if self.is_hole() {
            return 0;
        }
        if self.object_type().is_metadata() || self.level() > 0 {
            return self.compressed_charge();
        }
        self.lsize()
    }

    /// The stored sum.
    #[must_use]
    pub fn checksum_value(&self) -> ChecksumValue {
        let [.., a, b, c, d] = self.words;
        ChecksumValue([a, b, c, d])
    }

    const fn payload_words(&self) -> [u64; PAYLOAD_WORDS] {
        let [a, b, c, d, e, f, _, g, h, i, _, j, k, l, m, n] = self.words;
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
    }

    const fn set_payload_words(&mut self, words: [u64; PAYLOAD_WORDS]) {
        let [.., properties, _, _, _, birth, _, _, _, _, _] = self.words;
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = words;
        self.words = [a, b, c, d, e, f, properties, g, h, i, birth, j, k, l, m, n];
    }

    /// Copies an embedded pointer's payload; the result is how many bytes of it count.
    #[must_use]
    pub fn embedded_payload(&self, payload: &mut [u8; EMBEDDED_PAYLOAD_MAX]) -> usize {
        for (word, chunk) in self.payload_words().iter().zip(payload.as_chunks_mut().0) {
            *chunk = word.to_le_bytes();
        }
        usize::try_from(self.psize())
            .map_or(EMBEDDED_PAYLOAD_MAX, |size| size.min(EMBEDDED_PAYLOAD_MAX))
    }

    /// Sets logical and physical size, in bytes.
    pub fn set_sizes(&mut self, lsize: u64, psize: u64) {
        self.set(LOGICAL_SIZE, (lsize >> SECTOR_SHIFT).wrapping_sub(1));
        self.set(PHYSICAL_SIZE, (psize >> SECTOR_SHIFT).wrapping_sub(1));
    }

    /// Sets the object type and level.
    pub fn set_kind(&mut self, object_type: ObjectType, level: u8) {
        self.set(TYPE, u64::from(object_type.0));
        self.set(LEVEL, u64::from(level));
    }

    /// Sets the byte order of what is pointed to.
    pub fn set_byte_order(&mut self, order: ByteOrder) {
        self.set(LITTLE_ENDIAN, u64::from(order == ByteOrder::Little));
    }

    /// Sets the compression.
    pub fn set_compression(&mut self, compression: Compression) {
        self.set(COMPRESSION, u64::from(compression.id()));
    }

    /// Sets the checksum and its value.
    pub fn set_checksum(&mut self, kind: Checksum, value: ChecksumValue) {
        self.set(CHECKSUM_KIND, u64::from(kind.id()));
        self.words[CHECKSUM..].copy_from_slice(&value.0);
    }

    /// Sets the births of a pointer whose content is as old as itself; a physical birth equal to the logical one is
    /// stored as 0.
    pub fn set_birth(&mut self, logical: Txg, physical: Txg) {
        self.words[LOGICAL_BIRTH] = logical.0;
        self.words[PHYSICAL_BIRTH] = if physical == logical { 0 } else { physical.0 };
        self.set_rewritten(false);
    }

    /// Sets the births of a block that was written anew and is what it was since `logical`. An embedded pointer has no
    /// room for two: it stays as it is.
    pub fn set_rewritten_birth(&mut self, logical: Txg, physical: Txg) {
        if !self.is_embedded() && logical < physical {
            self.set_birth(logical, physical);
            self.set_rewritten(true);
        }
    }

    fn set_rewritten(&mut self, rewritten: bool) {
        // The payload of an embedded pointer lies here.
        if !self.is_embedded() {
            let word = &mut self.words[MORE_PROPERTIES];
            *word = REWRITTEN.set(*word, rewritten.into());
        }
    }

    /// Sets the fill count.
    pub fn set_fill(&mut self, fill: u64) {
        self.words[FILL] = fill;
    }

    /// Sets the address of copy `index`; `None` clears it. An index past the last is ignored.
    pub fn set_dva(&mut self, index: usize, dva: Option<Dva>) {
        let (pairs, _) = self.words.as_chunks_mut();
        if let Some(pair) = pairs.iter_mut().take(DVA_COUNT).nth(index) {
            *pair = dva.map_or([0; 2], Dva::to_words);
        }
    }

    /// Sets the addresses of all copies.
    pub fn set_dvas(&mut self, dvas: &[Dva]) {
        for index in 0..DVA_COUNT {
            self.set_dva(index, dvas.get(index).copied());
        }
    }

    /// Whether both pointers name the same stored block: same first address and births. (Equal
    /// contents elsewhere are another block.)
    #[must_use]
    pub fn same_block(&self, other: &Self) -> bool {
        self.words[..2] == other.words[..2]
            && self.birth() == other.birth()
            && self.physical_birth() == other.physical_birth()
            && self.is_embedded() == other.is_embedded()
    }

    fn invalid(&self, field: &'static str) -> FormatError {
        FormatError::Invalid {
            what: "block pointer",
            field,
            value: self.words[PROPERTIES],
        }
    }

    /// Whether a pointer from disk makes sense by itself: known numbers, sizes in range, births
    /// not after `now`. (Whether the addresses lie in the pool, only the pool can say.)
    ///
    /// # Errors
    /// [`FormatError::Invalid`] naming the first field that is wrong.
    pub fn check(&self, now: Txg) -> Result<(), FormatError> {
        if self.words == Self::HOLE.words {
            return Ok(());
        }
        if !self.object_type().is_valid() {
            return Err(self.invalid("object type"));
        }
        if self.birth() > now || (!self.is_embedded() && self.physical_birth() > now) {
            return Err(FormatError::Invalid {
                what: "block pointer",
                field: "birth",
                value: self.birth().0.max(self.physical_birth().0),
            });
        }
        if self.is_hole() {
            return Ok(());
        }
        self.compression()?;
        if self.is_embedded() {
            return self.check_embedded();
        }
        self.checksum()?;
        if self.lsize() > BLOCK_SIZE_MAX || self.psize() > BLOCK_SIZE_MAX {
            return Err(self.invalid("size"));
        }
        if self.compression().is_ok_and(|kind| kind.is_off()) && self.lsize() != self.psize() {
            return Err(self.invalid("physical size"));
        }
        Ok(())
    }

    fn check_embedded(&self) -> Result<(), FormatError> {
        if matches!(
            self.embedded_kind(),
            None | Some(EmbeddedKind::Unknown(_) | EmbeddedKind::Reserved)
        ) {
            return Err(self.invalid("embedded kind"));
        }
        if self.is_redacted() {
            return Ok(());
        }
        if self.psize() > EMBEDDED_PAYLOAD_MAX as u64 || self.lsize() > BLOCK_SIZE_MAX {
            return Err(self.invalid("embedded size"));
        }
        Ok(())
    }
}

impl fmt::Debug for BlockPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// As `zdb` prints it.
impl fmt::Display for BlockPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.object_type().name();
        let (level, lsize, birth) = (self.level(), self.lsize(), self.birth());
        let compression = self.compression().map_or("unknown", |kind| kind.name());
        if self.is_hole() {
            write!(f, "HOLE [L{level} {kind}] size={lsize:x}L birth={birth}L")?;
            return Ok(());
        }
        let psize = self.psize();
        if self.is_embedded() {
            let number = self.embedded_number();
            return write!(
                f,
                "EMBEDDED [L0 {kind}] et={number} {compression} size={lsize:x}L/{psize:x}P \
                 birth={birth}L"
            );
        }
        for (index, dva) in self.dvas().enumerate() {
            write!(f, "DVA[{index}]=<{dva}> ")?;
        }
        let checksum = self.checksum().map_or("unknown", Checksum::name);
        let crypt = match (self.is_encrypted(), level) {
            (false, _) => "unencrypted",
            (true, 1..) => "indirect-MAC",
            (true, 0) if self.object_type().is_encrypted() => "encrypted",
            (true, 0) => "authenticated",
        };
        let order = match self.byte_order() {
            ByteOrder::Little => "LE",
            ByteOrder::Big => "BE",
        };
        let layout = if self.is_gang() { "gang" } else { "contiguous" };
        let unique = if self.is_dedup() { "dedup" } else { "unique" };
        let copies = match self.copies() {
            1 => "single",
            2 => "double",
            _ => "triple",
        };
        let ChecksumValue([a, b, c, d]) = self.checksum_value();
        write!(
            f,
            "[L{level} {kind}] {checksum} {compression} {crypt} {order} {layout} {unique} \
             {copies} size={lsize:x}L/{psize:x}P birth={birth}L/{}P fill={} \
             cksum={a:016x}:{b:016x}:{c:016x}:{d:016x}",
            self.physical_birth(),
            self.fill(),
        )
    }
}

impl Plain for BlockPointer {
    const WIDTH: usize = 128;
    #[inline]
    fn get(bytes: &[u8], order: ByteOrder) -> Self {
        Self {
            words: Plain::get(bytes, order),
        }
    }
    fn put(&self, bytes: &mut [u8], order: ByteOrder) {
        self.words.put(bytes, order);
    }
    const KIND: &'static str = "blkptr";
    fn swap(bytes: &mut [u8]) {
        <[u64; 16]>::swap(bytes);
    }
    fn show(&self) -> Shown {
        Shown::Text(self.to_string())
    }
}

#[cfg(test)]
mod tests;
