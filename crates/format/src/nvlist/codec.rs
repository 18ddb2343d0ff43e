//! What both encodings share: numbers, a bounded reader, and the walk over value types.

use base::ByteOrder;

use super::{NvList, Value};
use crate::FormatError;

pub(super) const WHAT: &str = "nvlist";

pub(super) fn invalid(field: &'static str, value: u64) -> FormatError {
    FormatError::Invalid {
        what: WHAT,
        field,
        value,
    }
}

/// A number that a list can hold; wider than itself it is sign-extended.
pub(super) trait Number: Copy {
    /// Bytes in a native list and in memory.
    const WIDTH: usize;
    fn from_u64(value: u64) -> Self;
    fn to_u64(self) -> u64;
}

macro_rules! number {
    ($($type:ty)*) => {
        $(#[allow(
            clippy::cast_possible_truncation,
            clippy::cast_possible_wrap,
            clippy::cast_sign_loss,
            clippy::cast_lossless,
            reason = "each width and sign: cut and extended, as the encodings do it"
        )]
        impl Number for $type {
            const WIDTH: usize = size_of::<$type>();
            fn from_u64(value: u64) -> Self {
                value as $type
            }
            fn to_u64(self) -> u64 {
                self as u64
            }
        })*
    };
}

number!(i8 u8 i16 u16 i32 u32 i64 u64);

impl Number for bool {
    const WIDTH: usize = 4;
    fn from_u64(value: u64) -> Self {
        value & u64::from(u32::MAX) != 0
    }
    fn to_u64(self) -> u64 {
        u64::from(self)
    }
}

/// Bytes still to be read.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) order: ByteOrder,
}

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        let Some((head, rest)) = self.bytes.split_at_checked(length) else {
            return Err(FormatError::Truncated {
                what: WHAT,
                needed: length,
                available: self.bytes.len(),
            });
        };
        self.bytes = rest;
        Ok(head)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let Some((head, rest)) = self.bytes.split_first_chunk() else {
            return Err(FormatError::Truncated {
                what: WHAT,
                needed: N,
                available: self.bytes.len(),
            });
        };
        self.bytes = rest;
        Ok(*head)
    }

    pub(super) fn u16(&mut self) -> Result<u16, FormatError> {
        Ok(self.order.u16(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(self.order.u32(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, FormatError> {
        Ok(self.order.u64(self.array()?))
    }

    /// A length or count, which can exceed nothing that follows.
    pub(super) fn count(&mut self) -> Result<usize, FormatError> {
        Ok(self.u32()? as usize)
    }

    /// Refuses `count` elements of at least `width` bytes when they cannot be there.
    pub(super) fn expect(&self, count: usize, width: usize) -> Result<(), FormatError> {
        let needed = count.saturating_mul(width);
        if needed > self.bytes.len() {
            return Err(FormatError::Truncated {
                what: WHAT,
                needed,
                available: self.bytes.len(),
            });
        }
        Ok(())
    }
}

/// How one encoding reads the parts of a value.
pub(super) trait Decode {
    fn number<T: Number>(&mut self) -> Result<T, FormatError>;
    fn numbers<T: Number>(&mut self, count: usize) -> Result<Vec<T>, FormatError>;
    fn byte_array(&mut self, count: usize) -> Result<Vec<u8>, FormatError>;
    fn string(&mut self) -> Result<Vec<u8>, FormatError>;
    fn strings(&mut self, count: usize) -> Result<Vec<Vec<u8>>, FormatError>;
    fn list(&mut self) -> Result<NvList, FormatError>;
    fn lists(&mut self, count: usize) -> Result<Vec<NvList>, FormatError>;
}

/// Reads a value of type number `kind` with `count` elements.
pub(super) fn decode_value(
    from: &mut impl Decode,
    kind: u32,
    count: usize,
) -> Result<Value, FormatError> {
    Ok(match kind {
        1 => Value::Boolean,
        2 => Value::Byte(from.number()?),
        3 => Value::Int16(from.number()?),
        4 => Value::Uint16(from.number()?),
        5 => Value::Int32(from.number()?),
        6 => Value::Uint32(from.number()?),
        7 => Value::Int64(from.number()?),
        8 => Value::Uint64(from.number()?),
        9 => Value::String(from.string()?),
        10 => Value::ByteArray(from.byte_array(count)?),
        11 => Value::Int16Array(from.numbers(count)?),
        12 => Value::Uint16Array(from.numbers(count)?),
        13 => Value::Int32Array(from.numbers(count)?),
        14 => Value::Uint32Array(from.numbers(count)?),
        15 => Value::Int64Array(from.numbers(count)?),
        16 => Value::Uint64Array(from.numbers(count)?),
        17 => Value::StringArray(from.strings(count)?),
        18 => Value::HighResolutionTime(from.number()?),
        19 => Value::List(from.list()?),
        20 => Value::ListArray(from.lists(count)?),
        21 => Value::BooleanValue(from.number()?),
        22 => Value::Int8(from.number()?),
        23 => Value::Uint8(from.number()?),
        24 => Value::BooleanArray(from.numbers(count)?),
        25 => Value::Int8Array(from.numbers(count)?),
        26 => Value::Uint8Array(from.numbers(count)?),
        other => return Err(invalid("type", u64::from(other))),
    })
}

/// How one encoding writes the parts of a value.
pub(super) trait Encode {
    fn number<T: Number>(&mut self, value: T);
    fn numbers<T: Number>(&mut self, values: &[T]);
    fn byte_array(&mut self, bytes: &[u8]);
    fn string(&mut self, bytes: &[u8]);
    fn strings(&mut self, strings: &[Vec<u8>]);
    fn list(&mut self, list: &NvList);
    fn lists(&mut self, lists: &[NvList]);
}

/// Writes a value.
pub(super) fn encode_value(to: &mut impl Encode, value: &Value) {
    match value {
        Value::Boolean => {}
        Value::Byte(value) | Value::Uint8(value) => to.number(*value),
        Value::Int8(value) => to.number(*value),
        Value::Int16(value) => to.number(*value),
        Value::Uint16(value) => to.number(*value),
        Value::Int32(value) => to.number(*value),
        Value::Uint32(value) => to.number(*value),
        Value::Int64(value) | Value::HighResolutionTime(value) => to.number(*value),
        Value::Uint64(value) => to.number(*value),
        Value::BooleanValue(value) => to.number(*value),
        Value::String(value) => to.string(value),
        Value::ByteArray(value) => to.byte_array(value),
        Value::Int8Array(value) => to.numbers(value),
        Value::Uint8Array(value) => to.numbers(value),
        Value::Int16Array(value) => to.numbers(value),
        Value::Uint16Array(value) => to.numbers(value),
        Value::Int32Array(value) => to.numbers(value),
        Value::Uint32Array(value) => to.numbers(value),
        Value::Int64Array(value) => to.numbers(value),
        Value::Uint64Array(value) => to.numbers(value),
        Value::BooleanArray(value) => to.numbers(value),
        Value::StringArray(value) => to.strings(value),
        Value::List(value) => to.list(value),
        Value::ListArray(value) => to.lists(value),
    }
}

/// Rounds up to a multiple of 8 (in-memory sizes and native values).
/// A size or count as it is stored. What is longer, which nobody has, is not read again.
pub(super) fn stored_u32(size: usize) -> u32 {
    u32::try_from(size).unwrap_or(u32::MAX)
}

pub(super) const fn align8(length: usize) -> usize {
    length.next_multiple_of(8)
}
