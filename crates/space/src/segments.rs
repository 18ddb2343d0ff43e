//! Segments in ascending order, in little memory: pairs of start and length, packed into short vectors.
//!
//! A fragmented metaslab has millions of free segments, and a pool has thousands of metaslabs: a tree with a node a
//! segment and an index by size takes some sixty bytes for each, these vectors eight to sixteen. What the index is for
//! is answered by the longest segment of each vector and by the number of segments of each size.

/// Segments in a vector; when there are more it is split. Long enough that the vectors' own size does not count,
/// short enough that moving half of one costs nothing.
const RUN_SEGMENTS: usize = 256;
/// A vector with fewer is joined with a neighbour if both together are at most half full.
const RUN_SPARSE: usize = RUN_SEGMENTS / 8;

/// Classes of length: class `i` holds lengths from `2^i` on.
pub(crate) const CLASSES: usize = 64;

/// A number of units: four bytes where they are enough.
pub(crate) trait Unit: Copy + Ord + Into<u64> + TryFrom<u64> {}
impl Unit for u32 {}
impl Unit for u64 {}

#[derive(Clone, Copy, Debug)]
struct Segment<U> {
    start: U,
    length: U,
}

/// Some neighbouring segments; never none.
#[derive(Clone, Debug)]
struct Run<U> {
    segments: Vec<Segment<U>>,
    longest: u64,
}

/// Where a segment is: its run, and its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position {
    run: usize,
    index: usize,
}

/// Segments that never overlap or touch.
#[derive(Clone, Debug)]
pub(crate) struct Segments<U> {
    runs: Vec<Run<U>>,
    count: usize,
    /// Bytes that the runs' vectors take.
    bytes: usize,
    /// How many segments there are of each class.
    classes: [u32; CLASSES],
}

impl<U: Unit> Segment<U> {
    /// None when a number does not fit into the type.
    fn new(start: u64, end: u64) -> Option<Self> {
        let start_units = U::try_from(start).ok()?;
        U::try_from(end).ok()?;
        let length = U::try_from(end.checked_sub(start)?).ok()?;
        Some(Self {
            start: start_units,
            length,
        })
    }

    fn start(self) -> u64 {
        self.start.into()
    }

    fn length(self) -> u64 {
        self.length.into()
    }

    fn end(self) -> u64 {
        self.start() + self.length()
    }
}

impl<U: Unit> Run<U> {
    fn of(segments: Vec<Segment<U>>) -> Self {
        let mut run = Self {
            segments,
            longest: 0,
        };
        run.measure();
        run
    }

    fn measure(&mut self) {
        let lengths = self.segments.iter().map(|segment| segment.length);
        self.longest = lengths.max().map_or(0, Into::into);
    }

    fn bytes(&self) -> usize {
        self.segments.capacity() * size_of::<Segment<U>>()
    }

    fn first(&self) -> u64 {
        self.segments.first().map_or(0, |segment| segment.start())
    }
}

/// The class of a length that is not 0.
pub(crate) fn class_of(length: u64) -> usize {
    length.checked_ilog2().map_or(0, |class| class as usize)
}

impl<U: Unit> Segments<U> {
    pub(crate) fn new() -> Self {
        Self {
            runs: Vec::new(),
            count: 0,
            bytes: 0,
            classes: [0; CLASSES],
        }
    }

    /// How many segments there are.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Units in all segments.
    #[cfg(test)]
    pub(crate) fn units(&self) -> u64 {
        let segments = self.runs.iter().flat_map(|run| &run.segments);
        segments.map(|segment| segment.length()).sum()
    }

    /// Bytes of memory that they take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.bytes + self.runs.capacity() * size_of::<Run<U>>()) as u64
    }

    pub(crate) fn classes(&self) -> &[u32; CLASSES] {
        &self.classes
    }

    /// The longest segment. Looks at every run.
    pub(crate) fn longest(&self) -> u64 {
        self.runs.iter().map(|run| run.longest).max().unwrap_or(0)
    }

    fn at(&self, position: Position) -> Option<Segment<U>> {
        let run = self.runs.get(position.run)?;
        run.segments.get(position.index).copied()
    }

    /// Start and end of the segment at a position.
    pub(crate) fn range_at(&self, position: Position) -> Option<(u64, u64)> {
        let segment = self.at(position)?;
        Some((segment.start(), segment.end()))
    }

    /// The last segment that begins at or before `at`.
    pub(crate) fn last_to(&self, at: u64) -> Option<Position> {
        let run = self.runs.partition_point(|run| run.first() <= at);
        let run = run.checked_sub(1)?;
        let segments = &self.runs[run].segments;
        let index = segments.partition_point(|segment| segment.start() <= at);
        Some(Position {
            run,
            index: index.checked_sub(1)?,
        })
    }

    /// The segment after that one; the first after none.
    pub(crate) fn after(&self, position: Option<Position>) -> Option<Position> {
        let next = match position {
            None => Position { run: 0, index: 0 },
            Some(at) if at.index + 1 < self.runs.get(at.run)?.segments.len() => Position {
                index: at.index + 1,
                ..at
            },
            Some(at) => Position {
                run: at.run + 1,
                index: 0,
            },
        };
        (next.run < self.runs.len()).then_some(next)
    }

    /// The segment that holds `at`.
    pub(crate) fn containing(&self, at: u64) -> Option<(u64, u64)> {
        let found = self.at(self.last_to(at)?)?;
        (at < found.end()).then_some((found.start(), found.end()))
    }

    pub(crate) fn overlaps(&self, start: u64, end: u64) -> bool {
        self.end_before(start, end).is_none()
    }

    /// Where the last segment before a range ends, 0 without one; none when a part of the range is there.
    pub(crate) fn end_before(&self, start: u64, end: u64) -> Option<u64> {
        let before = end.checked_sub(1).and_then(|last| self.last_to(last));
        let before = before.and_then(|position| self.at(position));
        let end = before.map_or(0, Segment::end);
        (end <= start).then_some(end)
    }

    /// Adds a segment; the length of what it has become with its neighbours. None, and nothing done, when part of it is
    /// there already, or when its numbers are too large.
    pub(crate) fn insert(&mut self, start: u64, end: u64) -> Option<u64> {
        if start >= end || self.overlaps(start, end) {
            return None;
        }
        let before = self.last_to(start);
        let after = self.after(before);
        let left =
            before.filter(|position| self.range_at(*position).is_some_and(|of| of.1 == start));
        let right = after.filter(|position| self.range_at(*position).is_some_and(|of| of.0 == end));
        let merged_start = left
            .and_then(|at| self.range_at(at))
            .map_or(start, |of| of.0);
        let merged_end = right
            .and_then(|at| self.range_at(at))
            .map_or(end, |of| of.1);
        let merged = Segment::new(merged_start, merged_end)?;
        match (left, right) {
            (Some(left), Some(right)) => {
                self.take(right);
                self.set(left, merged);
            }
            (Some(at), None) | (None, Some(at)) => self.set(at, merged),
            (None, None) => self.put_after(before, merged),
        }
        Some(merged.length())
    }

    /// Removes a range; false, and nothing done, when not all of it is there.
    pub(crate) fn remove(&mut self, start: u64, end: u64) -> bool {
        let Some(position) = self.last_to(start) else {
            return false;
        };
        let Some((first, last)) = self.range_at(position).filter(|found| found.1 >= end) else {
            return false;
        };
        if start >= end {
            return false;
        }
        match (Segment::new(first, start), Segment::new(end, last)) {
            (Some(head), Some(tail)) if start > first && last > end => {
                self.set(position, head);
                self.put_after(Some(position), tail);
            }
            (Some(head), _) if start > first => self.set(position, head),
            (_, Some(tail)) if last > end => self.set(position, tail),
            (Some(_), Some(_)) => self.take(position),
            // What is there had fitted, and parts of it do.
            (None, _) | (_, None) => return false,
        }
        true
    }

    /// The start of a segment of at least so many units, of those that are hardly longer: the shortest of the run whose
    /// longest is the least that will do.
    pub(crate) fn best_fit(&self, units: u64) -> Option<u64> {
        let fits = self.runs.iter().filter(|run| run.longest >= units);
        let run = fits.min_by_key(|run| run.longest)?;
        let fits = run.segments.iter().filter(|one| one.length() >= units);
        fits.min_by_key(|one| one.length).map(|one| one.start())
    }

    /// The start of the first segment of at least so many units.
    pub(crate) fn first_fit(&self, units: u64) -> Option<u64> {
        let run = self.runs.iter().find(|run| run.longest >= units)?;
        let mut segments = run.segments.iter();
        let found = segments.find(|one| one.length() >= units);
        found.map(|one| one.start())
    }

    fn count_class(&mut self, length: u64, up: bool) {
        let class = &mut self.classes[class_of(length)];
        *class = if up {
            class.saturating_add(1)
        } else {
            class.saturating_sub(1)
        };
    }

    /// Replaces a segment by one that lies between the same neighbours.
    fn set(&mut self, position: Position, segment: Segment<U>) {
        let run = &mut self.runs[position.run];
        let old = std::mem::replace(&mut run.segments[position.index], segment);
        if segment.length() >= run.longest {
            run.longest = segment.length();
        } else if old.length() == run.longest {
            run.measure();
        }
        self.count_class(old.length(), false);
        self.count_class(segment.length(), true);
    }

    fn take(&mut self, position: Position) {
        let run = &mut self.runs[position.run];
        let before = run.bytes();
        let old = run.segments.remove(position.index);
        if old.length() == run.longest {
            run.measure();
        }
        let left = run.segments.len();
        if left < run.segments.capacity() / 4 {
            run.segments.shrink_to(left * 2);
        }
        self.bytes = self.bytes + run.bytes() - before;
        self.count -= 1;
        self.count_class(old.length(), false);
        if left == 0 {
            self.bytes -= self.runs[position.run].bytes();
            self.runs.remove(position.run);
            if self.runs.len() < self.runs.capacity() / 4 {
                self.runs.shrink_to(self.runs.len() * 2);
            }
        } else if left < RUN_SPARSE {
            self.join(position.run);
        }
    }

    /// Joins a run with the next if they are short.
    fn join(&mut self, at: usize) {
        let Some(next) = self.runs.get(at + 1) else {
            return;
        };
        if self.runs[at].segments.len() + next.segments.len() > RUN_SEGMENTS / 2 {
            return;
        }
        let next = self.runs.remove(at + 1);
        let run = &mut self.runs[at];
        let before = run.bytes() + next.bytes();
        run.longest = run.longest.max(next.longest);
        run.segments.extend_from_slice(&next.segments);
        self.bytes = self.bytes + run.bytes() - before;
    }

    /// Puts a segment behind another; behind none: to the front.
    fn put_after(&mut self, before: Option<Position>, segment: Segment<U>) {
        self.count += 1;
        self.count_class(segment.length(), true);
        let (mut at, mut index) = before.map_or((0, 0), |of| (of.run, of.index + 1));
        let Some(run) = self.runs.get(at) else {
            self.add_run(at, vec![segment]);
            return;
        };
        if run.segments.len() >= RUN_SEGMENTS {
            // What comes in ascending order leaves full runs behind.
            if index == RUN_SEGMENTS && at + 1 == self.runs.len() {
                self.add_run(at + 1, vec![segment]);
                return;
            }
            self.split(at);
            let half = self.runs[at].segments.len();
            if index > half {
                (at, index) = (at + 1, index - half);
            }
        }
        let run = &mut self.runs[at];
        let before = run.bytes();
        run.segments.insert(index, segment);
        run.longest = run.longest.max(segment.length());
        self.bytes = self.bytes + run.bytes() - before;
    }

    fn add_run(&mut self, at: usize, segments: Vec<Segment<U>>) {
        let run = Run::of(segments);
        self.bytes += run.bytes();
        self.runs.insert(at, run);
    }

    fn split(&mut self, at: usize) {
        let run = &mut self.runs[at];
        let before = run.bytes();
        let tail = run.segments.split_off(RUN_SEGMENTS / 2);
        run.segments.shrink_to_fit();
        run.measure();
        self.bytes = self.bytes + run.bytes() - before;
        self.add_run(at + 1, tail);
    }
}

#[cfg(test)]
mod tests;
