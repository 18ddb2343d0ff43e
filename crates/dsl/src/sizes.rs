//! The three sizes that every account of space keeps, with signs.

use std::ops::{Add, AddAssign, Neg, Sub, SubAssign};

use dmu::BlockStore;
use format::BlockPointer;

/// Allocated, physical and logical bytes: of blocks, or changes of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Sizes {
    /// Allocated bytes of all copies, deflated.
    pub used: i64,
    /// Physical bytes.
    pub compressed: i64,
    /// Logical bytes (of metadata: physical ones).
    pub uncompressed: i64,
}

impl Sizes {
    /// Nothing.
    pub const ZERO: Self = Self {
        used: 0,
        compressed: 0,
        uncompressed: 0,
    };

    /// What a block is charged with.
    #[must_use]
    pub fn of(store: &dyn BlockStore, pointer: &BlockPointer) -> Self {
        if pointer.is_hole() {
            return Self::ZERO;
        }
        Self {
            used: store.charged_bytes(pointer).cast_signed(),
            compressed: pointer.compressed_charge().cast_signed(),
            uncompressed: pointer.uncompressed_charge().cast_signed(),
        }
    }

    /// From stored numbers.
    #[must_use]
    pub const fn stored(used: u64, compressed: u64, uncompressed: u64) -> Self {
        Self {
            used: used.cast_signed(),
            compressed: compressed.cast_signed(),
            uncompressed: uncompressed.cast_signed(),
        }
    }
}

impl Add for Sizes {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            used: self.used.wrapping_add(other.used),
            compressed: self.compressed.wrapping_add(other.compressed),
            uncompressed: self.uncompressed.wrapping_add(other.uncompressed),
        }
    }
}

impl AddAssign for Sizes {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Neg for Sizes {
    type Output = Self;
    fn neg(self) -> Self {
        Self {
            used: self.used.wrapping_neg(),
            compressed: self.compressed.wrapping_neg(),
            uncompressed: self.uncompressed.wrapping_neg(),
        }
    }
}

impl Sub for Sizes {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + -other
    }
}

impl SubAssign for Sizes {
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl std::iter::Sum for Sizes {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::ZERO, Add::add)
    }
}

/// Adds a signed change to a stored number.
pub(crate) const fn change(stored: &mut u64, by: i64) {
    *stored = stored.wrapping_add_signed(by);
}
