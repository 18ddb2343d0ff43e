//! Reading blocks that lie on several children, with parity.
//!
//! The data's columns are read first, all at once, with as much parity as stands for what is known to be away. If one
//! fails, all others are read at once. Columns that cannot be had are computed from parity. If what comes out is wrong,
//! some column is wrong without its device saying so: every set of as many columns as parity can stand for is left out
//! in turn, until the checksum says that the block is right; then it is known which columns were not.

use super::parts::parts;
use super::{Repaired, ScrubOutcome, Top, place_of};
use crate::holders::Holder;
use crate::reads::read_all;
use crate::{BlockRange, Failure, IoClass, Leaf, LeafFailure, ReadOutcome, VdevError, Verdict};
use itertools::Itertools;
use layout::{Column, Content, Piece, Placement};
use std::cmp::Reverse;
use std::sync::Arc;
use sys::{Buffer, BufferMut};

/// Reading of one block.
struct StripeRead<'a> {
    top: &'a Top,
    range: BlockRange,
    trust: Trust,
    class: IoClass,
    placement: Placement,
    /// What is known of each of its pieces.
    known: Vec<Known>,
    failures: Vec<LeafFailure>,
    /// Leaves that could have had their column, and did not.
    lacking: Vec<Arc<Leaf>>,
}

/// Which leaves should have their pieces.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Those that did not miss the birth of the block.
    Birth,
    /// Those that missed nothing: nobody knows of which births it is what lies there.
    Whole,
    /// Of these, those that are not out of favour for errors: nobody verifies what lies there.
    Sound,
}

/// Children whose columns are left out.
#[derive(Clone, Copy)]
enum Without<'a> {
    /// As they are.
    Children(&'a [usize]),
    /// As they were when there were fewer: what one of them had wrong was copied to others since.
    Earlier(&'a [usize], usize),
}

impl Without<'_> {
    const NOBODY: Self = Self::Children(&[]);

    fn has(self, column: &Column) -> bool {
        match self {
            Self::Children(children) => children.contains(&column.child),
            Self::Earlier(children, width) => {
                let child = column.number.checked_rem(width as u64);
                child.is_some_and(|child| children.contains(&(child as usize)))
            }
        }
    }
}

/// What is known of a piece.
enum Known {
    Unread,
    Read {
        data: Buffer,
        leaf: Arc<Leaf>,
        /// The leaf missed the txg: what it has may be older.
        is_stale: bool,
    },
    /// No leaf that should have it gave it.
    Lost,
}

impl Known {
    const fn bytes(&self) -> Option<&Buffer> {
        match self {
            Self::Read { data, .. } => Some(data),
            Self::Unread | Self::Lost => None,
        }
    }
}

impl Top {
    /// Reads a block from its columns. None if they do not give the right bytes; then the failures say why.
    pub(super) fn read_stripe(
        &self,
        (range, class): (BlockRange, IoClass),
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ReadOutcome, Vec<LeafFailure>> {
        let _inside = self.look_for();
        let mut read = StripeRead::new(self, range, class);
        let data = read.as_it_is(accept).or_else(|| {
            let found = read.leave_out(accept);
            match &found {
                Some(data) => read.find_wrong(&read.expected(data)),
                None => read.nothing_found(),
            }
            found
        });
        match data {
            Some(data) => Ok(ReadOutcome {
                data,
                failures: read.failures,
                lacking: read.lacking,
            }),
            None => Err(read.failures),
        }
    }

    /// The wanted pieces of a range of whole stripes, whatever blocks these are of: as leaves have them that missed
    /// nothing, or computed from what these have of the others. Leaves that are degraded by their errors are asked only
    /// where the others do not suffice: what they have wrong would be copied, and told of whoever gets it.
    pub(super) fn pieces_of(
        &self,
        range: BlockRange,
        wanted: &[usize],
    ) -> Result<Vec<Buffer>, Vec<LeafFailure>> {
        let sound = self.pieces_trusting(Trust::Sound, range, wanted);
        if sound.is_err() && self.leaves().iter().any(|leaf| leaf.is_degraded()) {
            return self.pieces_trusting(Trust::Whole, range, wanted);
        }
        sound
    }

    fn pieces_trusting(
        &self,
        trust: Trust,
        range: BlockRange,
        wanted: &[usize],
    ) -> Result<Vec<Buffer>, Vec<LeafFailure>> {
        let mut read = StripeRead::new(self, range, IoClass::Scan);
        read.trust = trust;
        let is_there = |piece: &usize| !read.holders_of(*piece, false).is_empty();
        if wanted.iter().all(is_there) {
            read.read(|piece| wanted.contains(&piece), false);
        }
        let known = |read: &StripeRead<'_>| {
            let pieces = wanted.iter().map(|piece| read.known.get(*piece)?.bytes());
            pieces.map(Option::<&Buffer>::cloned).collect()
        };
        if let Some(pieces) = known(&read) {
            return Ok(pieces);
        }
        read.gather();
        let Some(data) = read.assemble(Without::NOBODY) else {
            read.nothing_found();
            return Err(read.failures);
        };
        let pieces = read.expected(&data);
        let wanted = wanted.iter().filter_map(|piece| pieces.get(*piece));
        Ok(wanted.cloned().collect())
    }

    /// See [`Top::leave_range_behind`].
    pub(super) fn leave_stripe_behind(&self, range: BlockRange) {
        let placement = self.placement(range.offset, range.len, range.birth);
        let pieces = placement.pieces().iter();
        let holders = pieces.flat_map(|piece| self.children.holders(piece));
        holders.for_each(|holder| holder.left_behind(range.birth));
    }

    /// Reads every column of a block from every leaf that has it, and gives right bytes to those that had others or had
    /// missed them; see [`Top::scrub`].
    pub(super) fn scrub_stripe(
        &self,
        (range, promised): (BlockRange, bool),
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> ScrubOutcome {
        let _inside = self.look_for();
        let (data, read) = self.examine_stripe(range, accept);
        let repaired = data
            .as_ref()
            .map(|data| self.repair(&read.lacking, range, data));
        if data.is_some() {
            // Those that were away.
            let pieces = read.placement.pieces().iter();
            let holders = pieces.flat_map(|piece| self.children.holders(piece));
            let left = holders.filter(|holder| !holder.is_readable());
            left.for_each(|holder| holder.left_behind(range.birth));
        }
        if promised {
            self.blame(&read.failures, range.birth);
        }
        ScrubOutcome {
            data,
            failures: read.failures,
            repaired: repaired.unwrap_or_default(),
        }
    }

    /// What a scrub would find of a block, and would not repair: for blocks that lie on several children.
    ///
    /// # Errors
    /// Only if the place is not inside the vdev.
    pub fn verify_stripe(
        &self,
        range: BlockRange,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Result<ScrubOutcome, VdevError> {
        self.contains(range.offset, range.len, range.birth)?;
        if self.is_indirect() {
            return self.verify_moved(range, accept);
        }
        let _inside = self.look_for();
        let (data, read) = self.examine_stripe(range, accept);
        Ok(ScrubOutcome {
            data,
            failures: read.failures,
            repaired: Repaired::default(),
        })
    }

    /// Reads every column of a block from every leaf that has it, and names those that have something else.
    fn examine_stripe(
        &self,
        range: BlockRange,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> (Option<Buffer>, StripeRead<'_>) {
        let mut read = StripeRead::new(self, range, IoClass::Scan);
        read.read(|_| true, false);
        let data = read.as_it_is(accept).or_else(|| read.leave_out(accept));
        if let Some(data) = &data {
            let expected = read.expected(data);
            read.find_wrong(&expected);
            read.compare_others(&expected);
        } else {
            read.nothing_found();
        }
        (data, read)
    }
}

impl<'a> StripeRead<'a> {
    fn new(top: &'a Top, range: BlockRange, class: IoClass) -> Self {
        let placement = top.placement(range.offset, range.len, range.birth);
        let known = placement.pieces().iter().map(|_| Known::Unread).collect();
        Self {
            top,
            range,
            trust: Trust::Birth,
            class,
            placement,
            known,
            failures: Vec::new(),
            lacking: Vec::new(),
        }
    }

    fn pieces(&self) -> &[Piece] {
        self.placement.pieces()
    }

    /// Which pieces hold nothing but parity.
    fn only_parity(&self) -> Vec<bool> {
        let mut only = vec![true; self.known.len()];
        for (index, column) in self.placement.columns().iter().enumerate() {
            let (piece, _) = self.placement.place(index);
            match column.content {
                Content::Data { len: 1.., .. } | Content::Whole => {
                    only.get_mut(piece)
                        .into_iter()
                        .for_each(|only| *only = false);
                }
                Content::Data { .. } | Content::Parity(_) => {}
            }
        }
        only
    }

    /// What is there of a column, unless it is one of `without`.
    fn bytes(&self, column: usize, without: Without<'_>) -> Option<&[u8]> {
        let at = self.placement.columns().get(column)?;
        let (piece, start) = self.placement.place(column);
        if at.len == 0 {
            return Some(&[]);
        }
        if without.has(at) {
            return None;
        }
        let bytes = self.known.get(piece)?.bytes()?;
        bytes.get(start..start.checked_add(usize::try_from(at.len).ok()?)?)
    }

    /// How many columns of data of a stripe could not be had so far, and how many of parity are there.
    fn lost_and_standing(&self, stripe: std::ops::Range<usize>) -> (usize, usize) {
        let (mut lost, mut standing) = (0, 0);
        for index in stripe {
            let is_there = self.bytes(index, Without::NOBODY).is_some();
            match self.placement.columns().get(index).map(|c| c.content) {
                Some(Content::Parity(_)) => standing += usize::from(is_there),
                Some(Content::Data { .. } | Content::Whole) => lost += usize::from(!is_there),
                None => {}
            }
        }
        (lost, standing)
    }

    /// Whether parity stands for all data that could not be had.
    fn is_enough(&self) -> bool {
        let mut stripes = self.placement.stripes();
        stripes.all(|stripe| {
            let (lost, standing) = self.lost_and_standing(stripe);
            lost <= standing
        })
    }

    /// Whether what a leaf has may be older.
    fn is_stale(&self, holder: &Holder<'_>) -> bool {
        match self.trust {
            Trust::Birth => holder.misses(self.range.birth),
            Trust::Whole => !holder.is_whole(),
            Trust::Sound => !holder.is_whole() || holder.is_degraded(),
        }
    }

    /// Who has a piece, or may have something older in its place, the busiest first.
    fn holders_of(&self, piece: usize, stale: bool) -> Vec<Holder<'a>> {
        let top = self.top;
        let holders = top.children.holders(&self.pieces()[piece]);
        let has = |holder: &Holder<'_>| holder.is_readable() && self.is_stale(holder) == stale;
        let mut holders: Vec<_> = holders.filter(has).collect();
        holders.sort_by_key(|holder| Reverse(holder.leaf.handle().active()));
        holders
    }

    /// Reads the pieces that are wanted and not there yet, all at once, from leaves that should have them, or from
    /// those that may have something older. Where one fails another is asked.
    fn read(&mut self, wanted: impl Fn(usize) -> bool, stale: bool) {
        let is_open = |piece: &usize| match self.known[*piece] {
            Known::Unread => true,
            Known::Lost => stale,
            Known::Read { .. } => false,
        };
        let open = (0..self.known.len()).filter(|p| is_open(p) && wanted(*p));
        let mut open: Vec<_> = open.map(|p| (p, self.holders_of(p, stale))).collect();
        for (piece, _) in &open {
            self.known[*piece] = Known::Lost;
        }
        while !open.is_empty() {
            open.retain_mut(|(_, holders)| !holders.is_empty());
            let next = |(piece, holders): &mut (usize, Vec<_>)| Some((*piece, holders.pop()?));
            let asked: Vec<(usize, Holder<'_>)> = open.iter_mut().filter_map(next).collect();
            let results = self.read_holders(&asked);
            for ((piece, holder), data) in asked.into_iter().zip(results) {
                if let Some(data) = data {
                    self.known[piece] = Known::Read {
                        data,
                        leaf: Arc::clone(holder.leaf),
                        is_stale: stale,
                    };
                    open.retain(|(other, _)| *other != piece);
                }
            }
        }
    }

    /// Reads pieces from their holders, all at once. One that should have its piece and cannot read it is named:
    /// writing may cure that.
    fn read_holders(&mut self, asked: &[(usize, Holder<'_>)]) -> Vec<Option<Buffer>> {
        let place = |(piece, holder): &(usize, Holder<'_>)| {
            let piece = &self.pieces()[*piece];
            (Arc::clone(holder.leaf), place_of(piece), piece.len as usize)
        };
        let places: Vec<_> = asked.iter().map(place).collect();
        let results = read_all(&places, self.class, &self.top.read_threads);
        let mut read = Vec::new();
        for ((_, holder), result) in asked.iter().zip(results) {
            let leaf = holder.leaf;
            read.push(match result {
                Ok(data) => Some(data),
                Err(failure) => {
                    let is_device = matches!(failure, Failure::Device(_));
                    if is_device && !self.is_stale(holder) {
                        self.lacking.push(Arc::clone(leaf));
                    }
                    self.failures.push(leaf.handle().failure(failure));
                    None
                }
            });
        }
        read
    }

    /// The block as the leaves say that it is, if it is the wanted one.
    fn as_it_is(&mut self, accept: &mut dyn FnMut(&[u8]) -> Verdict) -> Option<Buffer> {
        self.gather();
        if !self.is_enough() {
            self.read(|_| true, true);
        }
        self.judge(Without::NOBODY, accept)
    }

    /// Reads what is needed of the pieces from the leaves that should have them.
    fn gather(&mut self) {
        let only_parity = self.only_parity();
        let pieces = 0..self.known.len();
        let (parity, data): (Vec<_>, Vec<_>) = pieces.partition(|piece| only_parity[*piece]);
        let is_there = |piece: &usize| {
            let is_read = self.known[*piece].bytes().is_some();
            is_read || !self.holders_of(*piece, false).is_empty()
        };
        // What stands for pieces that are known not to be there is read with the others.
        let away = data.iter().filter(|piece| !is_there(piece)).count();
        let standing = parity.into_iter().filter(is_there).take(away);
        let first: Vec<_> = data.iter().copied().chain(standing).collect();
        self.read(|piece| first.contains(&piece), false);
        if !self.is_enough() {
            self.read(|_| true, false);
        }
    }

    /// Somebody lies: tries without each set of children that parity can stand for, small sets first.
    fn leave_out(&mut self, accept: &mut dyn FnMut(&[u8]) -> Verdict) -> Option<Buffer> {
        self.read(|_| true, false);
        let known = self.known.iter().zip(self.pieces());
        let there = known.filter(|(known, _)| known.bytes().is_some());
        let mut read: Vec<_> = there.map(|(_, piece)| piece.child).collect();
        read.sort_unstable();
        read.dedup();
        let standing = self.placement.stripes();
        let standing = standing.map(|stripe| self.lost_and_standing(stripe).1);
        let spare = standing.max().unwrap_or(0);
        for count in 1..=spare {
            for without in read.iter().copied().combinations(count) {
                if let Some(data) = self.judge(Without::Children(&without), accept) {
                    return Some(data);
                }
            }
            for width in self.top.layout.earlier_widths(self.range.birth) {
                for without in (0..width).combinations(count) {
                    if let Some(data) = self.judge(Without::Earlier(&without, width), accept) {
                        return Some(data);
                    }
                }
            }
        }
        None
    }

    /// The block without these children, if it is the wanted one.
    fn judge(
        &self,
        without: Without<'_>,
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> Option<Buffer> {
        let data = self.assemble(without)?;
        let data = data.slice(0..self.range.len);
        let left_out = |piece: &Piece| match without {
            Without::Children(children) => children.contains(&piece.child),
            Without::Earlier(..) => false,
        };
        let is_doubtful = self.known.iter().zip(self.pieces()).any(|(known, piece)| {
            matches!(known, Known::Read { is_stale: true, .. }) && !left_out(piece)
        });
        match accept(&data) {
            Verdict::Proven => Some(data),
            Verdict::Unproven if !is_doubtful => Some(data),
            Verdict::Unproven | Verdict::Wrong => None,
        }
    }

    /// The block from the columns that are there but for those of these children; none if they are too few.
    fn assemble(&self, without: Without<'_>) -> Option<Buffer> {
        let whole = self.top.layout.whole_sectors(self.range.len as u64);
        let mut data = BufferMut::scratch(usize::try_from(whole).ok()?);
        for stripe in self.placement.stripes() {
            self.assemble_stripe(stripe, without, &mut data)?;
        }
        Some(data.freeze())
    }

    /// [`StripeRead::assemble`] of one stripe.
    fn assemble_stripe(
        &self,
        stripe: std::ops::Range<usize>,
        without: Without<'_>,
        data: &mut [u8],
    ) -> Option<()> {
        let (mut known, mut parity, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let (mut rest, mut at) = (data, 0);
        for index in stripe {
            let bytes = self.bytes(index, without);
            match self.placement.columns().get(index)?.content {
                Content::Parity(_) => parity.push(bytes),
                Content::Whole => return None,
                Content::Data { start, len } => {
                    let (start, len) = (usize::try_from(start).ok()?, usize::try_from(len).ok()?);
                    // An empty column has no place in the block.
                    let skipped = if len == 0 { 0 } else { start.checked_sub(at)? };
                    let (_, room) = rest.split_at_mut_checked(skipped)?;
                    let (room, after) = room.split_at_mut_checked(len)?;
                    (rest, at) = (after, at + skipped + len);
                    let bytes = bytes.and_then(|bytes| bytes.get(..len));
                    match bytes {
                        Some(bytes) => room.copy_from_slice(bytes),
                        None => lost.push((known.len(), room)),
                    }
                    known.push(bytes);
                }
            }
        }
        if lost.is_empty() {
            return Some(());
        }
        codec::reconstruct(&known, &parity, &mut lost).ok()
    }

    /// The pieces as they should be.
    fn expected(&self, data: &Buffer) -> Vec<Buffer> {
        let data = self.top.padded(data.clone());
        let parts = parts(&self.placement, &data);
        parts.into_iter().map(|(_, bytes)| bytes).collect()
    }

    /// Names the leaves whose pieces were not the right ones.
    fn find_wrong(&mut self, expected: &[Buffer]) {
        for (known, right) in self.known.iter().zip(expected) {
            let Known::Read {
                data,
                leaf,
                is_stale: false,
            } = known
            else {
                continue;
            };
            let named = self.lacking.iter().any(|other| Arc::ptr_eq(other, leaf));
            if **data != **right && !named {
                self.failures.push(leaf.handle().failure(Failure::Checksum));
                self.lacking.push(Arc::clone(leaf));
            }
        }
    }

    /// Reads the pieces from the leaves that were not asked for them, and names those that have others; those that
    /// missed them are not asked.
    fn compare_others(&mut self, expected: &[Buffer]) {
        let mut others = Vec::new();
        for index in 0..expected.len() {
            let top = self.top;
            let piece = self.pieces()[index];
            for holder in top.children.holders(&piece) {
                let leaf = holder.leaf;
                let was_asked = match &self.known[index] {
                    Known::Read { leaf: asked, .. } => Arc::ptr_eq(asked, leaf),
                    Known::Unread | Known::Lost => false,
                };
                let same = |lacking: &Arc<Leaf>| Arc::ptr_eq(lacking, leaf);
                let is_known = self.lacking.iter().any(same);
                if is_known || !holder.is_readable() {
                    continue;
                }
                if holder.misses(self.range.birth) {
                    self.name(leaf, Failure::Missing);
                } else if !was_asked {
                    others.push((index, holder));
                }
            }
        }
        let results = self.read_holders(&others);
        for ((index, holder), data) in others.into_iter().zip(results) {
            let leaf = holder.leaf;
            let named = self.lacking.iter().any(|other| Arc::ptr_eq(other, leaf));
            if data.is_some_and(|data| *data != *expected[index]) && !named {
                self.name(leaf, Failure::Checksum);
            }
        }
    }

    /// Names a leaf that lacks its piece.
    fn name(&mut self, leaf: &Arc<Leaf>, failure: Failure) {
        self.failures.push(leaf.handle().failure(failure));
        self.lacking.push(Arc::clone(leaf));
    }

    /// What is said of leaves when nothing right could be had: those that were not asked, why; of the others nobody
    /// knows which are wrong.
    fn nothing_found(&mut self) {
        let is_enough = self.is_enough();
        for (index, piece) in self.placement.pieces().iter().enumerate() {
            for holder in self.top.children.holders(piece) {
                let leaf = holder.leaf;
                if self.failures.iter().any(|known| known.leaf == leaf.guid()) {
                    continue;
                }
                let condition = holder.condition();
                let failure = if !holder.is_readable() {
                    Failure::Unavailable(condition.state, condition.aux)
                } else if holder.misses(self.range.birth) {
                    Failure::Missing
                } else if is_enough && self.known[index].bytes().is_some() {
                    Failure::Checksum
                } else {
                    continue;
                };
                self.failures.push(leaf.handle().failure(failure));
            }
        }
    }
}
