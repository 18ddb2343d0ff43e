//! Reading blocks that lie on several children, with parity.
//!
//! The data's columns are read first, all at once, with as much parity as stands for what is known to be away. If one
//! fails, all others are read at once. Columns that cannot be had are computed from parity. If what comes out is wrong,
//! some column is wrong without its device saying so: every set of as many columns as parity can stand for is left out
//! in turn, until the checksum says that the block is right; then it is known which columns were not.

use super::parts::parts;
use super::repair::left_behind;
use super::{Repaired, ScrubOutcome, Top};
use crate::reads::read_all;
use crate::{BlockRange, Failure, IoClass, Leaf, LeafFailure, ReadOutcome, VdevError, Verdict};
use itertools::Itertools;
use layout::{Column, Content};
use std::cmp::Reverse;
use std::sync::Arc;
use sys::{Buffer, BufferMut};

/// Reading of one block.
struct StripeRead<'a> {
    top: &'a Top,
    range: BlockRange,
    class: IoClass,
    /// The columns, those of parity first.
    columns: Vec<Column>,
    pieces: Vec<Piece>,
    failures: Vec<LeafFailure>,
    /// Leaves that could have had their column, and did not.
    lacking: Vec<Arc<Leaf>>,
}

/// What is known of a column.
enum Piece {
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

impl Piece {
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

    /// Reads every column of a block from every leaf that has it, and gives right bytes to those that had others or had
    /// missed them; see [`Top::scrub`].
    pub(super) fn scrub_stripe(
        &self,
        (range, promised): (BlockRange, bool),
        accept: &mut dyn FnMut(&[u8]) -> Verdict,
    ) -> ScrubOutcome {
        let (data, read) = self.examine_stripe(range, accept);
        let repaired = data
            .as_ref()
            .map(|data| self.repair(&read.lacking, range, data));
        // Those that were away, or all if nobody has the block.
        let columns = read.columns.iter();
        let leaves = columns.flat_map(|column| self.children.of(column.child));
        let is_left = |leaf: &&Arc<Leaf>| data.is_none() || !leaf.is_readable();
        left_behind(leaves.filter(is_left), range.birth);
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
        self.contains(range.offset, range.len)?;
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
        let children = top.children.count();
        let columns = top
            .layout
            .columns(range.offset, range.len as u64, children)
            .collect::<Vec<_>>();
        let pieces = columns.iter().map(|_| Piece::Unread).collect();
        Self {
            top,
            range,
            class,
            columns,
            pieces,
            failures: Vec::new(),
            lacking: Vec::new(),
        }
    }

    fn is_parity(&self, column: usize) -> bool {
        match self.columns[column].content {
            Content::Parity(_) => true,
            Content::Data(_) | Content::Whole => false,
        }
    }

    /// Columns of which nothing can be had, so far.
    fn lost(&self) -> Vec<usize> {
        let without = |column: &usize| match self.pieces[*column] {
            Piece::Lost => true,
            Piece::Unread => !self.is_parity(*column),
            Piece::Read { .. } => false,
        };
        (0..self.pieces.len()).filter(without).collect()
    }

    /// How many rows of parity are there.
    fn parity_count(&self) -> usize {
        (0..self.pieces.len())
            .filter(|column| self.is_parity(*column) && self.pieces[*column].bytes().is_some())
            .count()
    }

    /// Whether parity stands for all data that could not be had.
    fn is_enough(&self) -> bool {
        let data = self.lost().into_iter().filter(|c| !self.is_parity(*c));
        data.count() <= self.parity_count()
    }

    /// The leaves that have a column, or may have something older in its place, the busiest first.
    fn leaves_of(&self, column: usize, stale: bool) -> Vec<&'a Arc<Leaf>> {
        let leaves = self.top.children.of(self.columns[column].child).iter();
        let has = |leaf: &&Arc<Leaf>| leaf.is_readable() && leaf.misses(self.range.birth) == stale;
        let mut leaves: Vec<_> = leaves.filter(has).collect();
        leaves.sort_by_key(|leaf| Reverse(leaf.handle().active()));
        leaves
    }

    /// Reads the columns that are wanted and not there yet, all at once, from leaves that should have them, or from
    /// those that may have something older. Where one fails another is asked.
    fn read(&mut self, wanted: impl Fn(usize) -> bool, stale: bool) {
        let is_open = |column: &usize| match self.pieces[*column] {
            Piece::Unread => true,
            Piece::Lost => stale,
            Piece::Read { .. } => false,
        };
        let open = (0..self.columns.len()).filter(|c| is_open(c) && wanted(*c));
        let mut open: Vec<_> = open.map(|c| (c, self.leaves_of(c, stale))).collect();
        for (column, _) in &open {
            self.pieces[*column] = Piece::Lost;
        }
        while !open.is_empty() {
            open.retain_mut(|(_, leaves)| !leaves.is_empty());
            let next = |(column, leaves): &mut (usize, Vec<_>)| Some((*column, leaves.pop()?));
            let asked: Vec<(usize, &Arc<Leaf>)> = open.iter_mut().filter_map(next).collect();
            let results = self.read_leaves(&asked);
            for ((column, leaf), data) in asked.into_iter().zip(results) {
                if let Some(data) = data {
                    self.pieces[column] = Piece::Read {
                        data,
                        leaf: Arc::clone(leaf),
                        is_stale: stale,
                    };
                    open.retain(|(other, _)| *other != column);
                }
            }
        }
    }

    /// Reads columns from leaves, all at once. One that should have its column and cannot read it is named: writing may
    /// cure that.
    fn read_leaves(&mut self, asked: &[(usize, &Arc<Leaf>)]) -> Vec<Option<Buffer>> {
        let place = |(column, leaf): &(usize, &'_ Arc<Leaf>)| {
            let Column { offset, len, .. } = self.columns[*column];
            (Arc::clone(leaf), Leaf::device_offset(offset), len as usize)
        };
        let places: Vec<_> = asked.iter().map(place).collect();
        let results = read_all(&places, self.class, &self.top.read_threads);
        let mut read = Vec::new();
        for ((_, leaf), result) in asked.iter().zip(results) {
            read.push(match result {
                Ok(data) => Some(data),
                Err(failure) => {
                    let is_device = matches!(failure, Failure::Device(_));
                    if is_device && !leaf.misses(self.range.birth) {
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
        let columns = 0..self.columns.len();
        let (parity, data): (Vec<_>, Vec<_>) = columns.partition(|column| self.is_parity(*column));
        let is_there = |column: &usize| {
            let is_read = self.pieces[*column].bytes().is_some();
            is_read || !self.leaves_of(*column, false).is_empty()
        };
        // What stands for columns that are known not to be there is read with the others.
        let away = data.iter().filter(|column| !is_there(column)).count();
        let standing = parity.into_iter().filter(is_there).take(away);
        let first: Vec<_> = data.iter().copied().chain(standing).collect();
        self.read(|column| first.contains(&column), false);
        if !self.is_enough() {
            self.read(|_| true, false);
        }
        if !self.is_enough() {
            self.read(|_| true, true);
        }
        self.judge(&[], accept)
    }

    /// Somebody lies: tries without each set of columns that parity can stand for, small sets first.
    fn leave_out(&mut self, accept: &mut dyn FnMut(&[u8]) -> Verdict) -> Option<Buffer> {
        self.read(|_| true, false);
        let there = |column: &usize| self.pieces[*column].bytes().is_some();
        let read: Vec<_> = (0..self.pieces.len()).filter(there).collect();
        let spare = self.parity_count();
        for count in 1..=spare {
            for without in read.iter().copied().combinations(count) {
                if let Some(data) = self.judge(&without, accept) {
                    return Some(data);
                }
            }
        }
        None
    }

    /// The block without these columns, if it is the wanted one.
    fn judge(&self, without: &[usize], accept: &mut dyn FnMut(&[u8]) -> Verdict) -> Option<Buffer> {
        let data = self.assemble(without)?;
        let data = data.slice(0..self.range.len);
        let is_doubtful = self.pieces.iter().enumerate().any(|(column, piece)| {
            matches!(piece, Piece::Read { is_stale: true, .. }) && !without.contains(&column)
        });
        match accept(&data) {
            Verdict::Proven => Some(data),
            Verdict::Unproven if !is_doubtful => Some(data),
            Verdict::Unproven | Verdict::Wrong => None,
        }
    }

    /// The block from the columns that are there but for these; none if they are too few.
    fn assemble(&self, without: &[usize]) -> Option<Buffer> {
        let bytes_of = |column: usize| {
            let piece = self.pieces[column].bytes();
            piece.filter(|_| !without.contains(&column)).map(|b| &b[..])
        };
        let whole = self.top.layout.whole_sectors(self.range.len as u64);
        let mut data = BufferMut::scratch(usize::try_from(whole).ok()?);
        let (mut known, mut parity, mut lost) = (Vec::new(), Vec::new(), Vec::new());
        let mut rest = &mut data[..];
        for (index, column) in self.columns.iter().enumerate() {
            let bytes = bytes_of(index);
            match column.content {
                Content::Parity(_) => parity.push(bytes),
                Content::Data(_) | Content::Whole => {
                    let (room, after) = rest.split_at_mut_checked(column.len as usize)?;
                    rest = after;
                    match bytes {
                        Some(bytes) if bytes.len() == room.len() => room.copy_from_slice(bytes),
                        Some(_) | None => lost.push((known.len(), room)),
                    }
                    known.push(bytes);
                }
            }
        }
        if !lost.is_empty() {
            codec::reconstruct(&known, &parity, &mut lost).ok()?;
        }
        Some(data.freeze())
    }

    /// The columns as they should be.
    fn expected(&self, data: &Buffer) -> Vec<(Column, Buffer)> {
        let data = self.top.padded(data.clone());
        let layout = (self.top.layout, self.top.children.count());
        parts(layout, self.range.offset, &data)
    }

    /// Names the leaves whose columns were not the right ones.
    fn find_wrong(&mut self, expected: &[(Column, Buffer)]) {
        for (piece, (_, right)) in self.pieces.iter().zip(expected) {
            let Piece::Read {
                data,
                leaf,
                is_stale: false,
            } = piece
            else {
                continue;
            };
            if **data != **right {
                self.failures.push(leaf.handle().failure(Failure::Checksum));
                self.lacking.push(Arc::clone(leaf));
            }
        }
    }

    /// Reads the columns from the leaves that were not asked for them, and names those that have others; those that
    /// missed them are not asked.
    fn compare_others(&mut self, expected: &[(Column, Buffer)]) {
        let mut others = Vec::new();
        for (index, (column, _)) in expected.iter().enumerate() {
            for leaf in self.top.children.of(column.child) {
                let was_asked = match &self.pieces[index] {
                    Piece::Read { leaf: asked, .. } => Arc::ptr_eq(asked, leaf),
                    Piece::Unread | Piece::Lost => false,
                };
                let same = |lacking: &Arc<Leaf>| Arc::ptr_eq(lacking, leaf);
                let is_known = self.lacking.iter().any(same);
                if is_known || !leaf.is_readable() {
                    continue;
                }
                if leaf.misses(self.range.birth) {
                    self.name(leaf, Failure::Missing);
                } else if !was_asked {
                    others.push((index, leaf));
                }
            }
        }
        let results = self.read_leaves(&others);
        for ((index, leaf), data) in others.into_iter().zip(results) {
            if data.is_some_and(|data| *data != *expected[index].1) {
                self.name(leaf, Failure::Checksum);
            }
        }
    }

    /// Names a leaf that lacks its column.
    fn name(&mut self, leaf: &Arc<Leaf>, failure: Failure) {
        self.failures.push(leaf.handle().failure(failure));
        self.lacking.push(Arc::clone(leaf));
    }

    /// What is said of leaves when nothing right could be had: those that were not asked, why; of the others nobody
    /// knows which are wrong.
    fn nothing_found(&mut self) {
        let is_enough = self.is_enough();
        for (index, column) in self.columns.iter().enumerate() {
            for leaf in self.top.children.of(column.child) {
                if self.failures.iter().any(|known| known.leaf == leaf.guid()) {
                    continue;
                }
                let condition = leaf.condition();
                let failure = if !leaf.is_readable() {
                    Failure::Unavailable(condition.state, condition.aux)
                } else if leaf.misses(self.range.birth) {
                    Failure::Missing
                } else if is_enough && self.pieces[index].bytes().is_some() {
                    Failure::Checksum
                } else {
                    continue;
                };
                self.failures.push(leaf.handle().failure(failure));
            }
        }
    }
}
