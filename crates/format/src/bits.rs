//! The one way to declare a word of bit fields: names, lowest bits and widths in one place.
//!
//! [`bits!`](crate::bits::bits) is to a word what [`record!`](crate::record::record) is to a structure
//! of bytes. Reading and writing are a shift and a mask, known when the program is compiled. Overlapping fields do not
//! compile; a word that is read in two ways is declared twice.

/// A range of bits in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The lowest bit.
    pub low: u32,
    /// How many bits.
    pub width: u32,
}

impl Bits {
    /// The largest value of the field.
    #[must_use]
    pub const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.width)
    }

    /// The field's value in a word.
    #[must_use]
    pub const fn get(self, word: u64) -> u64 {
        (word >> self.low) & self.mask()
    }

    /// The value of a field of up to 8 bits; of a wider one, its lowest 8.
    #[must_use]
    pub const fn get_u8(self, word: u64) -> u8 {
        low_u8(self.get(word))
    }

    /// The value of a field of up to 16 bits; of a wider one, its lowest 16.
    #[must_use]
    pub const fn get_u16(self, word: u64) -> u16 {
        low_u16(self.get(word))
    }

    /// The word with the field set; bits of `value` that have no room are left out.
    #[must_use]
    pub const fn set(self, word: u64, value: u64) -> u64 {
        (word & !(self.mask() << self.low)) | ((value & self.mask()) << self.low)
    }
}

/// The lowest 8 bits.
#[inline]
pub(crate) const fn low_u8(word: u64) -> u8 {
    let [low, ..] = word.to_le_bytes();
    low
}

/// The lowest 16 bits.
#[inline]
pub(crate) const fn low_u16(word: u64) -> u16 {
    let [a, b, ..] = word.to_le_bytes();
    u16::from_le_bytes([a, b])
}

/// The lowest 32 bits.
#[inline]
pub(crate) const fn low_u32(word: u64) -> u32 {
    let [a, b, c, d, ..] = word.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// A declared field of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitField {
    /// The field's name.
    pub name: &'static str,
    /// Its name in OpenZFS; empty when the declaration does not say.
    pub usual: &'static str,
    /// Which bits.
    pub bits: Bits,
    /// What it means: the comment of the declaration.
    pub text: &'static str,
}

/// A declared word of bit fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitLayout {
    /// The name of the type.
    pub name: &'static str,
    /// Its name in OpenZFS; empty when the declaration does not say.
    pub usual: &'static str,
    /// Bits of the word.
    pub size: u32,
    /// The fields, lowest first.
    pub fields: &'static [BitField],
    /// What it is: the comment of the declaration.
    pub text: &'static str,
}

/// Whether fields, listed lowest first, have a width, do not overlap and do not pass `size` bits.
#[must_use]
pub const fn bits_are_sound(fields: &[BitField], size: u32) -> bool {
    let mut end = 0;
    let mut rest = fields;
    while let [BitField { bits, .. }, after @ ..] = rest {
        if bits.low < end || bits.width == 0 {
            return false;
        }
        end = bits.low + bits.width;
        rest = after;
    }
    end <= size && size <= 64
}

/// Declares a word of bit fields: `struct Name [bits] { field: width = lowest bit, … }`.
macro_rules! bits {
    (
        $(#[$($meta:tt)*])*
        pub struct $name:ident [$size:expr] {
            $( $(#[$($field_meta:tt)*])* $field:ident : $width:literal = $low:literal ),* $(,)?
        }
    ) => {
        $(#[$($meta)*])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl $name {
            /// The declared fields, lowest first.
            pub const FIELDS: &'static [$crate::bits::BitField] = &[
                $( $crate::bits::BitField {
                    name: stringify!($field),
                    usual: $crate::record::usual_name!($( [$($field_meta)*] )*),
                    bits: $crate::bits::Bits { low: $low, width: $width },
                    text: $crate::record::meaning!($( [$($field_meta)*] )*),
                }, )*
            ];
            /// The whole declaration.
            pub const LAYOUT: $crate::bits::BitLayout = $crate::bits::BitLayout {
                name: stringify!($name),
                usual: $crate::record::usual_name!($( [$($meta)*] )*),
                size: $size,
                fields: Self::FIELDS,
                text: $crate::record::meaning!($( [$($meta)*] )*),
            };
        }

        const _: () = assert!($crate::bits::bits_are_sound($name::FIELDS, $size));

        const _: () = {
            /// The fields, by name.
            #[allow(missing_docs, unreachable_pub)]
            #[derive(Clone, Copy, Debug)]
            pub struct Places {
                $( pub $field: $crate::bits::Bits, )*
            }

            impl $name {
                /// Where each field lies.
                pub const AT: Places = Places {
                    $( $field: $crate::bits::Bits { low: $low, width: $width }, )*
                };
            }
        };
    };
}
pub(crate) use bits;

#[cfg(test)]
mod tests;
