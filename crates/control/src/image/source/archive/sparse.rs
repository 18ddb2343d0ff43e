//! Where the bytes of a file lie in the archive, in all forms in which GNU tar leaves out holes.

use std::io;

use tar::{GnuExtSparseHeader, GnuSparseHeader, Header};

use super::entries::BLOCK;
use super::pax::{self, Records};
use super::spool::Spool;

/// A range of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Extent {
    /// Where it begins in the file.
    start: u64,
    length: u64,
    /// Where it lies in the archive.
    place: u64,
}

/// The data of a file, in their order; the rest is holes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Extents(Vec<Extent>);

/// What a map makes of a file.
#[derive(Debug, Default)]
pub(super) struct Mapped {
    pub(super) extents: Extents,
    pub(super) size: u64,
}

fn malformed() -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        "the map of a sparse file is malformed",
    )
}

impl Extents {
    /// A file without holes.
    pub(super) fn whole(place: u64, length: u64) -> Self {
        let extent = Extent {
            start: 0,
            length,
            place,
        };
        Self(if length > 0 { vec![extent] } else { Vec::new() })
    }

    /// A file whose ranges lie one after the other, from `place` to `end`.
    fn mapped(ranges: &[(u64, u64)], mut place: u64, end: u64, size: u64) -> io::Result<Mapped> {
        let mut extents = Vec::new();
        let mut at = 0;
        if i64::try_from(size).is_err() {
            return Err(malformed());
        }
        for &(start, length) in ranges {
            let after = start.checked_add(length).filter(|after| *after <= size);
            let after = after.filter(|_| start >= at).ok_or_else(malformed)?;
            if length > 0 {
                extents.push(Extent {
                    start,
                    length,
                    place,
                });
            }
            let next = place.checked_add(length).filter(|next| *next <= end);
            place = next.ok_or_else(malformed)?;
            at = after;
        }
        let extents = Self(extents);
        Ok(Mapped { extents, size })
    }

    pub(super) fn next_data(&self, from: u64, size: u64) -> Option<(u64, u64)> {
        let first = self
            .0
            .partition_point(|extent| extent.start + extent.length <= from);
        let mut rest = self.0[first..].iter();
        let extent = rest.next().filter(|extent| extent.start < size)?;
        let mut end = extent.start + extent.length;
        for next in rest.take_while(|next| next.start < size) {
            if next.start > end {
                break;
            }
            end = next.start + next.length;
        }
        Some((extent.start.max(from), end.min(size)))
    }

    /// Fills a buffer; holes are zeros.
    pub(super) fn read(&self, bytes: &Spool, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        buffer.fill(0);
        let end = offset + buffer.len() as u64;
        let first = self
            .0
            .partition_point(|extent| extent.start + extent.length <= offset);
        for extent in self.0[first..]
            .iter()
            .take_while(|extent| extent.start < end)
        {
            let from = extent.start.max(offset);
            let to = (extent.start + extent.length).min(end);
            let within = |place: u64| usize::try_from(place - offset).unwrap_or(usize::MAX);
            let part = buffer
                .get_mut(within(from)..within(to))
                .ok_or_else(malformed)?;
            bytes.read(part, extent.place + (from - extent.start))?;
        }
        Ok(())
    }
}

/// The map of a file of the type `S`.
pub(super) struct Map {
    ranges: Vec<(u64, u64)>,
    size: u64,
    /// Where the data begin.
    pub(super) place: u64,
}

impl Map {
    /// So many bytes of data are behind it.
    pub(super) fn apply(&self, length: u64) -> io::Result<Mapped> {
        let end = self.place.checked_add(length).ok_or_else(malformed)?;
        Extents::mapped(&self.ranges, self.place, end, self.size)
    }
}

/// The map in a header and in the blocks behind it, which begin at `at`.
pub(super) fn of_header(header: &Header, bytes: &Spool, at: u64) -> io::Result<Map> {
    let gnu = header.as_gnu().ok_or_else(malformed)?;
    let mut ranges = Vec::new();
    let mut add = |list: &[GnuSparseHeader]| {
        for range in list.iter().filter(|range| !range.is_empty()) {
            ranges.push((range.offset()?, range.length()?));
        }
        io::Result::Ok(())
    };
    add(&gnu.sparse)?;
    let (mut more, mut place) = (gnu.is_extended(), at);
    while more {
        let mut next = GnuExtSparseHeader::new();
        bytes.read(next.as_mut_bytes(), place)?;
        place += BLOCK;
        add(&next.sparse)?;
        more = next.is_extended();
    }
    let size = gnu.real_size()?;
    Ok(Map {
        ranges,
        size,
        place,
    })
}

/// What PAX records say of a sparse file; none if they say nothing.
pub(super) fn of_records(
    records: &Records,
    bytes: &Spool,
    place: u64,
    end: u64,
) -> io::Result<Option<Mapped>> {
    if records.get("GNU.sparse.major").is_some() {
        if records.number("GNU.sparse.major")? != Some(1) {
            return Err(malformed());
        }
        let size = records
            .number("GNU.sparse.realsize")?
            .ok_or_else(malformed)?;
        return map_in_data(bytes, place, end, size).map(Some);
    }
    let Some(size) = records.number("GNU.sparse.size")? else {
        return Ok(None);
    };
    let mut numbers = Vec::new();
    match records.get("GNU.sparse.map") {
        Some(map) => {
            for part in map.split(|byte| *byte == b',') {
                numbers.push(pax::number(part).ok_or_else(malformed)?);
            }
        }
        None => {
            for (key, value) in records.all() {
                if key == b"GNU.sparse.offset" || key == b"GNU.sparse.numbytes" {
                    numbers.push(pax::number(value).ok_or_else(malformed)?);
                }
            }
        }
    }
    Extents::mapped(&pairs(&numbers)?, place, end, size).map(Some)
}

fn pairs(numbers: &[u64]) -> io::Result<Vec<(u64, u64)>> {
    let (pairs, rest) = numbers.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(malformed());
    }
    Ok(pairs
        .iter()
        .map(|[start, length]| (*start, *length))
        .collect())
}

/// A map that stands before the data: a number of ranges, then their starts and lengths, a line each.
fn map_in_data(bytes: &Spool, place: u64, end: u64, size: u64) -> io::Result<Mapped> {
    let mut reader = Lines {
        bytes,
        block: [0; BLOCK as usize],
        next: place,
        end,
        at: BLOCK as usize,
    };
    let count = reader.number()?;
    let mut numbers = Vec::new();
    for _ in 0..count.checked_mul(2).ok_or_else(malformed)? {
        numbers.push(reader.number()?);
    }
    Extents::mapped(&pairs(&numbers)?, reader.next, end, size)
}

/// Numbers, a line each, in whole blocks.
struct Lines<'a> {
    bytes: &'a Spool,
    block: [u8; BLOCK as usize],
    /// Where the next block lies.
    next: u64,
    end: u64,
    at: usize,
}

impl Lines<'_> {
    fn number(&mut self) -> io::Result<u64> {
        let mut digits = Vec::new();
        loop {
            if self.at == self.block.len() {
                if self.next >= self.end {
                    return Err(malformed());
                }
                self.bytes.read(&mut self.block, self.next)?;
                (self.next, self.at) = (self.next + BLOCK, 0);
            }
            let byte = self.block.get(self.at).copied().unwrap_or(0);
            self.at += 1;
            match byte {
                b'\n' => return pax::number(&digits).ok_or_else(malformed),
                _ if digits.len() < 20 => digits.push(byte),
                _ => return Err(malformed()),
            }
        }
    }
}
