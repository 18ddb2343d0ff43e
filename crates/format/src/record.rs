//! The one way to declare a fixed on-disk record: fields, offsets and widths in one place.
//!
//! [`record!`](crate::record::record) yields the struct, its size, a field table, and decoding, encoding, swapping and
//! showing. [`areas!`](crate::record::areas) declares what is too large or too open to be a struct: the places alone.
//! Overlapping fields and fields past the end do not compile.
//! Bytes that no field covers are padding: encoding leaves them as they are in the destination,
//! so that a rewrite preserves them and a fresh (zeroed) buffer keeps them zero.
//!
//! What a field is called in OpenZFS and what it means are its `#[doc(alias = "…")]` and its comment; both get into the
//! table, and so into `docs/format-layouts.md` ([`crate::ledger`]).

use std::fmt;
use std::marker::PhantomData;

use base::{ByteOrder, Guid, ObjectId, Txg};

use crate::FormatError;
use crate::block_pointer::BlockPointer;
use crate::host::swap_at;

/// A declared field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// Its name in OpenZFS; empty when the declaration does not say.
    pub usual: &'static str,
    /// Byte offset in the record.
    pub offset: usize,
    /// Width in bytes.
    pub width: usize,
    /// The type of one element.
    pub kind: &'static str,
    /// Bytes of one element: as many as `width` unless the field is an array.
    pub element: usize,
    /// What it means: the comment of the declaration.
    pub text: &'static str,
}

impl Field {
    /// A field of this type. The macros call it.
    #[must_use]
    pub const fn of<T: Plain>(
        name: &'static str,
        usual: &'static str,
        offset: usize,
        text: &'static str,
    ) -> Self {
        Self {
            name,
            usual,
            offset,
            width: T::WIDTH,
            kind: T::KIND,
            element: T::ELEMENT,
            text,
        }
    }
}

/// A declared structure of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name of the type.
    pub name: &'static str,
    /// Its name in OpenZFS; empty when the declaration does not say.
    pub usual: &'static str,
    /// Bytes on disk.
    pub size: usize,
    /// The fields in ascending offset.
    pub fields: &'static [Field],
    /// What it is: the comment of the declaration.
    pub text: &'static str,
}

/// Where a field of type `T` lies in its record.
#[derive(Debug)]
pub struct Place<T> {
    /// Byte offset in the record.
    pub offset: usize,
    of: PhantomData<T>,
}

impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Place<T> {}

impl<T: Plain> Place<T> {
    /// The place at an offset. The macros call it.
    #[must_use]
    pub const fn at(offset: usize) -> Self {
        Self {
            offset,
            of: PhantomData,
        }
    }

    /// Bytes on disk.
    #[must_use]
    pub const fn width(self) -> usize {
        T::WIDTH
    }

    /// Where the field ends.
    #[must_use]
    pub const fn end(self) -> usize {
        self.offset + T::WIDTH
    }

    /// Reads the field from the bytes of its record; missing bytes read as zero.
    #[must_use]
    pub fn get(self, record: &[u8], order: ByteOrder) -> T {
        get_at(record, self.offset, order)
    }

    /// Swaps the field between the byte orders in the bytes of its record.
    pub fn swap(self, record: &mut [u8]) {
        swap_field::<T>(record, self.offset);
    }

    /// Writes the field to the bytes of its record; what has no room is left out.
    pub fn put(self, record: &mut [u8], value: &T, order: ByteOrder) {
        put_at(record, self.offset, value, order);
    }
}

/// A field's value, as it can be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A number without sign, an id, a txg or a guid.
    Number(u64),
    /// A number with sign.
    Signed(i64),
    /// A block pointer.
    Pointer(Box<BlockPointer>),
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
            Self::Pointer(pointer) => write!(f, "{pointer}"),
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

/// Puts a value at the head of `bytes`; what has no room is left out.
#[inline]
pub(crate) fn store(bytes: &mut [u8], value: &[u8]) {
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
    const KIND: &'static str = "blkptr";
    fn swap(bytes: &mut [u8]) {
        <[u64; 16]>::swap(bytes);
    }
    fn show(&self) -> Shown {
        Shown::Pointer(Box::new(*self))
    }
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

/// Whether fields, listed in ascending offset, neither overlap nor pass `size`.
#[must_use]
pub const fn layout_is_sound(fields: &[Field], size: usize) -> bool {
    let mut end = 0;
    let mut rest = fields;
    while let [field, after @ ..] = rest {
        if field.offset < end {
            return false;
        }
        end = field.offset + field.width;
        rest = after;
    }
    end <= size
}

/// The name in OpenZFS among the attributes of a declaration.
macro_rules! usual_name {
    () => { "" };
    ([doc(alias = $name:literal)] $($rest:tt)*) => { $name };
    ([$($other:tt)*] $($rest:tt)*) => { $crate::record::usual_name!($($rest)*) };
}
pub(crate) use usual_name;

/// The comment among the attributes of a declaration.
macro_rules! meaning {
    ($( [$($attribute:tt)*] )*) => {
        concat!($( $crate::record::comment!($($attribute)*) ),*)
    };
}
pub(crate) use meaning;

macro_rules! comment {
    (doc = $text:literal) => {
        $text
    };
    ($($other:tt)*) => {
        ""
    };
}
pub(crate) use comment;

/// Declares where things are in a structure that is not a struct of ours:
/// `struct Name [size] { field: type = offset, … }`.
macro_rules! areas {
    (
        $(#[$($meta:tt)*])*
        pub struct $name:ident [$size:expr] { $($fields:tt)* }
    ) => {
        $(#[$($meta)*])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        $crate::record::places! {
            [ $( [$($meta)*] )* ] $name [$size] { $($fields)* }
        }
    };
}
pub(crate) use areas;

/// What [`areas!`] and [`record!`] have in common: size, field table and places.
macro_rules! places {
    (
        [ $( [$($meta:tt)*] )* ] $name:ident [$size:expr] {
            $( $(#[$($field_meta:tt)*])* $field:ident : $type:ty = $offset:expr ),* $(,)?
        }
    ) => {
        impl $name {
            /// Bytes of the record on disk.
            pub const SIZE: usize = $size;
            /// The declared fields in ascending offset.
            pub const FIELDS: &'static [$crate::record::Field] = &[
                $( $crate::record::Field::of::<$type>(
                    stringify!($field),
                    $crate::record::usual_name!($( [$($field_meta)*] )*),
                    $offset,
                    $crate::record::meaning!($( [$($field_meta)*] )*),
                ), )*
            ];
            /// The whole declaration.
            pub const LAYOUT: $crate::record::Layout = $crate::record::Layout {
                name: stringify!($name),
                usual: $crate::record::usual_name!($( [$($meta)*] )*),
                size: $size,
                fields: Self::FIELDS,
                text: $crate::record::meaning!($( [$($meta)*] )*),
            };
        }

        const _: () = assert!($crate::record::layout_is_sound($name::FIELDS, $size));

        const _: () = {
            /// The places of the fields, by name.
            #[allow(missing_docs, unreachable_pub)]
            #[derive(Clone, Copy, Debug)]
            pub struct Places {
                $( pub $field: $crate::record::Place<$type>, )*
            }

            impl $name {
                /// Where each field lies.
                pub const AT: Places = Places {
                    $( $field: $crate::record::Place::at($offset), )*
                };
            }
        };
    };
}
pub(crate) use places;

/// Declares an on-disk record: `struct Name [size] { field: type = offset, … }`.
macro_rules! record {
    (
        $(#[$($meta:tt)*])*
        pub struct $name:ident [$size:expr] {
            $( $(#[$($field_meta:tt)*])* $field:ident : $type:ty = $offset:expr ),* $(,)?
        }
    ) => {
        $(#[$($meta)*])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $(#[$($field_meta)*])* pub $field: $type, )*
        }

        $crate::record::places! {
            [ $( [$($meta)*] )* ] $name [$size] {
                $( $(#[$($field_meta)*])* $field : $type = $offset ),*
            }
        }

        impl $name {
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

            /// Every field with its value.
            #[must_use]
            pub fn values(&self) -> Vec<(&'static $crate::record::Field, $crate::record::Shown)> {
                let values = [ $( $crate::record::Plain::show(&self.$field), )* ];
                Self::FIELDS.iter().zip(values).collect()
            }

            /// The record alone, with zero padding.
            #[must_use]
            pub fn to_bytes(&self, order: base::ByteOrder) -> [u8; $size] {
                let mut bytes = [0; $size];
                self.encode(&mut bytes, order);
                bytes
            }
        }

        impl $crate::record::Plain for $name {
            const WIDTH: usize = $size;
            fn get(bytes: &[u8], order: base::ByteOrder) -> Self {
                Self::decode_padded(bytes, order)
            }
            fn put(&self, bytes: &mut [u8], order: base::ByteOrder) {
                self.encode(bytes, order);
            }
            const KIND: &'static str = stringify!($name);
            fn swap(bytes: &mut [u8]) {
                $( $crate::record::swap_field::<$type>(bytes, $offset); )*
            }
            fn show(&self) -> $crate::record::Shown {
                $crate::record::Shown::Record(self.values())
            }
        }
    };
}
pub(crate) use record;
