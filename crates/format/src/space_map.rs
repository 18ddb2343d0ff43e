//! Space maps: logs of allocated and freed ranges, as 64-bit words in host order.
//!
//! Source: the format notes on allocation; one-word, two-word and debug entries were checked on real pools.

use crate::FormatError;
use crate::bits::bits;
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
    #[doc(alias = "space_map_phys_t")]
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

bits! {
    /// A range in one word, in units of the map. The top bit is 0.
    pub struct OneWordEntry [64] {
        /// How many units, less 1.
        run: 15 = 0,
        /// 0 allocated, 1 freed.
        action: 1 = 15,
        /// The first unit.
        offset: 47 = 16,
    }
}

bits! {
    /// The first word of a range in two.
    pub struct TwoWordFirst [64] {
        /// The top-level vdev, in maps that speak of several; 0 elsewhere.
        vdev: 24 = 0,
        /// How many units, less 1.
        run: 36 = 24,
        /// 3.
        prefix: 2 = 62,
    }
}

bits! {
    /// The second word of a range in two.
    pub struct TwoWordSecond [64] {
        /// The first unit.
        offset: 63 = 0,
        /// 0 allocated, 1 freed.
        action: 1 = 63,
    }
}

bits! {
    /// A word that marks the beginning of a batch, or (all else 0) fills up a block.
    pub struct DebugEntry [64] {
        /// The txg.
        txg: 50 = 0,
        /// The sync pass.
        pass: 10 = 50,
        /// 0 allocated, 1 freed.
        action: 2 = 60,
        /// 2.
        prefix: 2 = 62,
    }
}

const DEBUG: u64 = DebugEntry::AT.prefix.set(0, 0b10);
const TWO_WORDS: u64 = TwoWordFirst::AT.prefix.set(0, 0b11);
const RUN_MAX_ONE_WORD: u64 = OneWordEntry::AT.run.mask() + 1;
const OFFSET_MAX_ONE_WORD: u64 = OneWordEntry::AT.offset.mask() + 1;
const RUN_MAX_TWO_WORDS: u64 = TwoWordFirst::AT.run.mask() + 1;

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
        let at = DebugEntry::AT;
        let word = at.pass.set(at.action.set(DEBUG, action.bit()), pass.into());
        self.word(at.txg.set(word, txg));
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
                let (first, second) = (TwoWordFirst::AT, TwoWordSecond::AT);
                self.word(
                    first
                        .vdev
                        .set(first.run.set(TWO_WORDS, run - 1), entry.vdev),
                );
                self.word(second.action.set(offset, entry.action.bit()));
            } else {
                let at = OneWordEntry::AT;
                let word = at.run.set(at.offset.set(0, offset), run - 1);
                self.word(at.action.set(word, entry.action.bit()));
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
            match DebugEntry::AT.prefix.get(word) {
                0b10 => {}
                0b11 => return Some(two_words(word, words.next(), shift)),
                _ => return Some(one_word(word, shift)),
            }
        }
    })
}

fn one_word(word: u64, shift: u32) -> Result<Entry, FormatError> {
    let at = OneWordEntry::AT;
    let action = Action::from_bit(at.action.get(word));
    entry(action, 0, at.offset.get(word), at.run.get(word) + 1, shift)
}

fn two_words(first: u64, second: Option<u64>, shift: u32) -> Result<Entry, FormatError> {
    let second = second.ok_or(FormatError::Invalid {
        what: "space map",
        field: "two-word entry",
        value: first,
    })?;
    let (head, tail) = (TwoWordFirst::AT, TwoWordSecond::AT);
    entry(
        Action::from_bit(tail.action.get(second)),
        head.vdev.get(first),
        tail.offset.get(second),
        head.run.get(first) + 1,
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
