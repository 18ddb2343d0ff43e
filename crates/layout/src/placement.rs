//! The pieces in which the columns of a block lie on children: what is read and written at once.

use crate::{Area, Column, Columns};
use std::ops::Range;

/// Bytes of a child, in one piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which child, from 0.
    pub child: usize,
    /// Where in the child's allocatable area, bytes.
    pub offset: u64,
    /// Which area of the child that is.
    pub area: Area,
    /// How long, in bytes: whole sectors.
    pub len: u64,
}

/// The columns of a block, and the pieces of children that they fill. Columns that lie one after the other on a child
/// are one piece, but of a dRAID, where each is its own.
#[derive(Clone, Debug)]
pub struct Placement {
    columns: Vec<Column>,
    /// Of each column, which piece it is in, and from which byte of that on.
    places: Vec<(usize, usize)>,
    pieces: Vec<Piece>,
}

impl Placement {
    pub(crate) fn new(columns: Columns) -> Self {
        let may_join = columns.may_join();
        let columns: Vec<_> = columns.collect();
        let mut pieces: Vec<Piece> = Vec::with_capacity(columns.len().min(usize::from(u8::MAX)));
        let mut places = Vec::with_capacity(columns.len());
        for column in &columns {
            let follows = |piece: &Piece| {
                let end = piece.offset.saturating_add(piece.len);
                piece.child == column.child && piece.area == column.area && end == column.offset
            };
            // Those before this one are of other stripes, or of other children.
            let known = match column.stripe {
                0 => None,
                _ if !may_join => None,
                _ => pieces.iter().rposition(follows),
            };
            let at = known.unwrap_or(pieces.len());
            let start = known.map_or(0, |at| pieces[at].len);
            places.push((at, start as usize));
            match known {
                Some(at) => pieces[at].len += column.len,
                None if column.len == 0 => {}
                None => pieces.push(Piece {
                    child: column.child,
                    offset: column.offset,
                    area: column.area,
                    len: column.len,
                }),
            }
        }
        Self {
            columns,
            places,
            pieces,
        }
    }

    /// The columns, stripe by stripe.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The pieces, each of them once.
    #[must_use]
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Which piece a column is in, and from which byte of that on; of a column that holds nothing that means nothing.
    #[must_use]
    pub fn place(&self, column: usize) -> (usize, usize) {
        self.places.get(column).copied().unwrap_or_default()
    }

    /// The columns of each stripe, by their numbers.
    pub fn stripes(&self) -> impl Iterator<Item = Range<usize>> {
        let mut from = 0;
        self.columns
            .chunk_by(|one, next| one.stripe == next.stripe)
            .map(move |stripe| {
                let start = from;
                from += stripe.len();
                start..from
            })
    }
}
