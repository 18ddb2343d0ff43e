//! RAID-Z: blocks in stripes of their own, each with its parity.

use crate::Block;
use crate::growth::{Growth, Moved};
use crate::rows::{MovedSectors, Rows};
use crate::stripe::{Shape, StripeColumn, exchanged};
use base::Txg;
use std::sync::Arc;

/// The least and the most rows of parity.
pub(crate) const PARITY_RANGE: std::ops::RangeInclusive<u8> = 1..=3;

/// Of 1-parity vdevs, blocks whose offset has this bit exchange their first two columns, so that parity does not
/// always lie on the same children.
const EXCHANGE_BIT: u64 = 1 << 20;

/// The geometry of a RAID-Z vdev.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RaidZ {
    parity: u8,
    /// How many children there are.
    children: u8,
    /// How it got children since it was made; none if it did not.
    growth: Option<Arc<Growth>>,
}

impl RaidZ {
    /// A vdev of `width` children, as many of which may be lost as there are rows of `parity`; none if that cannot be.
    ///
    /// Source: the format notes, "RAID-Z", limits.
    #[must_use]
    pub fn new(parity: u64, width: usize) -> Option<Self> {
        let (parity, children) = (u8::try_from(parity).ok()?, u8::try_from(width).ok()?);
        let is_possible = PARITY_RANGE.contains(&parity) && children > parity;
        is_possible.then_some(Self {
            parity,
            children,
            growth: None,
        })
    }

    /// The vdev, grown to what it is now: blocks are wider by one child from each of the txgs `since` on, and the last
    /// child comes on top of that where it `is_growing`. None if it cannot have been as narrow as that.
    #[must_use]
    pub fn grown(self, since: &[Txg], is_growing: bool) -> Option<Self> {
        let later = since.len().checked_add(usize::from(is_growing))?;
        let first = usize::from(self.children).checked_sub(later)?;
        if later == 0 {
            return Some(self);
        }
        let is_possible = first > usize::from(self.parity) && since.is_sorted();
        is_possible.then(|| Self {
            growth: Some(Arc::new(Growth::new(since, is_growing))),
            ..self
        })
    }

    /// How it got children since it was made.
    #[must_use]
    pub fn growth(&self) -> Option<&Growth> {
        self.growth.as_deref()
    }

    /// How many rows of parity there are: 1 to 3.
    #[must_use]
    pub const fn parity(&self) -> usize {
        self.parity as usize
    }

    /// How many children count for its size: all but one that is being added.
    #[must_use]
    pub fn width(&self) -> usize {
        usize::from(self.children) - usize::from(self.is_growing())
    }

    /// What has moved to one child more; none if no child is being added.
    #[must_use]
    pub fn moved(&self) -> Option<Moved> {
        self.growth().and_then(Growth::moved)
    }

    /// Of how many children the vdev was when or since blocks of a txg were written, without its present ones: sectors
    /// of these blocks may have been copied from child to child since.
    #[must_use]
    pub fn earlier_widths(&self, birth: Txg) -> std::ops::Range<usize> {
        let first = usize::try_from(self.width_at(birth)).unwrap_or(usize::MAX);
        first..usize::from(self.children)
    }

    fn is_growing(&self) -> bool {
        self.growth().is_some_and(|growth| growth.is_growing())
    }

    /// How wide blocks of a txg are.
    fn width_at(&self, birth: Txg) -> u64 {
        let later = self.growth().map_or(0, |growth| growth.since(birth));
        self.width().saturating_sub(later) as u64
    }

    /// How many sectors a block of so many takes up: with its parity, and with what is left over where nothing would
    /// fit into it any more.
    pub(crate) fn sectors_allocated(&self, data: u64, birth: Txg) -> u64 {
        let parity = u64::from(self.parity);
        let rows = data.div_ceil(self.width_at(birth).saturating_sub(parity).max(1));
        let (used, step) = (
            data.saturating_add(rows.saturating_mul(parity)),
            parity.saturating_add(1),
        );
        used.div_ceil(step).saturating_mul(step)
    }

    /// The stripes of a block, on sectors of so many bytes, when so much has moved.
    pub(crate) fn stripes(&self, block: &Block, sector: u64, moved: Option<Moved>) -> Stripes {
        let width = self.width_at(block.birth);
        let sectors = block.psize.div_ceil(sector);
        let shape = Shape::new(u64::from(self.parity), width, sectors);
        let first = block.offset / sector;
        let is_exchanged = self.parity == 1 && block.offset & EXCHANGE_BIT != 0;
        let children = u64::from(self.children);
        if width == children && !self.is_growing() {
            return Stripes::One(Stripe {
                shape,
                first,
                is_exchanged,
            });
        }
        let moved = moved.map(|moved| MovedSectors {
            to: moved.to / sector,
            in_scratch: moved.in_scratch,
        });
        Stripes::Rows(Rows::new(shape, first, is_exchanged, (children, moved)))
    }

    /// The sectors of child `child` (from, to) that hold nothing but sectors `from..to` of the vdev. While sectors move
    /// from child to child that is none.
    pub(crate) fn sectors_of_child(&self, from: u64, to: u64, child: u64) -> (u64, u64) {
        if self.is_growing() {
            return (0, 0);
        }
        let width = u64::from(self.children);
        (
            from.saturating_sub(child).div_ceil(width),
            to.saturating_sub(child).div_ceil(width),
        )
    }
}

/// The stripes of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stripes {
    /// One, of columns that are as long as they need be.
    One(Stripe),
    /// Of a vdev that got more children: one a row.
    Rows(Rows),
}

/// The stripe of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripe {
    shape: Shape,
    first: u64,
    is_exchanged: bool,
}

impl Stripe {
    pub(crate) const fn count(&self) -> u64 {
        self.shape.count()
    }

    /// A column, from 0.
    pub(crate) fn column(&self, index: u64) -> StripeColumn {
        let width = self.shape.width;
        let turned = self.first % width + exchanged(self.is_exchanged, index);
        let wraps = turned >= width;
        let len = self.shape.len(index);
        StripeColumn {
            stripe: 0,
            index,
            child: turned - if wraps { width } else { 0 },
            start: self.first / width + u64::from(wraps),
            len,
            data_start: self.shape.data_start(index),
            data_len: len,
            number: 0,
            in_scratch: false,
        }
    }
}
