//! Values with a fixed width on disk: numbers, ids, arrays of them, and records in records.

use std::fmt;

use base::{ByteOrder, Guid, ObjectId, Txg};

use super::Field;
use crate::FormatError;
use crate::host::{head, store, swap_at};

/// A field's value, as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A number without sign, an id, a txg or a guid.
    Number(u64),
    /// A number with sign.
    Signed(i64),
    /// What has a text of its own: a block pointer.
    Text(String),
    /// The elements of an array.
    List(Vec<Self>),
    /// A record: the names and values of its fields.
    Record(Vec<(&'static Field, Self)>),
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Signed(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
            Self::List(values) => {
                for (index, value) in values.iter().enumerate() {
                    let gap = if index == 0 { "" } else { " " };
                    write!(f, "{gap}{value}")?;
                }
                Ok(())
            }
            Self::Record(fields) => {
                for (index, (field, value)) in fields.iter().enumerate() {
                    let gap = if index == 0 { "" } else { ", " };
                    write!(f, "{gap}{} {value}", field.name)?;
                }
                Ok(())
            }
        }
    }
}

/// A value with a fixed width on disk.
pub trait Plain: Sized {
    /// Bytes on disk.
    const WIDTH: usize;
    /// Reads the value from the first [`Plain::WIDTH`] bytes; missing bytes read as zero.
    fn get(bytes: &[u8], order: ByteOrder) -> Self;
    /// Writes the value to the first [`Plain::WIDTH`] bytes; what has no room is left out.
    fn put(&self, bytes: &mut [u8], order: ByteOrder);
    /// What the type is called in the list of layouts; of an array, its element.
    const KIND: &'static str;
    /// Bytes of an element of an array; of everything else, [`Plain::WIDTH`].
    const ELEMENT: usize = Self::WIDTH;
    /// Swaps the value between the byte orders where it lies. A number that is not all there stays as it is.
    fn swap(bytes: &mut [u8]) {
        swap_at(bytes, 0, Self::WIDTH);
    }
    /// The value, to be shown.
    fn show(&self) -> Shown;
}

macro_rules! plain_number {
    ($type:ty, $get:ident, $put:ident) => {
        impl Plain for $type {
            const WIDTH: usize = size_of::<$type>();
            #[inline]
            fn get(bytes: &[u8], order: ByteOrder) -> Self {
                order.$get(head(bytes))
            }
            fn put(&self, bytes: &mut [u8], order: ByteOrder) {
                store(bytes, &order.$put(*self));
            }
            const KIND: &'static str = stringify!($type);
            fn show(&self) -> Shown {
                Shown::Number((*self).into())
            }
        }
    };
}

plain_number!(u16, u16, u16_bytes);
plain_number!(u32, u32, u32_bytes);
plain_number!(u64, u64, u64_bytes);

impl Plain for i64 {
    const WIDTH: usize = 8;
    #[inline]
    fn get(bytes: &[u8], order: ByteOrder) -> Self {
        u64::get(bytes, order).cast_signed()
    }
    fn put(&self, bytes: &mut [u8], order: ByteOrder) {
        self.cast_unsigned().put(bytes, order);
    }
    const KIND: &'static str = "i64";
    fn show(&self) -> Shown {
        Shown::Signed(*self)
    }
}

impl Plain for u8 {
    const WIDTH: usize = 1;
    #[inline]
    fn get(bytes: &[u8], _: ByteOrder) -> Self {
        bytes.first().copied().unwrap_or(0)
    }
    fn put(&self, bytes: &mut [u8], _: ByteOrder) {
        store(bytes, &[*self]);
    }
    const KIND: &'static str = "u8";
    fn show(&self) -> Shown {
        Shown::Number((*self).into())
    }
}

macro_rules! plain_id {
    ($type:ident, $kind:literal) => {
        impl Plain for $type {
            const WIDTH: usize = 8;
            #[inline]
            fn get(bytes: &[u8], order: ByteOrder) -> Self {
                Self(u64::get(bytes, order))
            }
            fn put(&self, bytes: &mut [u8], order: ByteOrder) {
                self.0.put(bytes, order);
            }
            const KIND: &'static str = $kind;
            fn show(&self) -> Shown {
                Shown::Number(self.0)
            }
        }
    };
}

plain_id!(ObjectId, "object");
plain_id!(Txg, "txg");
plain_id!(Guid, "guid");

impl<T: Plain, const N: usize> Plain for [T; N] {
    const WIDTH: usize = N * T::WIDTH;
    #[inline]
    fn get(bytes: &[u8], order: ByteOrder) -> Self {
        // Cut to a length that the compiler knows, so that it checks once and not for each element.
        let bytes = bytes.get(..Self::WIDTH).unwrap_or(bytes);
        std::array::from_fn(|index| T::get(bytes.get(index * T::WIDTH..).unwrap_or(&[]), order))
    }
    fn put(&self, bytes: &mut [u8], order: ByteOrder) {
        for (index, value) in self.iter().enumerate() {
            if let Some(rest) = bytes.get_mut(index * T::WIDTH..) {
                value.put(rest, order);
            }
        }
    }
    const KIND: &'static str = T::KIND;
    const ELEMENT: usize = T::ELEMENT;
    fn swap(bytes: &mut [u8]) {
        for element in bytes.chunks_mut(T::WIDTH).take(N) {
            T::swap(element);
        }
    }
    fn show(&self) -> Shown {
        Shown::List(self.iter().map(T::show).collect())
    }
}

/// Reads a value at `offset`; bytes past the end read as zero.
#[must_use]
#[inline]
pub fn get_at<T: Plain>(bytes: &[u8], offset: usize, order: ByteOrder) -> T {
    T::get(bytes.get(offset..).unwrap_or(&[]), order)
}

/// Writes a value at `offset`; what has no room is left out.
pub fn put_at<T: Plain>(bytes: &mut [u8], offset: usize, value: &T, order: ByteOrder) {
    if let Some(rest) = bytes.get_mut(offset..) {
        value.put(rest, order);
    }
}

/// Swaps a field at `offset` between the byte orders.
pub fn swap_field<T: Plain>(bytes: &mut [u8], offset: usize) {
    if let Some(rest) = bytes.get_mut(offset..) {
        T::swap(rest);
    }
}

/// Refuses bytes that are shorter than a structure.
///
/// # Errors
/// [`FormatError::Truncated`] when there are fewer than `needed` bytes.
pub fn require(what: &'static str, bytes: &[u8], needed: usize) -> Result<(), FormatError> {
    if bytes.len() < needed {
        return Err(FormatError::Truncated {
            what,
            needed,
            available: bytes.len(),
        });
    }
    Ok(())
}

/// The place at the head of `bytes` for a structure of `size` bytes.
///
/// # Errors
/// As [`require`].
pub(crate) fn head_mut<'a>(
    what: &'static str,
    bytes: &'a mut [u8],
    size: usize,
) -> Result<&'a mut [u8], FormatError> {
    require(what, bytes, size)?;
    Ok(bytes.split_at_mut(size).0)
}
