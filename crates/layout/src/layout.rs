//! A layout: a kind of vdev with its sector size.

use std::ops::Range;

use crate::{Block, Columns, Kind, Moved, Placement};
use base::Txg;

/// How a top-level vdev spreads blocks over its children.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub const fn kind(&self) -> &Kind {
        &self.kind
    }

    /// The size of a sector as a power of two.
    #[must_use]
    pub const fn ashift(&self) -> u32 {
        self.ashift
    }

    /// The size of a sector in bytes; one for a shift that no number has room for.
    #[must_use]
    pub const fn sector(&self) -> u64 {
        match 1_u64.checked_shl(self.ashift) {
            Some(sector) => sector,
            None => 1,
        }
    }

    /// `len` bytes in whole sectors.
    #[must_use]
    pub const fn whole_sectors(&self, len: u64) -> u64 {
        let mask = self.sector() - 1;
        len.saturating_add(mask) & !mask
    }

    /// The stored sizes that waste nothing are multiples of this, in bytes; it is the smallest of them too.
    #[must_use]
    pub const fn granule(&self) -> u64 {
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::RaidZ(_) | Kind::Indirect => self.sector(),
            Kind::Draid(draid) => self.sector() * draid.data() as u64,
        }
    }

    /// What allocated places begin at, and are as long as, multiples of, in bytes.
    #[must_use]
    pub const fn unit(&self) -> u64 {
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::RaidZ(_) | Kind::Indirect => self.sector(),
            Kind::Draid(draid) => self.sector().saturating_mul(draid.unit()),
        }
    }

    /// How many stored bytes fill `asize` allocated ones, of which whole [`Layout::unit`]s count. None where that
    /// depends on the block: then nobody can tell what lies at a place without knowing whose it is.
    #[must_use]
    pub const fn psize_of_whole_units(&self, asize: u64) -> Option<u64> {
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::Draid(_) => {
                Some(asize / self.unit() * self.granule())
            }
            Kind::RaidZ(_) | Kind::Indirect => None,
        }
    }

    /// What a block of `psize` stored bytes takes up that is written in txg `birth`, parity and padding included.
    #[must_use]
    pub fn asize(&self, psize: u64, birth: Txg) -> u64 {
        let whole = self.whole_sectors(psize);
        let sectors = match &self.kind {
            Kind::Single | Kind::Mirror | Kind::Indirect => return whole,
            Kind::RaidZ(raidz) => raidz.sectors_allocated(whole / self.sector(), birth),
            Kind::Draid(draid) => draid.sectors_allocated(whole / self.sector()),
        };
        sectors.saturating_mul(self.sector())
    }

    /// What datasets are charged with for `asize` allocated bytes: as many as the data would take up without parity, if
    /// all blocks were of 128 KiB.
    #[must_use]
    pub fn deflated(&self, asize: u64) -> u64 {
        (asize >> CHARGE_SHIFT).saturating_mul(self.deflate_ratio())
    }

    /// The charge for an allocated sector of 512 bytes.
    #[must_use]
    pub fn deflate_ratio(&self) -> u64 {
        // That of the vdev as it was made: what datasets are charged with is not to change.
        match self.asize(REFERENCE_BLOCK, Txg(0)) >> CHARGE_SHIFT {
            0 => 0,
            sectors => REFERENCE_BLOCK / sectors,
        }
    }

    /// How much more than its stored bytes a dataset is charged with, at most, for a block of any number of 512 bytes.
    #[must_use]
    pub fn charge_overhead(&self) -> u64 {
        let in_sector = self.sector().saturating_sub(1 << CHARGE_SHIFT);
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::Indirect => in_sector,
            // A row that is not full is charged as a full one.
            Kind::Draid(_) => self.granule().saturating_sub(1 << CHARGE_SHIFT),
            // A row that is not full has all parity, and what is left over is less than a row of parity and a sector.
            // Full rows cost nothing, as the block by which deflate ratios are measured has less of them.
            Kind::RaidZ(raidz) => {
                let sectors = 2 * raidz.parity() as u64;
                in_sector.saturating_add(self.deflated(sectors.saturating_mul(self.sector())))
            }
        }
    }

    /// How many of `children` may lack a block that can be read all the same.
    #[must_use]
    pub const fn tolerance(&self, children: usize) -> usize {
        self.kind.tolerance(children)
    }

    /// What of a block lies on which child.
    #[must_use]
    pub fn columns(&self, block: &Block, children: usize) -> Columns {
        Columns::new(self, block, (children, self.moved()))
    }

    /// Of how many children a vdev was that got more since blocks of a txg were written, until it had all.
    #[must_use]
    pub fn earlier_widths(&self, birth: Txg) -> Range<usize> {
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::Draid(_) | Kind::Indirect => 0..0,
            Kind::RaidZ(raidz) => raidz.earlier_widths(birth),
        }
    }

    /// What has moved of a vdev that is getting another child; none of all others.
    #[must_use]
    pub fn moved(&self) -> Option<Moved> {
        self.kind.raidz()?.moved()
    }

    /// The columns of a block, and the pieces of children in which they lie.
    #[must_use]
    pub fn placement(&self, block: &Block, children: usize) -> Placement {
        self.placement_at(block, children, self.moved())
    }

    /// [`Layout::placement`] when so much has moved, of a vdev that is getting another child.
    #[must_use]
    pub fn placement_at(&self, block: &Block, children: usize, moved: Option<Moved>) -> Placement {
        Placement::new(Columns::new(self, block, (children, moved)))
    }

    /// Whether every child has every byte of the vdev at the vdev's own offset. Only then can neighbouring blocks be
    /// read together without knowing where one ends, and children be compared.
    #[must_use]
    pub const fn is_copies(&self) -> bool {
        self.kind.is_copies()
    }

    /// The bytes of a child that hold nothing but what lies in `range` of the vdev.
    #[must_use]
    pub fn on_child(&self, range: Range<u64>, child: usize) -> Vec<Range<u64>> {
        let sector = self.sector();
        let (from, to) = (range.start.div_ceil(sector), range.end / sector);
        let bytes = |(from, to): (u64, u64)| from * sector..to * sector;
        match &self.kind {
            Kind::Single | Kind::Mirror => vec![range],
            Kind::Indirect => Vec::new(),
            Kind::RaidZ(raidz) => vec![bytes(raidz.sectors_of_child(from, to, child as u64))],
            Kind::Draid(draid) => {
                let pieces = draid.sectors_of_child((from, to), child as u64, sector);
                pieces.into_iter().map(bytes).collect()
            }
        }
    }

    /// How many bytes of a block of `psize` have to be written when only the first `used` of them count. Where the
    /// place of each byte depends on the length of the block, that is all of it.
    #[must_use]
    pub const fn written_size(&self, used: u64, psize: u64) -> u64 {
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::Indirect if used < psize => used,
            Kind::Single | Kind::Mirror | Kind::Indirect | Kind::RaidZ(_) | Kind::Draid(_) => psize,
        }
    }

    /// The allocatable bytes of a vdev whose smallest child has `smallest`: where children add up, their number counts.
    #[must_use]
    pub fn size(&self, smallest: u64) -> u64 {
        match &self.kind {
            Kind::Single | Kind::Mirror | Kind::Indirect => smallest,
            Kind::Draid(draid) => draid.size(smallest),
            Kind::RaidZ(raidz) => smallest.saturating_mul(raidz.width() as u64),
        }
    }

    /// Where metaslab `index` of `1 << shift` bytes lies: what of its share of the vdev whole units fit in. A space map
    /// counts from there.
    #[must_use]
    pub fn metaslab(&self, index: u64, shift: u32) -> Range<u64> {
        let size = 1_u64.checked_shl(shift).unwrap_or(u64::MAX);
        let at = |index: u64| index.saturating_mul(size);
        let (from, to, unit) = (at(index), at(index.saturating_add(1)), self.unit().max(1));
        let start = from.checked_next_multiple_of(unit).unwrap_or(to);
        start..start.max(to / unit * unit)
    }

    /// The allocatable bytes that each child must have for a vdev of `size`: the reverse.
    #[must_use]
    pub fn child_size(&self, size: u64) -> u64 {
        match &self.kind {
            Kind::Single | Kind::Mirror => size,
            Kind::Indirect => 0,
            Kind::Draid(draid) => draid.child_size(size),
            Kind::RaidZ(raidz) => size.div_ceil(raidz.width() as u64),
        }
    }
}

#[cfg(test)]
mod tests;
