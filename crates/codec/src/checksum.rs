//! The checksum table and its one entry point.

mod edonr;
mod fletcher;
mod skein;
#[cfg(test)]
mod tests;

use base::ByteOrder;
use sha2::Digest;

use crate::CodecError;

/// The checksum algorithms that a block pointer can name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Checksum {
    /// No checksum: the words are zero and never verified.
    Off = 2,
    /// SHA-256 embedded in a label structure.
    Label = 3,
    /// SHA-256 embedded in a gang header.
    GangHeader = 4,
    /// fletcher2 embedded at the end of an old intent log block.
    Zilog = 5,
    /// Four running sums over pairs of 64-bit words.
    Fletcher2 = 6,
    /// Four running sums over 32-bit words; the default ("on").
    Fletcher4 = 7,
    /// SHA-256.
    Sha256 = 8,
    /// fletcher4 embedded at the front of an intent log block.
    Zilog2 = 9,
    /// As [`Checksum::Off`], on pools without parity protection.
    NoParity = 10,
    /// SHA-512/256.
    Sha512 = 11,
    /// Skein-512-256 keyed by the pool's salt.
    Skein = 12,
    /// Edon-R-512 keyed by the pool's salt.
    Edonr = 13,
    /// BLAKE3 keyed by the pool's salt.
    Blake3 = 14,
}

impl Checksum {
    /// Every checksum, by number.
    pub const ALL: [Self; 13] = [
        Self::Off,
        Self::Label,
        Self::GangHeader,
        Self::Zilog,
        Self::Fletcher2,
        Self::Fletcher4,
        Self::Sha256,
        Self::Zilog2,
        Self::NoParity,
        Self::Sha512,
        Self::Skein,
        Self::Edonr,
        Self::Blake3,
    ];

    /// The number on disk.
    #[must_use]
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The checksum with this number on disk.
    pub fn from_id(id: u8) -> Result<Self, CodecError> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.id() == id)
            .ok_or(CodecError::UnknownChecksum(id))
    }

    /// The name that properties and listings use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Label => "label",
            Self::GangHeader => "gang_header",
            Self::Zilog => "zilog",
            Self::Fletcher2 => "fletcher2",
            Self::Fletcher4 => "fletcher4",
            Self::Sha256 => "sha256",
            Self::Zilog2 => "zilog2",
            Self::NoParity => "noparity",
            Self::Sha512 => "sha512",
            Self::Skein => "skein",
            Self::Edonr => "edonr",
            Self::Blake3 => "blake3",
        }
    }

    /// Whether blocks carry no checksum at all under this number.
    #[must_use]
    pub const fn is_off(self) -> bool {
        matches!(self, Self::Off | Self::NoParity)
    }

    /// Whether the sum lives inside the block (label, gang header, intent log) and is verified
    /// with a verifier of its own rather than against the block pointer.
    #[must_use]
    pub const fn is_embedded(self) -> bool {
        matches!(
            self,
            Self::Label | Self::GangHeader | Self::Zilog | Self::Zilog2
        )
    }

    /// Whether metadata may use it.
    #[must_use]
    pub const fn is_metadata_safe(self) -> bool {
        matches!(
            self,
            Self::Label
                | Self::GangHeader
                | Self::Fletcher4
                | Self::Sha256
                | Self::Sha512
                | Self::Skein
                | Self::Edonr
                | Self::Blake3
        )
    }

    /// Whether equal sums are taken to mean equal blocks without comparing them.
    #[must_use]
    pub const fn is_dedup_safe(self) -> bool {
        matches!(
            self,
            Self::Sha256 | Self::Sha512 | Self::Skein | Self::Blake3
        )
    }

    /// Whether a rewrite with the same sum may keep the old block.
    #[must_use]
    pub const fn is_nopwrite_safe(self) -> bool {
        self.is_dedup_safe() || matches!(self, Self::Edonr)
    }

    /// Whether the sum depends on the pool's salt.
    #[must_use]
    pub const fn is_salted(self) -> bool {
        matches!(self, Self::Skein | Self::Edonr | Self::Blake3)
    }
}

/// The four words of a checksum, as a block pointer of the block's writer holds them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
pub struct ChecksumValue(pub [u64; 4]);

/// Fletcher-4 of bytes that come in pieces. Each piece but the last is a multiple of four bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunningFletcher4 {
    sums: [u64; 4],
}

impl RunningFletcher4 {
    /// The sum of nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { sums: [0; 4] }
    }

    /// Goes on with more bytes, whose writer had byte order `order`.
    pub fn feed(&mut self, data: &[u8], order: ByteOrder) {
        self.sums = fletcher::fletcher4_after(self.sums, data, order);
    }

    /// The sum of everything so far.
    #[must_use]
    pub const fn value(&self) -> ChecksumValue {
        ChecksumValue(self.sums)
    }
}

/// The pool's checksum salt (MOS directory entry `org.illumos:checksum_salt`).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Salt(pub [u8; 32]);

impl std::fmt::Debug for Salt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Salt(..)")
    }
}

/// The checksum of `data`, whose writer had byte order `order`.
///
/// Embedded kinds give the plain hash of all of `data` (SHA-256, fletcher2 or fletcher4); putting
/// the verifier in place is the caller's part. `Off` gives zeros.
#[must_use]
pub fn checksum(kind: Checksum, data: &[u8], order: ByteOrder, salt: &Salt) -> ChecksumValue {
    let words = match kind {
        Checksum::Off | Checksum::NoParity => [0; 4],
        Checksum::Fletcher2 | Checksum::Zilog => fletcher::fletcher2(data, order),
        Checksum::Fletcher4 | Checksum::Zilog2 => fletcher::fletcher4(data, order),
        Checksum::Label | Checksum::GangHeader | Checksum::Sha256 => {
            words_of(&sha2::Sha256::digest(data).into(), ByteOrder::Big)
        }
        Checksum::Sha512 => words_of(&sha512_256(data), order),
        Checksum::Skein => words_of(&skein::skein_512_256(&salt.0, data), order),
        Checksum::Edonr => words_of(&edonr::salted(&salt.0, data), order),
        Checksum::Blake3 => words_of(blake3::keyed_hash(&salt.0, data).as_bytes(), order),
    };
    ChecksumValue(words)
}

/// By the library whose kernel uses vectors.
fn sha512_256(data: &[u8]) -> [u8; 32] {
    let digest = ring::digest::digest(&ring::digest::SHA512_256, data);
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest.as_ref());
    bytes
}

/// A digest as four words read in `order`.
fn words_of(digest: &[u8; 32], order: ByteOrder) -> [u64; 4] {
    let (words, _) = digest.as_chunks::<8>();
    std::array::from_fn(|index| order.u64(words[index]))
}
