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

mod plain;

use std::marker::PhantomData;

use base::ByteOrder;

pub(crate) use plain::head_mut;
pub use plain::{Plain, Shown, get_at, put_at, require, swap_field};

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
