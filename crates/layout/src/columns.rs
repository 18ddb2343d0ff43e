//! The columns of a block: what of it goes to which child.

use crate::{Kind, Layout};

/// The part of a block that lies on one child, in one piece.
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
}

/// The columns of a block, in their order; made without allocating.
#[derive(Clone, Debug)]
pub struct Columns {
    layout: Layout,
    offset: u64,
    len: u64,
    next: usize,
    end: usize,
}

impl Columns {
    pub(crate) const fn new(layout: Layout, offset: u64, psize: u64, children: usize) -> Self {
        let end = match layout.kind() {
            Kind::Single | Kind::Mirror => children,
        };
        Self {
            layout,
            offset,
            len: layout.whole_sectors(psize),
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
        Some(match self.layout.kind() {
            Kind::Single | Kind::Mirror => Column {
                child: index,
                offset: self.offset,
                len: self.len,
                content: Content::Whole,
            },
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Columns {}
