//! Blocks of a vdev that was removed: they lie on other vdevs now, where a mapping says, often in several pieces.
//!
//! The pieces are read one by one, and only all together can be judged. If they are wrong, some side of some piece is
//! wrong without its device saying so: then what each side has of each piece is tried with what the sides have of the
//! others, until the block is right; then it is known who had something else.

use super::repair::left_behind;
use super::{Found, Repaired, ScrubOutcome, Top};
use crate::mapping::Mapping;
use crate::{
    BlockRange, Failure, IoClass, Leaf, LeafFailure, ReadOutcome, VdevError, Verdict, WriteGroup,
};
use base::{Txg, VdevId};
use layout::Kind;
use std::ops::Range;
use std::sync::Arc;
use sys::{Buffer, BufferMut};

/// So many ways of putting a block together are tried.
const COMBINATIONS_MAX: usize = 4096;

/// The other vdevs of the pool.
pub(crate) trait Elsewhere: Send + Sync {
    /// Where a range of a removed vdev lies, in order; each place with the txg in which it was copied there.
    fn places(
        &self,
        vdev: VdevId,
        range: Range<u64>,
    ) -> Result<Vec<(Arc<Top>, BlockRange)>, VdevError>;

    /// Every vdev that is there.
    fn tops(&self) -> Vec<Arc<Top>>;
}

/// Where what a removed vdev held lies.
#[derive(Clone)]
pub(crate) struct MovedTo {
    mapping: Arc<Mapping>,
    elsewhere: Arc<dyn Elsewhere>,
}

/// A piece of a block of a removed vdev.
struct Piece {
    top: Arc<Top>,
    /// Where on that, and when it was copied there.
    range: BlockRange,
    /// Where in the block it begins.
    at: usize,
}

impl Piece {
    /// What the block has of it.
    fn slice(&self, block: &Buffer) -> Buffer {
        block.slice(self.at..self.at + self.range.len)
    }

    fn of<'a>(&self, block: &'a [u8]) -> &'a [u8] {
        block
            .get(self.at..self.at + self.range.len)
            .unwrap_or_default()
    }
}

/// What one side of a vdev has of a piece.
struct Side {
    leaf: Arc<Leaf>,
    is_stale: bool,
    data: Result<Buffer, LeafFailure>,
}

/// What is known of a block once all sides of all pieces were read.
struct Examined {
    /// The block, if it can be put together.
    data: Option<Buffer>,
    /// By piece, what the leaves said that lack it.
    failures: Vec<Vec<LeafFailure>>,
    /// By piece, those of them that can be written.
    lacking: Vec<Vec<Arc<Leaf>>>,
}

impl Top {
    /// Whether it was removed: what it held lies on others.
    #[must_use]
    pub const fn is_indirect(&self) -> bool {
        matches!(self.layout.kind(), Kind::Indirect)
    }

    /// Where what it held lies, if it was removed and that is known.
    #[must_use]
    pub fn mapping(&self) -> Option<&Arc<Mapping>> {
        self.moved_to.as_ref().map(|moved| &moved.mapping)
    }

    /// The same vdev, with the mapping of what it held to other vdevs.
    pub(crate) fn with_mapping(
        &self,
        mapping: Arc<Mapping>,
        elsewhere: Arc<dyn Elsewhere>,
    ) -> Arc<Self> {
        let mut top = Self::of(self.config, self.node.clone(), Arc::clone(&self.kept));
        top.moved_to = Some(MovedTo { mapping, elsewhere });
        Arc::new(top)
    }

    fn not_mapped(&self, range: BlockRange) -> VdevError {
        VdevError::NotMapped {
            vdev: self.id(),
            offset: range.offset,
            len: range.len as u64,
        }
    }

    /// The pieces of a place, in order. Each is as long as it is asked for: only the last one may end within a sector.
    fn pieces(&self, range: BlockRange) -> Result<Vec<Piece>, VdevError> {
        let moved = self.moved_to.as_ref();
        let moved = moved.ok_or_else(|| self.not_mapped(range))?;
        let end = range.offset.saturating_add(range.len as u64);
        let places = moved.elsewhere.places(self.id(), range.offset..end)?;
        let mut at = 0;
        let piece = |(top, range): (Arc<Self>, BlockRange)| {
            at += range.len;
            Piece {
                top,
                range,
                at: at - range.len,
            }
        };
        Ok(places.into_iter().map(piece).collect())
    }

    /// Reads a block of a removed vdev; as [`Top::read`].
    pub(super) fn read_moved(
        &self,
        range: BlockRange,
        class: IoClass,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ReadOutcome, VdevError> {
        let pieces = self.pieces(range)?;
        if let [only] = &pieces[..] {
            return only.top.read(only.range, class, accept);
        }
        let mut block = BufferMut::zeroed(range.len);
        let (mut failures, mut lacking) = (Vec::new(), Vec::new());
        let mut is_whole = true;
        for piece in &pieces {
            match piece
                .top
                .read(piece.range, class, &mut |_| Verdict::Unproven)
            {
                Ok(read) => {
                    block[piece.at..piece.at + piece.range.len].copy_from_slice(&read.data);
                    failures.extend(read.failures);
                    lacking.extend(read.lacking);
                }
                Err(VdevError::ReadFailed { failures: more, .. }) => {
                    failures.extend(more);
                    is_whole = false;
                }
                Err(error) => return Err(error),
            }
        }
        let block = block.freeze();
        if is_whole && accept(&block) != Verdict::Wrong {
            return Ok(ReadOutcome {
                data: block,
                failures,
                lacking,
            });
        }
        let examined = examine(&pieces, (range.len, class), accept);
        let failures = examined.failures.concat();
        match examined.data {
            Some(data) => Ok(ReadOutcome {
                data,
                lacking: examined.lacking.concat(),
                failures,
            }),
            None => Err(VdevError::ReadFailed {
                vdev: self.id(),
                offset: range.offset,
                len: range.len as u64,
                failures,
            }),
        }
    }

    /// See [`Top::leave_range_behind`].
    pub(super) fn leave_moved_behind(&self, range: BlockRange) {
        let pieces = self.pieces(range).unwrap_or_default().into_iter();
        pieces.for_each(|piece| piece.top.leave_range_behind(piece.range));
    }

    /// Looks at every side of a block of a removed vdev; as [`Top::scrub`].
    pub(super) fn scrub_moved(
        &self,
        (range, promised): (BlockRange, bool),
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ScrubOutcome, VdevError> {
        let pieces = self.pieces(range)?;
        if let [only] = &pieces[..] {
            return only.top.scrub(only.range, promised, accept);
        }
        let examined = examine(&pieces, (range.len, IoClass::Scan), accept);
        let mut repaired = Repaired::default();
        let found = examined.lacking.iter().zip(&examined.failures);
        for (piece, (lacking, failures)) in pieces.iter().zip(found) {
            if promised {
                piece.top.blame(failures, piece.range.birth);
            }
            if let Some(data) = &examined.data {
                let leaves = piece.top.leaves().iter();
                let is_away = |leaf: &&Arc<Leaf>| !leaf.is_readable();
                left_behind(leaves.filter(is_away), piece.range.birth);
                repaired += piece.top.repair(lacking, piece.range, &piece.slice(data));
            }
        }
        Ok(ScrubOutcome {
            data: examined.data,
            failures: examined.failures.concat(),
            repaired,
        })
    }

    /// What a scrub would find of a block of a removed vdev, and would not repair.
    pub(super) fn verify_moved(
        &self,
        range: BlockRange,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ScrubOutcome, VdevError> {
        let pieces = self.pieces(range)?;
        let examined = examine(&pieces, (range.len, IoClass::Scan), accept);
        Ok(ScrubOutcome {
            data: examined.data,
            failures: examined.failures.concat(),
            repaired: Repaired::default(),
        })
    }

    /// Gives right bytes to those leaves that lack them.
    pub(super) fn repair_moved(
        &self,
        lacking: &[Arc<Leaf>],
        range: BlockRange,
        data: &Buffer,
    ) -> Repaired {
        self.repair_pieces(range, data, &|piece, data| {
            piece.top.repair(lacking, piece.range, data)
        })
    }

    /// Writes right bytes, found elsewhere, to all sides.
    pub(super) fn heal_moved(&self, range: BlockRange, data: &Buffer) -> Repaired {
        self.repair_pieces(range, data, &|piece, data| {
            piece.top.heal(piece.range, data)
        })
    }

    fn repair_pieces(
        &self,
        range: BlockRange,
        data: &Buffer,
        repair: &dyn Fn(&Piece, &Buffer) -> Repaired,
    ) -> Repaired {
        let mut repaired = Repaired::default();
        for piece in self.pieces(range).unwrap_or_default() {
            repaired += repair(&piece, &piece.slice(data));
        }
        repaired
    }

    /// Queues the write of whole sectors of a block. What is not mapped has nowhere to go: nothing new is ever written
    /// to a removed vdev, only what is there already is written again.
    pub(super) fn write_moved(
        &self,
        (offset, birth): (u64, Txg),
        data: &Buffer,
        class: IoClass,
        group: &Arc<WriteGroup>,
    ) {
        let range = BlockRange {
            offset,
            len: data.len(),
            birth,
        };
        for piece in self.pieces(range).unwrap_or_default() {
            let data = piece.slice(data);
            let place = (piece.range.offset, piece.range.birth);
            piece.top.write_of(place, data, class, group);
        }
    }

    /// Counts wrong bytes of a block against the leaves that gave them, wherever these are. Those that missed what they
    /// gave were not asked for it, so that no txg has to say whether they did.
    pub(super) fn blame_moved(&self, failures: &[LeafFailure]) {
        let Some(moved) = &self.moved_to else { return };
        let birth = moved.mapping.births().last().unwrap_or(Txg(0));
        for top in moved.elsewhere.tops() {
            top.blame(failures, birth);
        }
    }
}

/// What each side has of a piece.
fn sides(piece: &Piece, class: IoClass) -> Vec<Side> {
    let kept = match piece.top.kept.find(piece.range) {
        Found::All(data) => Some(Some(data)),
        // Nobody has it in one piece.
        Found::Part => Some(None),
        Found::Nothing => None,
    };
    let leaves = piece.top.leaves().iter();
    let read = |leaf: &Arc<Leaf>| {
        let whole = piece.range.len.next_multiple_of(1 << leaf.ashift());
        let place = Leaf::device_offset(piece.range.offset);
        let data = leaf.read(place, whole, class);
        let data = data.map_err(|failure| leaf.handle().failure(failure))?;
        Ok(data.slice(0..piece.range.len))
    };
    let side = |leaf: &Arc<Leaf>| Side {
        leaf: Arc::clone(leaf),
        is_stale: leaf.misses(piece.range.birth),
        data: match &kept {
            Some(Some(data)) => Ok(data.clone()),
            Some(None) => Err(leaf.handle().failure(Failure::Missing)),
            None if leaf.is_readable() => read(leaf),
            None => {
                let condition = leaf.condition();
                let failure = Failure::Unavailable(condition.state, condition.aux);
                Err(leaf.handle().failure(failure))
            }
        },
    };
    let mut sides: Vec<Side> = leaves.map(side).collect();
    sides.sort_by_key(|side| side.is_stale);
    sides
}

/// Reads all sides of all pieces, finds out what is right, and who has something else.
fn examine(
    pieces: &[Piece],
    (len, class): (usize, IoClass),
    accept: &mut dyn FnMut(&[u8]) -> Verdict,
) -> Examined {
    let sides: Vec<Vec<Side>> = pieces.iter().map(|piece| sides(piece, class)).collect();
    let data = put_together(pieces, &sides, len, accept);
    let (mut failures, mut lacking) = (Vec::new(), Vec::new());
    for (piece, sides) in pieces.iter().zip(&sides) {
        let right = data.as_ref().map(|data| piece.of(data));
        let (mut said, mut without) = (Vec::new(), Vec::new());
        for side in sides {
            let failure = match (&side.data, right) {
                (Ok(found), Some(right)) if &found[..] == right => continue,
                (_, _) if side.is_stale => side.leaf.handle().failure(Failure::Missing),
                // Nobody knows which of them are wrong.
                (Ok(_), _) => side.leaf.handle().failure(Failure::Checksum),
                (Err(failure), _) => failure.clone(),
            };
            let is_away = matches!(failure.failure, Failure::Unavailable(..));
            said.push(failure);
            if !is_away {
                without.push(Arc::clone(&side.leaf));
            }
        }
        failures.push(said);
        lacking.push(without);
    }
    Examined {
        data,
        failures,
        lacking,
    }
}

/// Tries what the sides have of each piece with what they have of the others, until the block is right. What a side
/// missed is believed only if it is proven.
fn put_together(
    pieces: &[Piece],
    sides: &[Vec<Side>],
    len: usize,
    accept: &mut dyn FnMut(&[u8]) -> Verdict,
) -> Option<Buffer> {
    let versions: Vec<Vec<(&Buffer, bool)>> = sides.iter().map(|sides| versions(sides)).collect();
    let mut chosen = vec![0_usize; pieces.len()];
    for _ in 0..COMBINATIONS_MAX {
        let mut block = BufferMut::zeroed(len);
        let mut is_stale = false;
        for ((piece, versions), index) in pieces.iter().zip(&versions).zip(&chosen) {
            let (data, stale) = versions.get(*index)?;
            block[piece.at..piece.at + piece.range.len].copy_from_slice(data);
            is_stale |= stale;
        }
        match (accept(&block), is_stale) {
            (Verdict::Proven, _) | (Verdict::Unproven, false) => return Some(block.freeze()),
            (Verdict::Unproven, true) | (Verdict::Wrong, _) => {}
        }
        let next = chosen.iter_mut().zip(&versions);
        let mut is_last = true;
        for (index, versions) in next {
            *index += 1;
            if *index < versions.len() {
                is_last = false;
                break;
            }
            *index = 0;
        }
        if is_last {
            return None;
        }
    }
    None
}

/// The different contents that the sides have of a piece, and whether all that have one missed it.
fn versions(sides: &[Side]) -> Vec<(&Buffer, bool)> {
    let mut versions: Vec<(&Buffer, bool)> = Vec::new();
    for side in sides {
        let Ok(data) = &side.data else { continue };
        if !versions.iter().any(|(known, _)| known[..] == data[..]) {
            versions.push((data, side.is_stale));
        }
    }
    versions
}
