//! Name-value lists: pool configurations, history records, extended attributes.
//!
//! Two encodings, XDR and native, of one in-memory [`NvList`]. Names and strings are bytes, for
//! nothing on disk promises UTF-8; accessors that give `&str` answer `None` for anything else.
//! Decoding allocates no more than a small multiple of the bytes it was given, and refuses lists
//! nested deeper than [`NESTING_MAX`].

mod codec;
mod native;
mod xdr;

#[cfg(test)]
mod tests;

use std::fmt;

pub use native::{decode_native, encode_native};
pub use xdr::{decode_xdr, encode_xdr};

/// The deepest nesting that OpenZFS reads.
pub const NESTING_MAX: u32 = 20;
/// Flag of a list whose names are unique.
pub const UNIQUE_NAME: u32 = 1;

/// A value of a pair.
#[derive(Clone, PartialEq, Debug)]
pub enum Value {
    /// A flag: there or not.
    Boolean,
    /// One byte.
    Byte(u8),
    /// Signed 16-bit number.
    Int16(i16),
    /// Unsigned 16-bit number.
    Uint16(u16),
    /// Signed 32-bit number.
    Int32(i32),
    /// Unsigned 32-bit number.
    Uint32(u32),
    /// Signed 64-bit number.
    Int64(i64),
    /// Unsigned 64-bit number.
    Uint64(u64),
    /// Bytes without NUL.
    String(Vec<u8>),
    /// Bytes.
    ByteArray(Vec<u8>),
    /// Signed 16-bit numbers.
    Int16Array(Vec<i16>),
    /// Unsigned 16-bit numbers.
    Uint16Array(Vec<u16>),
    /// Signed 32-bit numbers.
    Int32Array(Vec<i32>),
    /// Unsigned 32-bit numbers.
    Uint32Array(Vec<u32>),
    /// Signed 64-bit numbers.
    Int64Array(Vec<i64>),
    /// Unsigned 64-bit numbers.
    Uint64Array(Vec<u64>),
    /// Strings.
    StringArray(Vec<Vec<u8>>),
    /// High-resolution time, ns.
    HighResolutionTime(i64),
    /// A list.
    List(NvList),
    /// Lists.
    ListArray(Vec<NvList>),
    /// True or false.
    BooleanValue(bool),
    /// Signed 8-bit number.
    Int8(i8),
    /// Unsigned 8-bit number.
    Uint8(u8),
    /// Trues and falses.
    BooleanArray(Vec<bool>),
    /// Signed 8-bit numbers.
    Int8Array(Vec<i8>),
    /// Unsigned 8-bit numbers.
    Uint8Array(Vec<u8>),
}

impl Value {
    /// The type's number on disk.
    #[must_use]
    pub const fn type_number(&self) -> u32 {
        match self {
            Self::Boolean => 1,
            Self::Byte(_) => 2,
            Self::Int16(_) => 3,
            Self::Uint16(_) => 4,
            Self::Int32(_) => 5,
            Self::Uint32(_) => 6,
            Self::Int64(_) => 7,
            Self::Uint64(_) => 8,
            Self::String(_) => 9,
            Self::ByteArray(_) => 10,
            Self::Int16Array(_) => 11,
            Self::Uint16Array(_) => 12,
            Self::Int32Array(_) => 13,
            Self::Uint32Array(_) => 14,
            Self::Int64Array(_) => 15,
            Self::Uint64Array(_) => 16,
            Self::StringArray(_) => 17,
            Self::HighResolutionTime(_) => 18,
            Self::List(_) => 19,
            Self::ListArray(_) => 20,
            Self::BooleanValue(_) => 21,
            Self::Int8(_) => 22,
            Self::Uint8(_) => 23,
            Self::BooleanArray(_) => 24,
            Self::Int8Array(_) => 25,
            Self::Uint8Array(_) => 26,
        }
    }

    /// The number of elements as stored: 0 for a flag, 1 for scalars.
    #[must_use]
    pub fn element_count(&self) -> usize {
        match self {
            Self::Boolean => 0,
            Self::ByteArray(array) | Self::Uint8Array(array) => array.len(),
            Self::Int8Array(array) => array.len(),
            Self::Int16Array(array) => array.len(),
            Self::Uint16Array(array) => array.len(),
            Self::Int32Array(array) => array.len(),
            Self::Uint32Array(array) => array.len(),
            Self::Int64Array(array) => array.len(),
            Self::Uint64Array(array) => array.len(),
            Self::StringArray(array) => array.len(),
            Self::ListArray(array) => array.len(),
            Self::BooleanArray(array) => array.len(),
            Self::Byte(_)
            | Self::Int16(_)
            | Self::Uint16(_)
            | Self::Int32(_)
            | Self::Uint32(_)
            | Self::Int64(_)
            | Self::Uint64(_)
            | Self::String(_)
            | Self::HighResolutionTime(_)
            | Self::List(_)
            | Self::BooleanValue(_)
            | Self::Int8(_)
            | Self::Uint8(_) => 1,
        }
    }
}

macro_rules! value_from {
    ($($type:ty => $variant:ident;)*) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        })*
    };
}

value_from! {
    u64 => Uint64;
    i64 => Int64;
    u32 => Uint32;
    i32 => Int32;
    bool => BooleanValue;
    NvList => List;
    Vec<NvList> => ListArray;
    Vec<u64> => Uint64Array;
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::String(value.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::String(value.into_bytes())
    }
}

/// A list of named values in their stored order.
#[derive(Clone, PartialEq, Debug)]
pub struct NvList {
    flags: u32,
    pairs: Vec<(Vec<u8>, Value)>,
}

impl Default for NvList {
    fn default() -> Self {
        Self::new()
    }
}

impl NvList {
    /// An empty list of unique names, as pool configurations are.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_flags(UNIQUE_NAME)
    }

    /// An empty list with the given flag word.
    #[must_use]
    pub const fn with_flags(flags: u32) -> Self {
        Self {
            flags,
            pairs: Vec::new(),
        }
    }

    /// The flag word as stored.
    #[must_use]
    pub const fn flags(&self) -> u32 {
        self.flags
    }

    /// Whether there is no pair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The number of pairs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// The pairs in stored order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &Value)> {
        self.pairs.iter().map(|(name, value)| (&name[..], value))
    }

    /// Sets `name`; an earlier value of that name is replaced in its place.
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) -> &mut Self {
        let (name, value) = (name.as_ref(), value.into());
        match self.pairs.iter_mut().find(|(other, _)| other == name) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((name.to_vec(), value)),
        }
        self
    }

    /// Removes `name`; says what it was.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> Option<Value> {
        let name = name.as_ref();
        let index = self.pairs.iter().position(|(other, _)| other == name)?;
        Some(self.pairs.remove(index).1)
    }

    /// Appends without looking for an earlier pair of that name (decoders).
    fn push(&mut self, name: Vec<u8>, value: Value) {
        self.pairs.push((name, value));
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&Value> {
        let name = name.as_ref();
        let pair = self.pairs.iter().find(|(other, _)| other == name)?;
        Some(&pair.1)
    }

    /// Whether there is a pair of this name.
    #[must_use]
    pub fn contains(&self, name: impl AsRef<[u8]>) -> bool {
        self.get(name).is_some()
    }

    /// The u64 of this name.
    #[must_use]
    pub fn u64(&self, name: impl AsRef<[u8]>) -> Option<u64> {
        if let Value::Uint64(value) = self.get(name)? {
            Some(*value)
        } else {
            None
        }
    }

    /// The UTF-8 string of this name.
    #[must_use]
    pub fn str(&self, name: impl AsRef<[u8]>) -> Option<&str> {
        std::str::from_utf8(self.bytes(name)?).ok()
    }

    /// The bytes of the string or byte array of this name.
    #[must_use]
    pub fn bytes(&self, name: impl AsRef<[u8]>) -> Option<&[u8]> {
        if let Value::String(bytes) | Value::ByteArray(bytes) | Value::Uint8Array(bytes) =
            self.get(name)?
        {
            Some(bytes)
        } else {
            None
        }
    }

    /// The list of this name.
    #[must_use]
    pub fn list(&self, name: impl AsRef<[u8]>) -> Option<&NvList> {
        if let Value::List(list) = self.get(name)? {
            Some(list)
        } else {
            None
        }
    }

    /// The lists of this name; none when there is no such array.
    #[must_use]
    pub fn lists(&self, name: impl AsRef<[u8]>) -> &[NvList] {
        if let Some(Value::ListArray(lists)) = self.get(name) {
            lists
        } else {
            &[]
        }
    }

    /// The u64 array of this name; empty when there is none.
    #[must_use]
    pub fn u64s(&self, name: impl AsRef<[u8]>) -> &[u64] {
        if let Some(Value::Uint64Array(numbers)) = self.get(name) {
            numbers
        } else {
            &[]
        }
    }
}

/// As `zdb` prints a configuration, indented by four columns a level.
impl fmt::Display for NvList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self, f, 0)
    }
}

fn print(list: &NvList, f: &mut fmt::Formatter<'_>, depth: usize) -> fmt::Result {
    let indent = depth * 4;
    for (name, value) in list.iter() {
        let name = String::from_utf8_lossy(name);
        match value {
            Value::Boolean => writeln!(f, "{:indent$}{name}", "")?,
            Value::String(text) => {
                writeln!(
                    f,
                    "{:indent$}{name}: '{}'",
                    "",
                    String::from_utf8_lossy(text)
                )?;
            }
            Value::Uint64(number) => writeln!(f, "{:indent$}{name}: {number}", "")?,
            Value::Int64(number) => writeln!(f, "{:indent$}{name}: {number}", "")?,
            Value::Uint32(number) => writeln!(f, "{:indent$}{name}: {number}", "")?,
            Value::Int32(number) => writeln!(f, "{:indent$}{name}: {number}", "")?,
            Value::BooleanValue(flag) => writeln!(f, "{:indent$}{name}: {flag}", "")?,
            Value::Uint64Array(numbers) => {
                for (index, number) in numbers.iter().enumerate() {
                    writeln!(f, "{:indent$}{name}[{index}]: {number}", "")?;
                }
            }
            Value::List(inner) => {
                writeln!(f, "{:indent$}{name}:", "")?;
                print(inner, f, depth + 1)?;
            }
            Value::ListArray(inner) => {
                for (index, inner) in inner.iter().enumerate() {
                    writeln!(f, "{:indent$}{name}[{index}]:", "")?;
                    print(inner, f, depth + 1)?;
                }
            }
            // Not in configurations: with the type, so that nobody takes one for another.
            Value::Byte(_)
            | Value::Int16(_)
            | Value::Uint16(_)
            | Value::Int8(_)
            | Value::Uint8(_)
            | Value::HighResolutionTime(_)
            | Value::ByteArray(_)
            | Value::Int8Array(_)
            | Value::Uint8Array(_)
            | Value::Int16Array(_)
            | Value::Uint16Array(_)
            | Value::Int32Array(_)
            | Value::Uint32Array(_)
            | Value::Int64Array(_)
            | Value::BooleanArray(_)
            | Value::StringArray(_) => writeln!(f, "{:indent$}{name}: {value:?}", "")?,
        }
    }
    Ok(())
}
