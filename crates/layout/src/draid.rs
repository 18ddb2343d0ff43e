//! dRAID: stripes of a fixed width over more children, in an order that changes from row to row, with the room of
//! spares spread over all of them.

use crate::Block;
use crate::permutation;
use crate::raidz::PARITY_RANGE;
use crate::stripe::StripeColumn;

/// How many bytes of a child a row takes: what one permutation of the children is for.
const ROW_BYTES: u64 = 16 << 20;
/// What each child keeps at its end.
const RESERVED: u64 = 32 << 20;
/// There are no more spares than this.
const SPARES_MAX: usize = 100;
/// How much data a group holds beside its parity, where nobody says.
const DATA_DEFAULT: usize = 8;

/// The geometry of a dRAID vdev.
///
/// Its address space is cut into groups: each is as wide as a stripe, and of each child in it takes [`ROW_BYTES`]. The
/// groups lie one after the other on the children but those whose room is the spares', row for row, and begin where
/// the last one ended. With so many groups that rows come out even, a slice, the order of the children changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draid {
    parity: u8,
    data: u8,
    spares: u8,
    children: u8,
    /// How many groups there are in a slice.
    groups: u8,
}

impl Draid {
    /// A vdev of `children`, of which a stripe has `data` and `parity`, with room for `spares`; none if that cannot be.
    ///
    /// Source: the format notes, "dRAID", limits.
    #[must_use]
    pub fn new(parity: u64, data: usize, children: usize, spares: usize) -> Option<Self> {
        let parity = u8::try_from(parity).ok()?;
        let needed = data.checked_add(usize::from(parity))?.checked_add(spares)?;
        let is_possible = PARITY_RANGE.contains(&parity)
            && data > 0
            && spares <= SPARES_MAX
            && children >= 2
            && needed <= children;
        if !is_possible {
            return None;
        }
        let width = data + usize::from(parity);
        let in_use = children - spares;
        let groups = (1..=in_use).find(|groups| (groups * width).is_multiple_of(in_use))?;
        Some(Self {
            parity,
            data: u8::try_from(data).ok()?,
            spares: u8::try_from(spares).ok()?,
            children: u8::try_from(children).ok()?,
            groups: u8::try_from(groups).ok()?,
        })
    }

    /// How much data a stripe has, where nobody says.
    #[must_use]
    pub fn data_default(parity: usize, children: usize, spares: usize) -> usize {
        children.saturating_sub(spares + parity).min(DATA_DEFAULT)
    }

    /// How many rows of parity there are: 1 to 3.
    #[must_use]
    pub const fn parity(&self) -> usize {
        self.parity as usize
    }

    /// How many columns of data a stripe has.
    #[must_use]
    pub const fn data(&self) -> usize {
        self.data as usize
    }

    /// For how many spares there is room.
    #[must_use]
    pub const fn spares(&self) -> usize {
        self.spares as usize
    }

    /// How many children there are.
    #[must_use]
    pub const fn children(&self) -> usize {
        self.children as usize
    }

    /// How many groups there are until rows come out even.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups as usize
    }

    /// How many columns a stripe has.
    const fn width(&self) -> u64 {
        self.data as u64 + self.parity as u64
    }

    /// How many children are in use in a row.
    const fn in_use(&self) -> u64 {
        self.children as u64 - self.spares as u64
    }

    /// The bytes of a group.
    const fn group_bytes(&self) -> u64 {
        self.width() * ROW_BYTES
    }

    /// The bytes of each child for which one permutation is.
    const fn slice_bytes(&self) -> u64 {
        self.group_bytes() * self.groups as u64 / self.in_use()
    }

    /// How many sectors a block of so many takes up: whole rows.
    pub(crate) const fn sectors_allocated(&self, data: u64) -> u64 {
        data.div_ceil(self.data as u64).saturating_mul(self.width())
    }

    /// What allocations begin at multiples of, in sectors.
    pub(crate) const fn unit(&self) -> u64 {
        self.width()
    }

    /// The size of a vdev of which the smallest child has so many bytes: whole groups.
    pub(crate) const fn size(&self, smallest: u64) -> u64 {
        let rows = smallest.saturating_sub(RESERVED) / ROW_BYTES;
        let bytes = rows.saturating_mul(ROW_BYTES).saturating_mul(self.in_use());
        bytes / self.group_bytes() * self.group_bytes()
    }

    /// What each child must have for a vdev of `size` bytes.
    pub(crate) const fn child_size(&self, size: u64) -> u64 {
        size.div_ceil(self.in_use())
            .div_ceil(ROW_BYTES)
            .saturating_mul(ROW_BYTES)
            .saturating_add(RESERVED)
    }

    /// The stripes of a block: one, or two where it begins in one group and ends in the next.
    pub(crate) fn stripes(&self, block: &Block, sector: u64) -> DraidStripes {
        let sectors = block.psize.div_ceil(sector);
        let end = (block.offset / self.group_bytes())
            .saturating_add(1)
            .saturating_mul(self.group_bytes());
        let rows = (end - block.offset.min(end)) / self.width().saturating_mul(sector).max(1);
        let first = sectors.min(rows.saturating_mul(u64::from(self.data)));
        DraidStripes {
            draid: *self,
            sector,
            offset: block.offset,
            next_group: end,
            sectors: [first, sectors - first],
        }
    }

    /// The sectors of a child (from, to) that hold nothing but sectors `from..to` of the vdev: one piece for each group
    /// that has the child.
    pub(crate) fn sectors_of_child(
        &self,
        (from, to): (u64, u64),
        child: u64,
        sector: u64,
    ) -> Vec<(u64, u64)> {
        let width = self.width();
        let group_sectors = self.group_bytes() / sector.max(1);
        let mut pieces = Vec::new();
        let mut next = from;
        while next < to {
            let end = (next / group_sectors)
                .saturating_add(1)
                .saturating_mul(group_sectors);
            let (first, last) = (next.div_ceil(width) * width, end.min(to) / width * width);
            next = end;
            if first >= last {
                continue;
            }
            let place = |index| self.place(first.saturating_mul(sector), index, sector);
            let found = (0..width).map(place).find(|(there, _)| *there == child);
            pieces.extend(found.map(|(_, start)| (start, start + (last - first) / width)));
        }
        pieces
    }

    /// The child that has a column of the stripe at a byte of the vdev, and its sector there.
    fn place(&self, offset: u64, index: u64, sector: u64) -> (u64, u64) {
        let (width, in_use) = (self.width(), self.in_use());
        let groups = u64::from(self.groups);
        let group = offset / self.group_bytes();
        // The groups of a slice fill its rows, one after the other.
        let begin = (group % groups) * width;
        let slice = group / groups;
        let rows_before = slice.saturating_mul(groups * width / in_use);
        let row_sectors = ROW_BYTES / sector.max(1);
        let within = offset % self.group_bytes() / sector.max(1) / width;
        let turned = begin % in_use + index;
        let wraps = turned >= in_use;
        let place = turned - if wraps { in_use } else { 0 };
        let row = rows_before
            .saturating_add(begin / in_use)
            .saturating_add(u64::from(wraps));
        let start = row.saturating_mul(row_sectors).saturating_add(within);
        (self.child_at(slice, place), start)
    }

    /// The child that the permutation of a slice puts at a place.
    fn child_at(&self, slice: u64, place: u64) -> u64 {
        permutation::of(self.children).child_at(slice, place)
    }

    /// Where byte `offset` of the room of a spare lies: which child has it, at the same byte. None if there is no such
    /// spare.
    #[must_use]
    pub fn spare_at(&self, spare: usize, offset: u64) -> Option<usize> {
        let place = u64::from(self.children).checked_sub(spare as u64 + 1)?;
        let is_there = spare < self.spares();
        let child = self.child_at(offset / self.slice_bytes().max(1), place);
        is_there.then_some(child as usize)
    }

    /// The first byte after `offset` from which on another child has the room of a spare.
    #[must_use]
    pub const fn spare_until(&self, offset: u64) -> u64 {
        let slice = self.slice_bytes();
        (offset / slice).saturating_add(1).saturating_mul(slice)
    }
}

/// The stripes of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraidStripes {
    draid: Draid,
    sector: u64,
    offset: u64,
    /// Where the second stripe begins.
    next_group: u64,
    /// How much of the block each holds, in sectors.
    sectors: [u64; 2],
}

impl DraidStripes {
    pub(crate) const fn count(&self) -> u64 {
        let [first, second] = self.sectors;
        ((first > 0) as u64 + (second > 0) as u64) * self.draid.width()
    }

    /// A column, from 0.
    pub(crate) fn column(&self, at: u64) -> StripeColumn {
        let draid = &self.draid;
        let (width, parity) = (draid.width(), u64::from(draid.parity));
        let (stripe, index) = (at / width, at % width);
        let [first, second] = self.sectors;
        // All of a block may be in the second one, if its place is not one that a block has.
        let is_first = stripe == 0 && first > 0;
        let (offset, sectors, before) = if is_first {
            (self.offset, first, 0)
        } else {
            (self.next_group, second, first)
        };
        let (height, rest) = (
            sectors / u64::from(draid.data),
            sectors % u64::from(draid.data),
        );
        let len = height + u64::from(rest > 0);
        let column = index.checked_sub(parity);
        let data_len = match column {
            Some(column) if rest > 0 && column >= rest => height,
            Some(_) | None => len,
        };
        let data_start = column.map(|column| before + column * height + column.min(rest));
        let (child, start) = draid.place(offset, index, self.sector);
        StripeColumn {
            stripe,
            index,
            child,
            start,
            len,
            data_start,
            data_len,
            number: 0,
            in_scratch: false,
        }
    }
}
