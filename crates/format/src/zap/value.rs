//! A value of a ZAP entry: integers of one width, kept big-endian as in the leaf.

use crate::FormatError;

/// A value of a ZAP entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    integer_size: u8,
    bytes: Vec<u8>,
}

impl Value {
    /// From big-endian bytes of integers of `integer_size` bytes.
    ///
    /// # Errors
    /// When the size is none of 1, 2, 4 and 8, or the bytes are no whole number of integers.
    pub fn from_stored(integer_size: u8, bytes: Vec<u8>) -> Result<Self, FormatError> {
        let valid = matches!(integer_size, 1 | 2 | 4 | 8)
            && bytes.len().is_multiple_of(usize::from(integer_size));
        if !valid {
            return Err(FormatError::Invalid {
                what: "ZAP value",
                field: "integer size",
                value: integer_size.into(),
            });
        }
        Ok(Self {
            integer_size,
            bytes,
        })
    }

    /// One u64.
    #[must_use]
    pub fn word(value: u64) -> Self {
        Self::words(&[value])
    }

    /// An array of u64 that are big-endian bytes already; bytes that are no whole word are left out.
    #[must_use]
    pub fn of_words(bytes: &[u8]) -> Self {
        let whole = bytes.len() / 8 * 8;
        Self {
            integer_size: 8,
            bytes: bytes.get(..whole).unwrap_or_default().to_vec(),
        }
    }

    /// An array of u64.
    #[must_use]
    pub fn words(values: &[u64]) -> Self {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_be_bytes())
            .collect();
        Self {
            integer_size: 8,
            bytes,
        }
    }

    /// An array of u16.
    #[must_use]
    pub fn shorts(values: &[u16]) -> Self {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_be_bytes())
            .collect();
        Self {
            integer_size: 2,
            bytes,
        }
    }

    /// An array of bytes.
    #[must_use]
    pub fn bytes(values: &[u8]) -> Self {
        Self {
            integer_size: 1,
            bytes: values.to_vec(),
        }
    }

    /// A string with its NUL, as properties are stored.
    #[must_use]
    pub fn string(text: &str) -> Self {
        let mut bytes = text.as_bytes().to_vec();
        bytes.push(0);
        Self {
            integer_size: 1,
            bytes,
        }
    }

    /// Bytes of one integer.
    #[must_use]
    pub fn integer_size(&self) -> u8 {
        self.integer_size
    }

    /// Number of integers.
    #[must_use]
    pub fn count(&self) -> usize {
        self.bytes.len() / usize::from(self.integer_size)
    }

    /// The integers as stored: big-endian.
    #[must_use]
    pub fn stored(&self) -> &[u8] {
        &self.bytes
    }

    /// The only u64, when it is one.
    #[must_use]
    pub fn as_word(&self) -> Option<u64> {
        let bytes = <[u8; 8]>::try_from(self.bytes.as_slice()).ok()?;
        (self.integer_size == 8).then(|| u64::from_be_bytes(bytes))
    }

    /// The integers, whatever their width.
    #[must_use]
    pub fn to_words(&self) -> Vec<u64> {
        self.bytes
            .chunks_exact(usize::from(self.integer_size))
            .map(|bytes| {
                bytes
                    .iter()
                    .fold(0, |word, byte| word << 8 | u64::from(*byte))
            })
            .collect()
    }

    /// The text up to its NUL, when the value is bytes of UTF-8.
    #[must_use]
    pub fn as_text(&self) -> Option<&str> {
        if self.integer_size != 1 {
            return None;
        }
        let text = self.bytes.split(|byte| *byte == 0).next().unwrap_or(&[]);
        std::str::from_utf8(text).ok()
    }
}
