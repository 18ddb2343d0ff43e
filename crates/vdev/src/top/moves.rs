//! Sectors of a RAID-Z vdev that move, for it is getting another child.
//!
//! One [`Move`] at a time, by one thread: what lies in a range of the vdev is copied from where it is to where it will
//! be. Until the move ends, blocks are looked for where they are; then, from one moment on, where they have moved to.
//!
//! *Reads* do not wait: the places that are left keep their bytes until the next move, which begins when nobody who
//! looked for a block before the end of this one is still about it ([`Moves::look_for`], [`Moves::wait_for_others`]).
//! *Writes* into the range go to the old place, as the pool on disk still looks there, and to the new one: while it is
//! being copied a write is noted, and written to the new place by who copies, after what was copied; from then on
//! writes go to both places at once. So whichever state an import finds, it finds every write that was done.

use super::parts::parts;
use super::{Top, place_of};
use crate::group::{Reports, WriteCompletion};
use crate::members::Members;
use crate::reads::read_all;
use crate::top::KeptWrites;
use crate::{IoClass, Leaf, VdevError, WriteGroup};
use base::invariant::Findings;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::{Txg, VdevId};
use layout::{Area, Moved, Piece, Reflow, Spread};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use sys::{Buffer, BufferMut};

static STATE: LockClass = LockClass::new("vdev.moves", rank::VDEV + 2);

/// So many bytes are read at a time, and written when all are there.
const CHUNK_BYTES: u64 = 4 << 20;

/// What moves of a vdev, and who looks for blocks. Those of vdevs that take each other's place are one.
pub(crate) struct Moves {
    state: Mutex<State>,
    /// Who looks for blocks, by the lowest bit of the round in which they began.
    inside: [AtomicUsize; 2],
    round: AtomicUsize,
    /// Somebody has left a round.
    left: Condvar,
}

#[derive(Default)]
struct State {
    /// The move under way.
    next: Option<Next>,
    /// Vdevs whose place others took: who has one of them still does not know what moves.
    before: Vec<Weak<Top>>,
    waiting: bool,
}

struct Next {
    to: Moved,
    /// Writes for the new place that come after what is being copied; none when all was copied.
    noted: Option<Vec<Noted>>,
}

/// A write of a block.
#[derive(Clone)]
struct Noted {
    place: (u64, Txg),
    data: Buffer,
}

/// Pieces with their bytes.
type Parts = Vec<(Piece, Buffer)>;

/// Somebody who looks for a block: nothing is put into its place before this is dropped.
pub(super) struct Inside<'a> {
    moves: &'a Moves,
    round: usize,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let before = self.moves.inside[self.round & 1].fetch_sub(1, Ordering::SeqCst);
        if before == 1 {
            let state = self.moves.state.lock();
            if state.waiting {
                self.moves.left.notify_all();
            }
        }
    }
}

impl Moves {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(&STATE, State::default()),
            inside: [AtomicUsize::new(0), AtomicUsize::new(0)],
            round: AtomicUsize::new(0),
            left: Condvar::new(),
        })
    }

    /// Another vdev takes the place of `top`.
    pub(super) fn succeed(&self, top: &Arc<Top>) {
        let mut state = self.state.lock();
        state.before.retain(|before| before.strong_count() > 0);
        state.before.push(Arc::downgrade(top));
    }

    /// Whether nobody has a vdev any more whose place another one took.
    pub(super) fn is_alone(&self) -> bool {
        let mut state = self.state.lock();
        state.before.retain(|before| before.strong_count() > 0);
        state.before.is_empty()
    }

    /// To be held by who writes, until what he writes is in all queues.
    pub(super) fn look_for(&self) -> Inside<'_> {
        loop {
            let round = self.round.load(Ordering::SeqCst);
            self.inside[round & 1].fetch_add(1, Ordering::SeqCst);
            let inside = Inside { moves: self, round };
            if self.round.load(Ordering::SeqCst) == round {
                return inside;
            }
        }
    }

    /// Waits until all are gone that looked for blocks when this was called. By one thread at a time.
    pub(super) fn wait_for_others(&self) {
        let round = self.round.fetch_add(1, Ordering::SeqCst);
        let mut state = self.state.lock();
        state.waiting = true;
        while self.inside[round & 1].load(Ordering::SeqCst) > 0 {
            self.left.wait(&mut state);
        }
        state.waiting = false;
    }
}

/// The writes of a move: all leaves must take theirs.
struct Writes {
    group: Arc<WriteGroup>,
    kept: Arc<KeptWrites>,
    vdev: VdevId,
    txg: Txg,
}

/// Sectors that move. When it is dropped everything is where it was.
pub struct Move {
    top: Arc<Top>,
    reflow: Reflow,
    from: Moved,
    to: Moved,
    writes: Writes,
    is_done: bool,
}

impl Top {
    /// To be held by who looks for a block, until he is done with its place.
    pub(super) fn look_for(&self) -> Option<Inside<'_>> {
        self.layout.moved().map(|_| self.moves.look_for())
    }

    /// The pieces that a block of whole sectors is to be written in, with their bytes: where it is, and where it moves
    /// to. The caller has called [`Top::look_for`].
    pub(super) fn parts_of(&self, place: (u64, Txg), data: &Buffer) -> (Parts, Parts) {
        let whole = (place.0, data.len(), place.1);
        if self.layout.moved().is_none() {
            let placement = self.placement(whole.0, whole.1, whole.2);
            return (parts(&placement, data), Vec::new());
        }
        let (now, then) = {
            let mut state = self.moves.state.lock();
            let then = state.next.as_mut().and_then(|next| match &mut next.noted {
                Some(noted) => {
                    let data = data.clone();
                    noted.push(Noted { place, data });
                    None
                }
                None => Some(next.to),
            });
            (self.layout.moved(), then)
        };
        let placement = self.placement_at(whole, now);
        let mut there = Vec::new();
        if let Some(then) = then {
            let moved = self.placement_at(whole, Some(then));
            if moved.pieces() != placement.pieces() {
                there = parts(&moved, data);
            }
        }
        (parts(&placement, data), there)
    }

    /// Whether all that it has is where it should be, so that it can move: all leaves are there, and lack nothing. Of a
    /// child with several, which a spare makes that stays beside a device, any is read and all are written.
    #[must_use]
    pub fn can_move(&self) -> bool {
        let is_whole = |leaf: &Arc<Leaf>| leaf.is_writable() && leaf.missing().is_empty();
        self.leaves().iter().all(is_whole) && self.moves.is_alone()
    }
}

impl Move {
    /// Begins to move sectors of a vdev that is getting another child, until what has moved is `to`; nothing else moves
    /// at the same time. None if it is not getting one.
    ///
    /// The caller sees to it that the pool on disk says that what has moved is what the vdev says, and that no sector
    /// moves into a place that is looked for, see [`Reflow::limit`].
    #[must_use]
    pub fn begin(top: &Arc<Top>, to: Moved, txg: Txg, findings: &Arc<Findings>) -> Option<Self> {
        let reflow = Reflow::of(top.layout())?;
        let from = top.layout().moved()?;
        let writes = Writes {
            group: WriteGroup::of_pool(txg, findings),
            kept: KeptWrites::new(),
            vdev: top.id(),
            txg,
        };
        top.moves.state.lock().next = Some(Next {
            to,
            noted: Some(Vec::new()),
        });
        let begun = Self {
            top: Arc::clone(top),
            reflow,
            from,
            to,
            writes,
            is_done: false,
        };
        // Who looked for a block before the last move ended is done, and all that was to be written before is on the
        // leaves.
        top.moves.wait_for_others();
        top.leaves().iter().for_each(|leaf| leaf.drain());
        Some(begun)
    }

    /// What has moved when it ends.
    #[must_use]
    pub const fn to(&self) -> Moved {
        self.to
    }

    /// Whether all leaves are there still, and have what was copied as far as they know.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.top.can_move()
    }

    /// Which bytes of the vdev move.
    #[must_use]
    pub const fn range(&self) -> Range<u64> {
        self.reflow.range(self.from, self.to)
    }

    /// Copies a part of what moves.
    ///
    /// # Errors
    /// A leaf could not be read or written.
    pub fn copy(&self, range: Range<u64>) -> Result<(), VdevError> {
        let whole = self.range();
        let end = range.end.min(whole.end);
        let mut at = range.start.max(whole.start);
        while at < end {
            let next = end.min(at.saturating_add(CHUNK_BYTES));
            self.copy_chunk(&(at..next))?;
            at = next;
        }
        Ok(())
    }

    fn copy_chunk(&self, range: &Range<u64>) -> Result<(), VdevError> {
        let (now, then) = self.reflow.spreads(self.from, self.to);
        let sources = self.read(&now, range)?;
        let mut targets: Vec<(Range<u64>, BufferMut)> = (0..then.children)
            .map(|child| {
                let place = then.on_child(range, child);
                let len = usize::try_from(place.end - place.start).unwrap_or(0);
                (place, BufferMut::zeroed(len))
            })
            .collect();
        let sector = self.reflow.sector();
        for number in range.start / sector..range.end.div_ceil(sector) {
            let (child, at) = now.place(number);
            let source = sources.get(child as usize).and_then(|(place, bytes)| {
                let start = usize::try_from(at.checked_sub(place.start)?).ok()?;
                bytes.get(start..start.checked_add(sector as usize)?)
            });
            let (child, at) = then.place(number);
            let target = targets.get_mut(child as usize).and_then(|(place, bytes)| {
                let start = usize::try_from(at.checked_sub(place.start)?).ok()?;
                bytes.get_mut(start..start.checked_add(sector as usize)?)
            });
            let (Some(source), Some(target)) = (source, target) else {
                return Err(self.contradiction(range));
            };
            target.copy_from_slice(source);
        }
        for (child, (place, bytes)) in targets.into_iter().enumerate() {
            if !bytes.is_empty() {
                let piece = piece(child, then.area, &place);
                self.write(vec![(piece, bytes.freeze())]);
            }
        }
        Ok(())
    }

    /// What lies in a range, by child.
    fn read(
        &self,
        spread: &Spread,
        range: &Range<u64>,
    ) -> Result<Vec<(Range<u64>, Buffer)>, VdevError> {
        let places: Vec<_> = (0..spread.children)
            .map(|child| spread.on_child(range, child))
            .collect();
        let mut wanted = Vec::with_capacity(places.len());
        for (child, place) in places.iter().enumerate() {
            let leaf = self.top.children.of(child).first();
            let leaf = leaf.ok_or_else(|| self.contradiction(range))?;
            let piece = piece(child, spread.area, place);
            wanted.push((Arc::clone(leaf), place_of(&piece), piece.len as usize));
        }
        let there: Vec<_> = wanted
            .iter()
            .filter(|(_, _, len)| *len > 0)
            .cloned()
            .collect();
        let threads = &self.top.read_threads;
        let mut results = read_all(&there, IoClass::AsyncRead, threads).into_iter();
        let mut read = Vec::with_capacity(places.len());
        for (place, (leaf, _, len)) in places.into_iter().zip(wanted) {
            let data = if len == 0 {
                BufferMut::zeroed(0).freeze()
            } else {
                let result = results.next().ok_or_else(|| self.contradiction(range))?;
                result.map_err(|failure| leaf.handle().failure(failure))?
            };
            read.push((place, data));
        }
        Ok(read)
    }

    fn contradiction(&self, range: &Range<u64>) -> VdevError {
        VdevError::ReadFailed {
            vdev: self.top.id(),
            offset: range.start,
            len: range.end.saturating_sub(range.start),
            failures: Vec::new(),
        }
    }

    /// Queues writes, behind those that are queued.
    fn write(&self, pieces: Parts) {
        let Writes {
            group, kept, vdev, ..
        } = &self.writes;
        for (piece, bytes) in pieces {
            for leaf in self.top.children.of(piece.child) {
                let members = Members::new(vec![leaf.guid()], std::iter::once(0..1).collect());
                let completion = WriteCompletion::new(
                    (group, kept),
                    (*vdev, piece.offset, self.writes.txg),
                    bytes.clone(),
                    IoClass::AsyncWrite,
                    Reports {
                        count: 1,
                        tolerance: 0,
                        members: Arc::new(members),
                    },
                );
                leaf.write(place_of(&piece), bytes.clone(), completion);
            }
        }
    }

    /// All was copied: from now on it is kept the same in both places. When this has returned, and a flush after it,
    /// all is in its new place for good.
    ///
    /// # Errors
    /// A leaf did not take something.
    pub fn settle(&self) -> Result<(), VdevError> {
        loop {
            let noted = {
                let mut state = self.top.moves.state.lock();
                let Some(next) = &mut state.next else { break };
                match next.noted.take() {
                    Some(noted) if !noted.is_empty() => {
                        next.noted = Some(Vec::new());
                        noted
                    }
                    // Nothing came meanwhile.
                    Some(_) | None => break,
                }
            };
            for Noted { place, data } in noted {
                let whole = (place.0, data.len(), place.1);
                let now = self.top.placement_at(whole, Some(self.from));
                let moved = self.top.placement_at(whole, Some(self.to));
                if moved.pieces() != now.pieces() {
                    self.write(parts(&moved, &data));
                }
            }
        }
        let waited = self.writes.group.wait();
        // They are not written again: it is told by the error.
        let _ = self.writes.group.take_failed();
        waited
    }

    /// What moved is looked for in its new place from now on: the pool on disk says so.
    pub fn end(mut self) {
        self.is_done = true;
        let mut state = self.top.moves.state.lock();
        self.top.set_moved(self.to);
        state.next = None;
    }
}

impl Drop for Move {
    fn drop(&mut self) {
        if !self.is_done {
            self.top.moves.state.lock().next = None;
        }
    }
}

fn piece(child: usize, area: Area, place: &Range<u64>) -> Piece {
    Piece {
        child,
        offset: place.start,
        area,
        len: place.end.saturating_sub(place.start),
    }
}

#[cfg(test)]
mod tests;
