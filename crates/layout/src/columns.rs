//! The columns of a block: what of it goes to which child.

use crate::draid::DraidStripes;
use crate::raidz::Stripes;
use crate::{Block, Kind, Layout, Moved};

/// A part of a block, or of its parity, that lies on one child, in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Which stripe of the block it belongs to, from 0: parity stands for the columns of its own stripe.
    pub stripe: usize,
    /// Which child, from 0.
    pub child: usize,
    /// Where in the child's allocatable area, bytes.
    pub offset: u64,
    /// Which area of the child that is.
    pub area: Area,
    /// Of a block that is narrower than its vdev: which sector of the vdev it is. Else 0.
    pub number: u64,
    /// How long, in bytes: whole sectors. A column that holds nothing counts for its stripe's parity all the same.
    pub len: u64,
    /// What is there.
    pub content: Content,
}

/// What an offset of a child counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The allocatable area.
    Data,
    /// The scratch area, which holds the beginning of the allocatable one while that is overwritten.
    Scratch,
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The block, whole: any column will do.
    Whole,
    /// A row of parity, from 0, over the columns with data.
    Parity(usize),
    /// Data of the block; what is behind the end of the block is zero.
    Data {
        /// Where in the block it begins, bytes.
        start: u64,
        /// How much it is, bytes. The rest of the column is zero.
        len: u64,
    },
}

/// The columns of a block, stripe by stripe, in their order: those of parity first. Made without allocating.
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
    RaidZ(Stripes),
    Draid(DraidStripes),
}

impl Columns {
    pub(crate) fn new(
        layout: &Layout,
        block: &Block,
        (children, moved): (usize, Option<Moved>),
    ) -> Self {
        let len = layout.whole_sectors(block.psize);
        let (shape, end) = match layout.kind() {
            Kind::Single | Kind::Mirror | Kind::Indirect => {
                let offset = block.offset;
                (Shape::Copies { offset, len }, children)
            }
            Kind::RaidZ(raidz) => {
                let stripes = raidz.stripes(block, layout.sector(), moved);
                let count = match &stripes {
                    Stripes::One(stripe) => stripe.count(),
                    Stripes::Rows(rows) => rows.count(),
                };
                (Shape::RaidZ(stripes), count as usize)
            }
            Kind::Draid(draid) => {
                let stripes = draid.stripes(block, layout.sector());
                (Shape::Draid(stripes), stripes.count() as usize)
            }
        };
        Self {
            shape,
            sector: layout.sector(),
            next: 0,
            end,
        }
    }

    /// Whether columns that lie one after the other on a child may be one piece. Of a dRAID each lies in a slice of its
    /// own perhaps, and so does the room of a spare that stands in for the child.
    pub(crate) const fn may_join(&self) -> bool {
        match self.shape {
            Shape::Copies { .. } | Shape::RaidZ(_) => true,
            Shape::Draid(_) => false,
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
        let column = match &self.shape {
            Shape::Copies { offset, len } => {
                return Some(Column {
                    stripe: 0,
                    child: index,
                    offset: *offset,
                    area: Area::Data,
                    number: 0,
                    len: *len,
                    content: Content::Whole,
                });
            }
            Shape::RaidZ(Stripes::One(stripe)) => stripe.column(index as u64),
            Shape::RaidZ(Stripes::Rows(rows)) => rows.column(index as u64),
            Shape::Draid(stripes) => stripes.column(index as u64),
        };
        let bytes = |sectors: u64| sectors.saturating_mul(self.sector);
        Some(Column {
            stripe: column.stripe as usize,
            child: column.child as usize,
            offset: bytes(column.start),
            area: if column.in_scratch {
                Area::Scratch
            } else {
                Area::Data
            },
            number: column.number,
            len: bytes(column.len),
            content: match column.data_start {
                None => Content::Parity(column.index as usize),
                Some(start) => Content::Data {
                    start: bytes(start),
                    len: bytes(column.data_len),
                },
            },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Columns {}
