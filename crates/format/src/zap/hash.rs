//! CRC-64 of a name, started with the ZAP's salt; only its top bits count.

use crate::bits::low_u8;
use crate::zap::fat::FatHeader;

/// How keys are hashed in one ZAP, from its header's flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashKind {
    /// Bits of the hash that count: 28 or 48.
    pub bits: u32,
    /// Keys are arrays of u64.
    pub words: bool,
    /// The first word of a key is its hash already.
    pub hashed: bool,
}

impl HashKind {
    /// Micro ZAPs and fat ones without flags.
    pub const PLAIN: Self = Self {
        bits: 28,
        words: false,
        hashed: false,
    };

    /// The kind that a fat header's flags say.
    #[must_use]
    pub const fn from_flags(flags: u64) -> Self {
        Self {
            bits: if flags & FatHeader::FLAG_HASH_48 != 0 {
                48
            } else {
                28
            },
            words: flags & FatHeader::FLAG_WORD_KEYS != 0,
            hashed: flags & FatHeader::FLAG_HASHED_KEYS != 0,
        }
    }

    /// The highest collision differentiator.
    #[must_use]
    pub const fn differentiator_max(self) -> u32 {
        if self.bits == 48 {
            u16::MAX as u32
        } else {
            u32::MAX
        }
    }

    const fn cut(self, hash: u64) -> u64 {
        hash & !((1 << (64 - self.bits)) - 1)
    }
}

const POLYNOMIAL: u64 = 0xC96C_5795_D787_0F42;

const fn table() -> [u64; 256] {
    let mut table = [0; 256];
    let mut index = 0;
    let mut rest = table.as_mut_slice();
    while let [entry, after @ ..] = rest {
        let mut value = index;
        let mut bit = 0;
        while bit < 8 {
            value = (value >> 1) ^ if value & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        *entry = value;
        index += 1;
        rest = after;
    }
    table
}

static TABLE: [u64; 256] = table();

/// CRC-64 (reflected ECMA-182) without a final inversion, started at `initial`.
#[must_use]
pub fn crc64(initial: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(initial, |hash, byte| {
        // No byte is beyond the table, which the compiler sees.
        (hash >> 8) ^ TABLE.get(usize::from(low_u8(hash) ^ byte)).unwrap_or(&0)
    })
}

/// The hash of a name that is already normalised with all of the ZAP's flags; no NUL.
#[must_use]
pub fn hash_name(kind: HashKind, salt: u64, normalized: &[u8]) -> u64 {
    kind.cut(crc64(salt, normalized))
}

/// The hash of a key of u64 words.
#[must_use]
pub fn hash_words(kind: HashKind, salt: u64, words: &[u64]) -> u64 {
    if kind.hashed {
        return kind.cut(words.first().copied().unwrap_or(0));
    }
    let hash = words
        .iter()
        .fold(salt, |hash, word| crc64(hash, &word.to_le_bytes()));
    kind.cut(hash)
}
