//! Copying what lies at places of a vdev to leaves that lack it, whatever it is: sequential rebuilds.
//!
//! A range is copied as it is on the leaves that missed nothing; of a dRAID the pieces that are wanted are computed
//! from the others, which is possible without knowing blocks, for all of a stripe's rows are whole. Nothing is
//! verified: so leaves that are degraded by their errors are the last to be read from.
//!
//! *Writes* go on beside it. A [`RangeCopy`] begins when all that was written before is in the queues, from where it is
//! read; what is written since into the range is noted ([`super::copies::Copies::written`]), and left out of the copy.
//! The copy itself goes through the queues, where a newer write of a place comes after it. So at any time, each place
//! of a range that was copied has on a leaf what was written there last.

use super::{Top, place_of};
use crate::group::{Reports, WriteCompletion};
use crate::leaf::COPIED;
use crate::members::Members;
use crate::top::KeptWrites;
use crate::{BlockRange, IoClass, Leaf, VdevError, WriteGroup};
use base::Txg;
use layout::{Area, Piece};
use std::ops::Range;
use std::sync::Arc;
use sys::Buffer;

/// What came of a copy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Bytes of the vdev that were read for it; 0 where no leaf was to get anything.
    pub read: u64,
    /// Bytes that were given to leaves.
    pub written: u64,
}

impl std::ops::AddAssign for Copied {
    fn add_assign(&mut self, other: Self) {
        self.read = self.read.saturating_add(other.read);
        self.written = self.written.saturating_add(other.written);
    }
}

/// A range that is being copied. Dropping it gives that up.
pub struct RangeCopy {
    top: Arc<Top>,
    range: Range<u64>,
    targets: Arc<[Arc<Leaf>]>,
    number: u64,
    kept: Arc<KeptWrites>,
}

impl Drop for RangeCopy {
    fn drop(&mut self) {
        self.top.copies.end(self.number);
    }
}

impl Top {
    /// Whether leaves can be given what they lack without knowing blocks.
    #[must_use]
    pub fn can_be_copied(&self) -> bool {
        self.layout.psize_of_whole_units(0).is_some()
    }

    /// Whether [`Top::begin_copies`] may begin now.
    #[must_use]
    pub fn can_begin_copies(&self) -> bool {
        self.can_be_copied() && self.moves.is_alone() && !self.kept.any()
    }

    /// Begins to copy ranges to leaves of the vdev that lack what lies there; each is widened to whole stripes. By one
    /// thread at a time. None as long as somebody writes who may not know these leaves, as he has a vdev whose place
    /// this one took, or there are writes that no leaf took.
    #[must_use]
    pub fn begin_copies(
        self: &Arc<Self>,
        ranges: impl IntoIterator<Item = Range<u64>>,
        targets: &Arc<[Arc<Leaf>]>,
    ) -> Option<Vec<RangeCopy>> {
        if !self.can_begin_copies() {
            return None;
        }
        let unit = self.layout.unit().max(1);
        let kept = KeptWrites::new();
        let begin = |range: Range<u64>| {
            let end = range.end.div_ceil(unit).saturating_mul(unit);
            let range = range.start / unit * unit..end.min(self.asize() / unit * unit);
            RangeCopy {
                number: self.copies.begin(range.clone()),
                range,
                top: Arc::clone(self),
                targets: Arc::clone(targets),
                kept: Arc::clone(&kept),
            }
        };
        let copies = ranges.into_iter().map(begin).collect();
        // What was to be written before is in the queues; who writes from now on sees the ranges.
        self.moves.wait_for_others();
        Some(copies)
    }

    /// Where the pieces of a range of whole stripes lie.
    fn pieces_at(&self, range: &Range<u64>) -> Vec<Piece> {
        let whole = self.block_at(range);
        let placement = self.placement(whole.offset, whole.len, whole.birth);
        placement.pieces().to_vec()
    }

    /// A range of whole stripes, as if it were one block.
    fn block_at(&self, range: &Range<u64>) -> BlockRange {
        let psize = self
            .layout
            .psize_of_whole_units(range.end.saturating_sub(range.start));
        let len = usize::try_from(psize.unwrap_or(0)).unwrap_or(0);
        BlockRange {
            offset: range.start,
            len,
            birth: Txg(0),
        }
    }

    /// What lies in a range, from a leaf that missed nothing; from one that is degraded only if no other gives it.
    fn copy_of(&self, block: BlockRange) -> Result<Buffer, VdevError> {
        let leaves = self.leaves().iter();
        let mut sources: Vec<_> = leaves
            .filter(|leaf| leaf.is_readable() && leaf.is_whole())
            .collect();
        sources.sort_by_key(|leaf| (leaf.is_degraded(), leaf.handle().active()));
        let mut failures = Vec::new();
        for leaf in sources {
            match leaf.read(Leaf::device_offset(block.offset), block.len, IoClass::Scan) {
                Ok(data) => return Ok(data),
                Err(failure) => failures.push(leaf.handle().failure(failure)),
            }
        }
        Err(VdevError::ReadFailed {
            vdev: self.id(),
            offset: block.offset,
            len: block.len as u64,
            failures,
        })
    }
}

impl RangeCopy {
    /// Bytes of the vdev that it covers.
    #[must_use]
    pub const fn range(&self) -> &Range<u64> {
        &self.range
    }

    /// Reads the range, and queues what the leaves are to get of it: `group` says when that is written.
    ///
    /// # Errors
    /// What the leaves are to get could not be had. Nothing was written.
    pub fn run(self, group: &Arc<WriteGroup>) -> Result<Copied, VdevError> {
        let top = &self.top;
        let pieces = top.pieces_at(&self.range);
        let is_wanted = |piece: &Piece| {
            let mut holders = top.children.holders(piece);
            holders.any(|holder| holder.is_of(&self.targets))
        };
        let numbered = pieces.iter().enumerate();
        let wanted = numbered.filter(|(_, piece)| is_wanted(piece));
        let wanted: Vec<usize> = wanted.map(|(index, _)| index).collect();
        if wanted.is_empty() {
            return Ok(Copied::default());
        }
        let bytes = self.read(&wanted)?;
        let newer = top.copies.queue(self.number);
        let newer: Vec<Piece> = newer
            .iter()
            .flat_map(|range| top.pieces_at(&self.inside(range)))
            .collect();
        let mut copied = Copied {
            read: self.range.end.saturating_sub(self.range.start),
            written: 0,
        };
        for (index, bytes) in wanted.into_iter().zip(bytes) {
            for (piece, part) in left_of(&pieces[index], &newer) {
                let part = bytes.slice(part);
                copied.written += self.write(&piece, &part, group);
            }
        }
        Ok(copied)
    }

    /// What of a range that was written lies in this one: whole stripes, for both are.
    fn inside(&self, range: &Range<u64>) -> Range<u64> {
        let start = range.start.max(self.range.start);
        start..range.end.min(self.range.end).max(start)
    }

    /// The bytes of the wanted pieces.
    fn read(&self, wanted: &[usize]) -> Result<Vec<Buffer>, VdevError> {
        let top = &self.top;
        let block = top.block_at(&self.range);
        if top.layout.is_copies() {
            let data = top.copy_of(block)?;
            return Ok(vec![data; wanted.len()]);
        }
        top.pieces_of(block, wanted)
            .map_err(|failures| VdevError::ReadFailed {
                vdev: top.id(),
                offset: block.offset,
                len: block.len as u64,
                failures,
            })
    }

    /// Queues a piece for the leaves that are to get it; how many bytes that are. One that cannot be written lacks all
    /// that it lacked.
    fn write(&self, piece: &Piece, data: &Buffer, group: &Arc<WriteGroup>) -> u64 {
        let top = &self.top;
        let mut written = 0;
        for holder in top.children.holders(piece) {
            if !holder.is_of(&self.targets) {
                continue;
            }
            if !holder.is_writable() {
                holder.lose_copy();
                continue;
            }
            let leaf = holder.leaf;
            let members = Members::new(vec![leaf.guid()], std::iter::once(0..1).collect());
            let reports = Reports {
                count: 1,
                tolerance: 0,
                members: Arc::new(members),
            };
            let completion = WriteCompletion::new(
                (group, &self.kept),
                (top.id(), piece.offset, COPIED),
                data.clone(),
                IoClass::Scan,
                reports,
            );
            leaf.write(place_of(piece), data.clone(), completion);
            written += data.len() as u64;
        }
        written
    }
}

/// What of a piece others did not write, and where in the piece that is.
fn left_of(piece: &Piece, newer: &[Piece]) -> Vec<(Piece, Range<usize>)> {
    let whole = piece.offset..piece.offset.saturating_add(piece.len);
    let mut left: Vec<Range<u64>> = std::iter::once(whole).collect();
    let is_here = |other: &&Piece| other.child == piece.child && other.area == Area::Data;
    for other in newer.iter().filter(is_here) {
        let other = other.offset..other.offset.saturating_add(other.len);
        left = left
            .into_iter()
            .flat_map(|range| {
                let before = range.start..range.end.min(other.start);
                let after = range.start.max(other.end)..range.end;
                [before, after]
            })
            .filter(|range| !range.is_empty())
            .collect();
    }
    let part = |range: Range<u64>| {
        let start = usize::try_from(range.start - piece.offset).unwrap_or(0);
        let len = range.end - range.start;
        let part = Piece {
            offset: range.start,
            len,
            ..*piece
        };
        (part, start..start + usize::try_from(len).unwrap_or(0))
    };
    left.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests;
