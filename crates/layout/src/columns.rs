//! The columns of a block: what of it goes to which child.

use crate::raidz::Stripe;
use crate::{Kind, Layout};

/// The part of a block, or of its parity, that lies on one child, in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Which child, from 0.
    pub child: usize,
    /// Where in the child's allocatable area, bytes.
    pub offset: u64,
    /// How long, in bytes: whole sectors.
    pub len: u64,
    /// What is there.
    pub content: Content,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The block, whole: any column will do.
    Whole,
    /// A row of parity, from 0, over the columns with data.
    Parity(usize),
    /// The block from this byte on; what is behind its end is zero.
    Data(u64),
}

/// The columns of a block, in their order: those of parity first. Made without allocating.
#[derive(Clone, Debug)]
pub struct Columns {
    shape: Shape,
    sector: u64,
    next: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Copies { offset: u64, len: u64 },
    Stripe(Stripe),
}

impl Columns {
    pub(crate) const fn new(layout: Layout, offset: u64, psize: u64, children: usize) -> Self {
        let len = layout.whole_sectors(psize);
        let (shape, end) = match layout.kind() {
            Kind::Single | Kind::Mirror => (Shape::Copies { offset, len }, children),
            Kind::RaidZ(raidz) => {
                let (first, sectors) = (offset / layout.sector(), len / layout.sector());
                let stripe = raidz.stripe(first, sectors, raidz.is_exchanged(offset));
                (Shape::Stripe(stripe), stripe.count() as usize)
            }
        };
        Self {
            shape,
            sector: layout.sector(),
            next: 0,
            end,
        }
    }
}

impl Iterator for Columns {
    type Item = Column;

    fn next(&mut self) -> Option<Column> {
        if self.next >= self.end {
            return None;
        }
        let index = self.next;
        self.next += 1;
        Some(match self.shape {
            Shape::Copies { offset, len } => Column {
                child: index,
                offset,
                len,
                content: Content::Whole,
            },
            Shape::Stripe(stripe) => {
                let column = stripe.column(index as u64);
                let bytes = |sectors: u64| sectors.saturating_mul(self.sector);
                Column {
                    child: column.child as usize,
                    offset: bytes(column.start),
                    len: bytes(column.len),
                    content: match column.data_start {
                        None => Content::Parity(index),
                        Some(start) => Content::Data(bytes(start)),
                    },
                }
            }
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Columns {}
