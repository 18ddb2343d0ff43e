//! Space maps: logs of allocated and freed ranges, as 64-bit words in host order.
//!
//! Source: the format notes on allocation; one-word, two-word and debug entries were checked on real pools.

use crate::FormatError;
use crate::record::record;

/// Whether a range was allocated or freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The range is in use from here on.
    Allocate,
    /// The range is free from here on.
    Free,
}

impl Action {
    const fn bit(self) -> u64 {
        match self {
            Self::Allocate => 0,
            Self::Free => 1,
        }
    }

    const fn from_bit(bit: u64) -> Self {
        if bit & 1 == 0 {
            Self::Allocate
        } else {
            Self::Free
        }
    }
}

/// One range of a space map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened to it.
    pub action: Action,
    /// The top-level vdev, in maps that speak of several (24 bits); 0 elsewhere.
    pub vdev: u64,
    /// First byte, from the start of what the map describes.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

record! {
    /// The bonus of a space map object: 24 bytes, or 320 with a histogram.
    pub struct SpaceMapPhys [320] {
        /// The map's own object number.
        object: u64 = 0,
        /// Bytes of valid entries.
        length: u64 = 8,
        /// Bytes allocated less bytes freed in this map.
        allocated: i64 = 16,
        /// How many free segments there are of 2^(i + shift) bytes and more; the last bucket takes all larger ones.
        histogram: [u64; 32] = 64,
    }
}

impl SpaceMapPhys {
    /// Bytes of the bonus before the histogram existed.
    pub const SIZE_PLAIN: usize = 24;
}

const DEBUG: u64 = 0b10 << 62;
const TWO_WORDS: u64 = 0b11 << 62;
const RUN_MAX_ONE_WORD: u64 = 1 << 15;
const OFFSET_MAX_ONE_WORD: u64 = 1 << 47;
const RUN_MAX_TWO_WORDS: u64 = 1 << 36;
const VDEV_MASK: u64 = (1 << 24) - 1;

/// Which entries a map may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One-word entries only: pools without the feature spacemap_v2.
    OneWord,
    /// Two-word entries where one word does not suffice.
    Mixed,
    /// Two-word entries only, with the vdev: log space maps.
    WithVdev,
}

/// Makes the words of a batch of entries that is appended to a map.
#[derive(Debug)]
pub struct Encoder {
    shift: u32,
    form: Form,
    block_size: usize,
    position: usize,
    bytes: Vec<u8>,
}

impl Encoder {
    /// An encoder for a map of `1 << shift`-byte units that already holds `position` bytes, in blocks of
    /// `block_size` bytes: no two-word entry straddles a block.
    #[must_use]
    pub fn new(shift: u32, form: Form, block_size: usize, position: usize) -> Self {
        Self {
            shift,
            form,
            block_size,
            position,
            bytes: Vec::new(),
        }
    }

    /// Marks the beginning of a batch with the action, the sync pass and the txg.
    pub fn debug(&mut self, action: Action, pass: u32, txg: u64) {
        let pass = u64::from(pass) & 0x3FF;
        self.word(DEBUG | action.bit() << 60 | pass << 50 | txg & ((1 << 50) - 1));
    }

    /// Appends a range. Offset and length are multiples of the unit.
    pub fn push(&mut self, entry: Entry) {
        let mut offset = entry.offset >> self.shift;
        let mut remaining = entry.length >> self.shift;
        while remaining > 0 {
            let two_words = match self.form {
                Form::OneWord => false,
                Form::WithVdev => true,
                Form::Mixed => offset >= OFFSET_MAX_ONE_WORD || remaining > RUN_MAX_ONE_WORD,
            };
            let run = remaining.min(if two_words {
                RUN_MAX_TWO_WORDS
            } else {
                RUN_MAX_ONE_WORD
            });
            if two_words {
                self.pad_to_block();
                self.word(TWO_WORDS | (run - 1) << 24 | entry.vdev & VDEV_MASK);
                self.word(entry.action.bit() << 63 | offset);
            } else {
                self.word(offset << 16 | entry.action.bit() << 15 | (run - 1));
            }
            offset += run;
            remaining -= run;
        }
    }

    fn pad_to_block(&mut self) {
        if (self.position + 8).is_multiple_of(self.block_size.max(16)) {
            self.word(DEBUG);
        }
    }

    fn word(&mut self, word: u64) {
        self.bytes.extend_from_slice(&word.to_ne_bytes());
        self.position += 8;
    }

    /// The words.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

/// Reads the entries of a map of `1 << shift`-byte units, in order.
///
/// # Errors
/// Each item may be a [`FormatError`]: a lone first half of a two-word entry, or a range past 2^64.
pub fn decode(bytes: &[u8], shift: u32) -> impl Iterator<Item = Result<Entry, FormatError>> + '_ {
    let mut words = bytes
        .as_chunks::<8>()
        .0
        .iter()
        .map(|word| u64::from_ne_bytes(*word));
    std::iter::from_fn(move || {
        loop {
            let word = words.next()?;
            match word >> 62 {
                0b10 => {}
                0b11 => return Some(two_words(word, words.next(), shift)),
                _ => return Some(one_word(word, shift)),
            }
        }
    })
}

fn one_word(word: u64, shift: u32) -> Result<Entry, FormatError> {
    let action = Action::from_bit(word >> 15);
    entry(
        action,
        0,
        word >> 16,
        (word & (RUN_MAX_ONE_WORD - 1)) + 1,
        shift,
    )
}

fn two_words(first: u64, second: Option<u64>, shift: u32) -> Result<Entry, FormatError> {
    let second = second.ok_or(FormatError::Invalid {
        what: "space map",
        field: "two-word entry",
        value: first,
    })?;
    let run = (first >> 24 & (RUN_MAX_TWO_WORDS - 1)) + 1;
    let offset = second & !(1 << 63);
    entry(
        Action::from_bit(second >> 63),
        first & VDEV_MASK,
        offset,
        run,
        shift,
    )
}

fn entry(
    action: Action,
    vdev: u64,
    offset: u64,
    run: u64,
    shift: u32,
) -> Result<Entry, FormatError> {
    let bytes = |units: u64| units.checked_mul(1_u64.checked_shl(shift)?);
    let valid = || {
        let (offset, length) = (bytes(offset)?, bytes(run)?);
        offset.checked_add(length)?;
        Some(Entry {
            action,
            vdev,
            offset,
            length,
        })
    };
    valid().ok_or(FormatError::Invalid {
        what: "space map",
        field: "range",
        value: offset,
    })
}

#[cfg(test)]
mod tests;
