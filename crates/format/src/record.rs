//! The one way to declare a fixed on-disk record: fields, offsets and widths in one place.
//!
//! [`record!`](crate::record::record) yields the struct, its size, a field table, and decoding and
//! encoding in either byte order. Overlapping fields and fields past the end do not compile.
//! Bytes that no field covers are padding: encoding leaves them as they are in the destination,
//! so that a rewrite preserves them and a fresh (zeroed) buffer keeps them zero.

use base::{ByteOrder, Guid, ObjectId, Txg};

use crate::FormatError;
use crate::block_pointer::BlockPointer;

/// A declared field: its name, offset and width in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// Byte offset in the record.
    pub offset: usize,
    /// Width in bytes.
    pub width: usize,
}

/// A value with a fixed width on disk.
pub trait Plain: Sized {
    /// Bytes on disk.
    const WIDTH: usize;
    /// Reads the value from the first [`Plain::WIDTH`] bytes; missing bytes read as zero.
    fn get(bytes: &[u8], order: ByteOrder) -> Self;
    /// Writes the value to the first [`Plain::WIDTH`] bytes; what has no room is left out.
    fn put(&self, bytes: &mut [u8], order: ByteOrder);
}

/// The first `N` bytes, zero filled when there are fewer.
#[inline]
fn head<const N: usize>(bytes: &[u8]) -> [u8; N] {
    // Nearly always there: one load, where the loop below goes byte by byte.
    match bytes.first_chunk() {
        Some(whole) => *whole,
        None => padded(bytes),
    }
}

#[cold]
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    for (to, from) in out.iter_mut().zip(bytes) {
        *to = *from;
    }
    out
}

#[inline]
fn store(bytes: &mut [u8], value: &[u8]) {
    if let Some(whole) = bytes.get_mut(..value.len()) {
        whole.copy_from_slice(value);
        return;
    }
    for (to, from) in bytes.iter_mut().zip(value) {
        *to = *from;
    }
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
}

macro_rules! plain_id {
    ($type:ident) => {
        impl Plain for $type {
            const WIDTH: usize = 8;
            #[inline]
            fn get(bytes: &[u8], order: ByteOrder) -> Self {
                Self(u64::get(bytes, order))
            }
            fn put(&self, bytes: &mut [u8], order: ByteOrder) {
                self.0.put(bytes, order);
            }
        }
    };
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
}

plain_id!(ObjectId);
plain_id!(Txg);
plain_id!(Guid);

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

/// Whether fields, listed in ascending offset, neither overlap nor pass `size`.
#[must_use]
pub const fn layout_is_sound(fields: &[Field], size: usize) -> bool {
    let mut end = 0;
    let mut index = 0;
    while index < fields.len() {
        if fields[index].offset < end {
            return false;
        }
        end = fields[index].offset + fields[index].width;
        index += 1;
    }
    end <= size
}

/// Declares an on-disk record: `struct Name [size] { field: type @ offset, … }`.
macro_rules! record {
    (
        $(#[$meta:meta])*
        pub struct $name:ident [$size:expr] {
            $( $(#[$field_meta:meta])* $field:ident : $type:ty = $offset:expr ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $name {
            /// Bytes of the record on disk.
            pub const SIZE: usize = $size;
            /// The declared fields in ascending offset.
            pub const FIELDS: &'static [$crate::record::Field] = &[
                $( $crate::record::Field {
                    name: stringify!($field),
                    offset: $offset,
                    width: <$type as $crate::record::Plain>::WIDTH,
                }, )*
            ];

            /// Reads the record from the head of `bytes`.
            ///
            /// # Errors
            /// When there are fewer than [`Self::SIZE`] bytes.
            pub fn decode(
                bytes: &[u8],
                order: base::ByteOrder,
            ) -> Result<Self, $crate::FormatError> {
                $crate::record::require(stringify!($name), bytes, Self::SIZE)?;
                Ok(Self::decode_padded(bytes, order))
            }

            /// Reads the record from `bytes`; a missing tail reads as zeros (older, shorter forms).
            #[must_use]
            pub fn decode_padded(bytes: &[u8], order: base::ByteOrder) -> Self {
                Self { $( $field: $crate::record::get_at(bytes, $offset, order), )* }
            }

            /// Writes the declared fields; padding in `bytes` stays as it is, and fields past its
            /// end are left out (older, shorter forms).
            pub fn encode(&self, bytes: &mut [u8], order: base::ByteOrder) {
                $( $crate::record::put_at(bytes, $offset, &self.$field, order); )*
            }

            /// The record alone, with zero padding.
            #[must_use]
            pub fn to_bytes(&self, order: base::ByteOrder) -> [u8; $size] {
                let mut bytes = [0; $size];
                self.encode(&mut bytes, order);
                bytes
            }
        }

        const _: () = assert!($crate::record::layout_is_sound($name::FIELDS, $size));
    };
}
pub(crate) use record;
