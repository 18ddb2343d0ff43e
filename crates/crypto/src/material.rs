//! From what a user has to the wrapping key: 32 bytes, whatever the cipher.

use std::fmt;

use hmac::Hmac;
use sha1::Sha1;
use subtle::ConstantTimeEq;
use sys::Locked;
use zeroize::Zeroizing;

use crate::error::KeyError;
use crate::stack::with_clean_stack;

/// Bytes of a wrapping key.
pub(crate) const KEY_SIZE: usize = 32;
/// Digits of a wrapping key in hexadecimal.
pub(crate) const HEX_DIGITS: usize = 2 * KEY_SIZE;
/// How long a passphrase is.
pub(crate) const PASSPHRASE_BYTES: std::ops::RangeInclusive<usize> = 8..=512;
/// The fewest iterations that make a key of a passphrase.
pub const PBKDF2_ITERATIONS_MIN: u64 = 100_000;
/// As many as OpenZFS takes unless it is told otherwise.
pub const PBKDF2_ITERATIONS_DEFAULT: u64 = 350_000;
/// Who makes a key of a passphrase by no more than so many waits for seconds, not for minutes.
pub const PBKDF2_ITERATIONS_SECONDS: u64 = 20_000_000;

/// Declares the formats, each with its number and its word: the lists of all, of their words, and both ways between
/// format and number have each.
macro_rules! key_formats {
    ($($(#[$doc:meta])* $name:ident = $number:literal $word:literal,)*) => {
        /// What users have of a key (`keyformat`).
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum KeyFormat {
            $($(#[$doc])* $name,)*
        }

        impl KeyFormat {
            /// All of them.
            pub const ALL: [Self; [$($number),*].len()] = [$(Self::$name),*];

            /// What users call each, and its number; 0 is none.
            pub const WORDS: &[(&'static str, u64)] = &[("none", 0), $(($word, $number)),*];

            /// As it is stored.
            #[must_use]
            pub const fn number(self) -> u64 {
                match self {
                    $(Self::$name => $number,)*
                }
            }

            /// The format of a stored number; 0 is none.
            ///
            /// # Errors
            /// There is no such format.
            pub const fn from_number(number: u64) -> Result<Self, KeyError> {
                Ok(match number {
                    $($number => Self::$name,)*
                    _ => return Err(KeyError::Format(number)),
                })
            }
        }
    };
}

key_formats! {
    /// The 32 bytes.
    Raw = 1 "raw",
    /// These as 64 hexadecimal digits.
    Hex = 2 "hex",
    /// Words.
    Passphrase = 3 "passphrase",
}

impl KeyFormat {
    /// Whether the key is computed of it, with a salt and so many iterations.
    #[must_use]
    pub const fn is_derived(self) -> bool {
        match self {
            Self::Raw | Self::Hex => false,
            Self::Passphrase => true,
        }
    }

    /// As many bytes as there are of it, or at most: without the end of a line.
    #[must_use]
    pub const fn size_max(self) -> usize {
        match self {
            Self::Raw => KEY_SIZE,
            Self::Hex => HEX_DIGITS,
            Self::Passphrase => *PASSPHRASE_BYTES.end(),
        }
    }

    /// Whether it is read as so many bytes of any value, not as a line of text.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        match self {
            Self::Raw => true,
            Self::Hex | Self::Passphrase => false,
        }
    }
}

/// How a key is made of what users have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyMaterial {
    /// What they have.
    pub format: KeyFormat,
    /// Of a passphrase: the salt.
    pub salt: u64,
    /// Of a passphrase: how often it is hashed.
    pub iterations: u64,
}

/// The key that wraps the keys of datasets.
pub struct WrappingKey(Locked<[u8; KEY_SIZE]>);

impl WrappingKey {
    /// The key that was given as it is.
    ///
    /// # Errors
    /// It has another length, or there is no memory for it.
    pub fn from_raw(bytes: &[u8]) -> Result<Self, KeyError> {
        match bytes.len() {
            0..KEY_SIZE => return Err(KeyError::RawShort),
            KEY_SIZE => {}
            _ => return Err(KeyError::RawLong),
        }
        let mut key = Self::empty()?;
        key.0.copy_from_slice(bytes);
        Ok(key)
    }

    /// The key of what a user gave. A line's end after digits or a passphrase is none of theirs.
    ///
    /// # Errors
    /// It cannot be a key of that format.
    pub fn from_material(given: &[u8], material: KeyMaterial) -> Result<Self, KeyError> {
        match material.format {
            KeyFormat::Raw => Self::from_raw(given),
            KeyFormat::Hex => Self::from_hex(without_line_end(given)),
            KeyFormat::Passphrase => Self::from_passphrase(without_line_end(given), material),
        }
    }

    fn from_hex(digits: &[u8]) -> Result<Self, KeyError> {
        match digits.len() {
            0..HEX_DIGITS => return Err(KeyError::HexShort),
            HEX_DIGITS => {}
            _ => return Err(KeyError::HexLong),
        }
        let mut key = Self::empty()?;
        let (pairs, _) = digits.as_chunks::<2>();
        for (byte, pair) in key.0.iter_mut().zip(pairs) {
            for digit in pair {
                let value = char::from(*digit).to_digit(16).ok_or(KeyError::HexDigit)?;
                *byte = *byte << 4 | u8::try_from(value).unwrap_or_default();
            }
        }
        Ok(key)
    }

    fn from_passphrase(words: &[u8], material: KeyMaterial) -> Result<Self, KeyError> {
        if words.len() < *PASSPHRASE_BYTES.start() {
            return Err(KeyError::PassphraseShort);
        }
        if words.len() > *PASSPHRASE_BYTES.end() {
            return Err(KeyError::PassphraseLong);
        }
        let iterations = u32::try_from(material.iterations)
            .ok()
            .filter(|iterations| u64::from(*iterations) >= PBKDF2_ITERATIONS_MIN)
            .ok_or(KeyError::Iterations(material.iterations))?;
        let mut key = Self::empty()?;
        let salt = material.salt.to_le_bytes();
        with_clean_stack(|| pbkdf2::pbkdf2::<Hmac<Sha1>>(words, &salt, iterations, &mut *key.0))
            .map_err(|_| KeyError::WrongKey)?;
        Ok(key)
    }

    fn empty() -> Result<Self, KeyError> {
        Locked::new([0; KEY_SIZE])
            .map(Self)
            .map_err(KeyError::Memory)
    }

    /// Another copy, in memory of its own.
    ///
    /// # Errors
    /// There is none.
    pub fn copy(&self) -> Result<Self, KeyError> {
        Self::from_raw(&*self.0)
    }

    /// Whether two are the same.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.0.ct_eq(&*other.0).into()
    }

    /// The key as digits, to be handed to who keeps it.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(HEX_DIGITS));
        for byte in &*self.0 {
            for digit in [byte >> 4, byte & 15] {
                text.extend(char::from_digit(digit.into(), 16));
            }
        }
        text
    }

    pub(crate) fn bytes(&self) -> &[u8; KEY_SIZE] {
        &self.0
    }
}

/// Its bytes are nobody's business.
impl fmt::Debug for WrappingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WrappingKey")
    }
}

fn without_line_end(given: &[u8]) -> &[u8] {
    given.strip_suffix(b"\n").unwrap_or(given)
}

#[cfg(test)]
mod tests;
