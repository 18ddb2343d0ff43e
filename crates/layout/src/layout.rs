//! A layout: a kind of vdev with its sector size.

use std::ops::Range;

use crate::{Columns, Kind};

/// How a top-level vdev spreads blocks over its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    kind: Kind,
    ashift: u32,
}

/// The block by which deflate ratios are measured, in bytes.
///
/// Source: the format notes, "Common formulas".
const REFERENCE_BLOCK: u64 = 128 << 10;

/// Deflated sizes are counted in such sectors, as a power of two.
const CHARGE_SHIFT: u32 = 9;

impl Layout {
    /// The layout of a vdev with sectors of 2^`ashift` bytes.
    #[must_use]
    pub const fn new(kind: Kind, ashift: u32) -> Self {
        Self { kind, ashift }
    }

    /// The kind of vdev.
    #[must_use]
    pub const fn kind(self) -> Kind {
        self.kind
    }

    /// The size of a sector as a power of two.
    #[must_use]
    pub const fn ashift(self) -> u32 {
        self.ashift
    }

    /// The size of a sector in bytes; one for a shift that no number has room for.
    #[must_use]
    pub const fn sector(self) -> u64 {
        match 1_u64.checked_shl(self.ashift) {
            Some(sector) => sector,
            None => 1,
        }
    }

    /// `len` bytes in whole sectors.
    #[must_use]
    pub const fn whole_sectors(self, len: u64) -> u64 {
        let mask = self.sector() - 1;
        len.saturating_add(mask) & !mask
    }

    /// The stored sizes that waste nothing are multiples of this, in bytes; it is the smallest of them too.
    #[must_use]
    pub const fn granule(self) -> u64 {
        match self.kind {
            Kind::Single | Kind::Mirror => self.sector(),
        }
    }

    /// What a block of `psize` stored bytes takes up, parity and padding included.
    #[must_use]
    pub const fn asize(self, psize: u64) -> u64 {
        match self.kind {
            Kind::Single | Kind::Mirror => self.whole_sectors(psize),
        }
    }

    /// What datasets are charged with for `asize` allocated bytes: as many as the data would take up without parity, if
    /// all blocks were of 128 KiB.
    #[must_use]
    pub const fn deflated(self, asize: u64) -> u64 {
        (asize >> CHARGE_SHIFT).saturating_mul(self.deflate_ratio())
    }

    /// The charge for an allocated sector of 512 bytes.
    #[must_use]
    pub const fn deflate_ratio(self) -> u64 {
        match self.asize(REFERENCE_BLOCK) >> CHARGE_SHIFT {
            0 => 0,
            sectors => REFERENCE_BLOCK / sectors,
        }
    }

    /// How many of `children` may lack a block that can be read all the same.
    #[must_use]
    pub const fn tolerance(self, children: usize) -> usize {
        self.kind.tolerance(children)
    }

    /// Where the block of `psize` stored bytes at `offset` lies on the children.
    #[must_use]
    pub const fn columns(self, offset: u64, psize: u64, children: usize) -> Columns {
        Columns::new(self, offset, psize, children)
    }

    /// Whether every child has every byte of the vdev at the vdev's own offset. Only then can neighbouring blocks be
    /// read together without knowing where one ends, and children be compared.
    #[must_use]
    pub const fn is_copies(self) -> bool {
        match self.kind {
            Kind::Single | Kind::Mirror => true,
        }
    }

    /// The bytes of a child that hold nothing but what lies in `range` of the vdev.
    #[must_use]
    pub const fn on_child(self, range: Range<u64>) -> Range<u64> {
        match self.kind {
            Kind::Single | Kind::Mirror => range,
        }
    }

    /// How many bytes of a block of `psize` have to be written when only the first `used` of them count. Where the
    /// place of each byte depends on the length of the block, that is all of it.
    #[must_use]
    pub const fn written_size(self, used: u64, psize: u64) -> u64 {
        match self.kind {
            Kind::Single | Kind::Mirror if used < psize => used,
            Kind::Single | Kind::Mirror => psize,
        }
    }

    /// The allocatable bytes of a vdev whose smallest child has `smallest`: where children add up, their number counts.
    #[must_use]
    pub const fn size(self, smallest: u64, _children: usize) -> u64 {
        match self.kind {
            Kind::Single | Kind::Mirror => smallest,
        }
    }

    /// The allocatable bytes that each child must have for a vdev of `size`: the reverse.
    #[must_use]
    pub const fn child_size(self, size: u64, _children: usize) -> u64 {
        match self.kind {
            Kind::Single | Kind::Mirror => size,
        }
    }
}

#[cfg(test)]
mod tests;
