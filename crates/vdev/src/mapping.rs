//! Where the bytes of a removed vdev lie now.

use base::{Txg, VdevId};
use format::indirect::MappingEntry;
use std::ops::Range;

/// More entries are not kept in memory: 1.5 GiB of them.
const ENTRIES_MAX: usize = 64 << 20;

/// A mapping that nobody can have written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// An entry begins before the end of the one before.
    #[error("vdev {vdev}: mapping of {source_offset:#x} comes after one that ends at {end:#x}")]
    Unsorted {
        /// The removed vdev.
        vdev: VdevId,
        /// Where the entry begins.
        source_offset: u64,
        /// Where the one before ends.
        end: u64,
    },
    /// An entry maps what is not within the removed vdev, or to what is not within another.
    #[error("vdev {vdev}: mapping of {source_offset:#x} to {destination} is beyond the end")]
    Outside {
        /// The removed vdev.
        vdev: VdevId,
        /// Where the entry begins.
        source_offset: u64,
        /// Where it leads to.
        destination: String,
    },
    /// An entry leads to a vdev that is not there, holds no copies, or was removed earlier: it would lead in a circle.
    #[error("vdev {vdev}: mapping of {source_offset:#x} leads to vdev {destination}")]
    NoDestination {
        /// The removed vdev.
        vdev: VdevId,
        /// Where the entry begins.
        source_offset: u64,
        /// Where it leads to.
        destination: VdevId,
    },
    /// There are more entries than anybody could keep in memory.
    #[error("vdev {vdev}: its mapping has too many entries")]
    TooLong {
        /// The removed vdev.
        vdev: VdevId,
    },
}

/// What an entry may lead to.
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    /// The size of its allocatable area.
    pub asize: u64,
    /// The size of its sectors.
    pub sector: u64,
}

/// An entry, in units of 512 bytes.
#[derive(Clone, Copy, Debug)]
struct Segment {
    source: u64,
    target: u64,
    length: u32,
    vdev: u32,
}

const UNIT_SHIFT: u32 = format::block_pointer::SECTOR_SHIFT;

impl Segment {
    const fn start(&self) -> u64 {
        self.source << UNIT_SHIFT
    }

    const fn end(&self) -> u64 {
        (self.source + self.length as u64) << UNIT_SHIFT
    }

    fn moved(&self, birth: Txg) -> Moved {
        Moved {
            source: self.start(),
            vdev: VdevId(self.vdev.into()),
            offset: self.target << UNIT_SHIFT,
            len: self.end() - self.start(),
            birth,
        }
    }
}

/// A part of a removed vdev, and where it lies now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where it was on the removed vdev.
    pub source: u64,
    /// Which vdev it is on.
    pub vdev: VdevId,
    /// Where on that.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// When it was copied there.
    pub birth: Txg,
}

/// Where the bytes of a removed vdev lie now: sorted, without overlaps, within the vdevs that it leads to.
#[derive(Debug)]
pub struct Mapping {
    segments: Vec<Segment>,
    /// Of all segments together.
    bytes: u64,
    /// Up to which offset what was copied in which txg, ascending.
    births: Vec<(u64, Txg)>,
}

/// Makes a [`Mapping`], entry by entry.
#[derive(Debug)]
pub struct MappingBuilder {
    vdev: VdevId,
    asize: u64,
    segments: Vec<Segment>,
}

impl MappingBuilder {
    /// That of the vdev of this id and size.
    #[must_use]
    pub const fn new(vdev: VdevId, asize: u64) -> Self {
        Self {
            vdev,
            asize,
            segments: Vec::new(),
        }
    }

    /// Takes the next entry. `destination` knows the vdevs that an entry may lead to: those that are there, and those
    /// that were removed later.
    ///
    /// # Errors
    /// The entry cannot be.
    pub fn push(
        &mut self,
        entry: &MappingEntry,
        destination: &dyn Fn(VdevId) -> Option<Destination>,
    ) -> Result<(), MappingError> {
        let (vdev, target) = (self.vdev, &entry.destination);
        let outside = || MappingError::Outside {
            vdev,
            source_offset: entry.source,
            destination: target.to_string(),
        };
        let end = self.segments.last().map_or(0, Segment::end);
        if entry.source < end {
            return Err(MappingError::Unsorted {
                vdev,
                source_offset: entry.source,
                end,
            });
        }
        if self.segments.len() >= ENTRIES_MAX {
            return Err(MappingError::TooLong { vdev });
        }
        let known = destination(target.vdev).filter(|_| target.vdev != vdev && !target.gang);
        let known = known.ok_or(MappingError::NoDestination {
            vdev,
            source_offset: entry.source,
            destination: target.vdev,
        })?;
        let is_within = |start: u64, size: u64| {
            let end = start.checked_add(target.asize);
            end.is_some_and(|end| end <= size)
        };
        let is_aligned = [entry.source, target.offset, target.asize]
            .iter()
            .all(|bytes| bytes.is_multiple_of(known.sector.max(1)));
        if !is_aligned
            || !is_within(entry.source, self.asize)
            || !is_within(target.offset, known.asize)
        {
            return Err(outside());
        }
        self.segments.push(Segment {
            source: entry.source >> UNIT_SHIFT,
            target: target.offset >> UNIT_SHIFT,
            length: u32::try_from(target.asize >> UNIT_SHIFT).map_err(|_| outside())?,
            vdev: u32::try_from(target.vdev.0).map_err(|_| outside())?,
        });
        Ok(())
    }

    /// Where the last entry ends.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, Segment::end)
    }

    /// What of a range is mapped already, in order.
    #[must_use]
    pub fn mapped(&self, range: Range<u64>) -> Vec<Moved> {
        let first = self
            .segments
            .partition_point(|segment| segment.end() <= range.start);
        let segments = self.segments.get(first..).unwrap_or_default().iter();
        let within = segments.take_while(|segment| segment.start() < range.end);
        let part = |segment: &Segment| {
            let start = segment.start().max(range.start);
            Moved {
                source: start,
                vdev: VdevId(segment.vdev.into()),
                offset: (segment.target << UNIT_SHIFT) + (start - segment.start()),
                len: segment.end().min(range.end) - start,
                birth: Txg(0),
            }
        };
        within.map(part).collect()
    }

    /// How many entries it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether nothing is mapped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// What each entry maps, in order, without the txgs in which it was copied.
    pub fn all(&self) -> impl Iterator<Item = Moved> + '_ {
        let moved = |segment: &Segment| segment.moved(Txg(0));
        self.segments.iter().map(moved)
    }

    /// The mapping. `births` says up to which offset what was copied in which txg, ascending.
    #[must_use]
    pub fn finish(mut self, births: Vec<(u64, Txg)>) -> Mapping {
        self.segments.shrink_to_fit();
        let lengths = self.segments.iter();
        Mapping {
            bytes: lengths.map(|segment| segment.end() - segment.start()).sum(),
            segments: self.segments,
            births,
        }
    }
}

impl Mapping {
    /// How many entries it has.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.segments.len()
    }

    /// Whether nothing is mapped.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// How many bytes are mapped.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When what lay at an offset was copied.
    #[must_use]
    pub fn birth(&self, offset: u64) -> Txg {
        let at = self.births.partition_point(|(end, _)| *end <= offset);
        let found = self.births.get(at).or(self.births.last());
        found.map_or(Txg(0), |(_, birth)| *birth)
    }

    /// The txgs in which something was copied.
    pub fn births(&self) -> impl Iterator<Item = Txg> + '_ {
        self.births.iter().map(|(_, birth)| *birth)
    }

    /// The parts of a range, in order; none if not all of it is mapped.
    #[must_use]
    pub fn parts(&self, range: Range<u64>) -> Option<Vec<Moved>> {
        let mut parts = Vec::with_capacity(1);
        let mut at = range.start;
        let first = self.segments.partition_point(|segment| segment.end() <= at);
        for segment in self.segments.get(first..)? {
            if at >= range.end {
                break;
            }
            let delta = at.checked_sub(segment.start())?;
            let end = segment.end().min(range.end);
            parts.push(Moved {
                source: at,
                vdev: VdevId(segment.vdev.into()),
                offset: (segment.target << UNIT_SHIFT).checked_add(delta)?,
                len: end - at,
                birth: self.birth(at),
            });
            at = end;
        }
        (at >= range.end).then_some(parts)
    }

    /// All of it, in order.
    pub fn all(&self) -> impl Iterator<Item = Moved> + '_ {
        let moved = |segment: &Segment| segment.moved(self.birth(segment.start()));
        self.segments.iter().map(moved)
    }

    /// The entry of that number.
    #[must_use]
    pub fn entry(&self, number: usize) -> Option<Moved> {
        let segment = self.segments.get(number)?;
        Some(segment.moved(self.birth(segment.start())))
    }

    /// The number of the first entry that ends behind an offset.
    #[must_use]
    pub fn number_behind(&self, offset: u64) -> usize {
        self.segments
            .partition_point(|segment| segment.end() <= offset)
    }

    /// The same with other entries: `entries` has some of these.
    #[must_use]
    pub fn shortened(&self, entries: MappingBuilder) -> Self {
        entries.finish(self.births.clone())
    }
}

#[cfg(test)]
mod tests;
