//! Blocks that are narrower than the RAID-Z vdev that they lie on: it got more children since.
//!
//! A block lies on as many sectors of the vdev as before, one after the other. But these go round more children now, so
//! that a column is no longer in one piece on one child: each row of sectors is a stripe by itself.

use crate::stripe::{Shape, StripeColumn, exchanged};

/// The rows of one block, a stripe each, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    shape: Shape,
    first: u64,
    is_exchanged: bool,
    /// How many children the vdev has.
    children: u64,
    /// Where the vdev's last child is being added: the sector up to which all goes round all children, and from which
    /// on it goes round all but the last.
    moved: Option<MovedSectors>,
}

/// [`crate::Moved`] in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MovedSectors {
    pub(crate) to: u64,
    pub(crate) in_scratch: bool,
}

impl Rows {
    pub(crate) const fn new(
        shape: Shape,
        first: u64,
        is_exchanged: bool,
        (children, moved): (u64, Option<MovedSectors>),
    ) -> Self {
        Self {
            shape,
            first,
            is_exchanged,
            children,
            moved,
        }
    }

    /// How many columns a row has. Those of the last row may be empty.
    const fn columns(&self) -> u64 {
        self.shape.count()
    }

    const fn rows(&self) -> u64 {
        self.shape
            .height
            .saturating_add((self.shape.long > 0) as u64)
    }

    pub(crate) const fn count(&self) -> u64 {
        self.rows().saturating_mul(self.columns())
    }

    /// A column of all rows, from 0.
    pub(crate) fn column(&self, at: u64) -> StripeColumn {
        let columns = self.columns().max(1);
        let (row, index) = (at / columns, at % columns);
        let start = self
            .first
            .saturating_add(row.saturating_mul(self.shape.width));
        // A row that has moved in part has not moved.
        let has_moved = |moved: MovedSectors| start.saturating_add(columns) <= moved.to;
        let (children, in_scratch) = match self.moved {
            Some(moved) if !has_moved(moved) => (self.children.saturating_sub(1).max(1), false),
            Some(moved) => (self.children, moved.in_scratch),
            None => (self.children, false),
        };
        let sector = start.saturating_add(exchanged(self.is_exchanged, index));
        let len = u64::from(row < self.shape.len(index));
        StripeColumn {
            stripe: row,
            index,
            child: sector % children,
            start: sector / children,
            len,
            data_start: self
                .shape
                .data_start(index)
                .map(|start| start.saturating_add(row)),
            data_len: len,
            number: sector,
            in_scratch,
        }
    }
}
