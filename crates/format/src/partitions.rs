//! Partition tables of PCs, GPT and MBR, as far as it takes to find a pool inside the image of a whole disk.
//!
//! These are not a pool's bytes: they are read, never written, and neither checksums nor names are looked at, for
//! what a partition holds its labels say.

use std::ops::Range;

#[cfg(test)]
mod tests;

/// So many bytes from the start of a disk hold its table.
pub const HEAD_LENGTH: usize = 64 << 10;

/// More partitions are not looked for.
const COUNT_MAX: u32 = 128;
/// The number of the first partition inside an extended one, however many are outside.
const FIRST_LOGICAL: u32 = 5;

const GPT_SIGNATURE: &[u8] = b"EFI PART";
const MBR_SIGNATURE: [u8; 2] = [0x55, 0xAA];

/// A sector of an MBR.
pub type Sector = [u8; 512];

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number, as the kernel counts: its place in the table, from 1 on; inside an extended one, from 5 on.
    pub number: u32,
    /// Its bytes.
    pub bytes: Range<u64>,
}

/// The partitions of a disk whose first bytes these are: in the order of the table, and then those inside an extended
/// partition, for which `sector` is asked for sectors by their place in bytes.
pub fn partitions(head: &[u8], sector: &mut dyn FnMut(u64) -> Option<Sector>) -> Vec<Partition> {
    let gpt = [512, 4096].into_iter().find_map(|size| gpt(head, size));
    if let Some(found) = gpt {
        return found;
    }
    let Some(first) = head.first_chunk().filter(|first| is_mbr(first)) else {
        return Vec::new();
    };
    let mut found: Vec<_> = entries(first)
        .filter(|entry| !entry.is_extended())
        .filter_map(|entry| entry.range(0).map(|bytes| numbered(entry.number, bytes)))
        .collect();
    let extended = entries(first).find(Entry::is_extended);
    let logical = extended.map_or_else(Vec::new, |extended| logical(&extended, sector));
    let logical = (FIRST_LOGICAL..).zip(logical);
    found.extend(logical.map(|(number, bytes)| numbered(number, bytes)));
    found
}

fn numbered(number: u32, bytes: Range<u64>) -> Partition {
    Partition { number, bytes }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*found))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    let found = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*found))
}

fn range(first: u64, count: u64, sector: u64) -> Option<Range<u64>> {
    let start = first.checked_mul(sector)?;
    let end = start.checked_add(count.checked_mul(sector)?)?;
    (start > 0 && end > start).then_some(start..end)
}

fn gpt(head: &[u8], sector: u64) -> Option<Vec<Partition>> {
    let header = head.get(usize::try_from(sector).ok()?..)?;
    if !header.starts_with(GPT_SIGNATURE) {
        return None;
    }
    let table = long(header, 72)?.checked_mul(sector)?;
    let table = head.get(usize::try_from(table).ok()?..)?;
    let count = word(header, 80)?.min(COUNT_MAX);
    let size = usize::try_from(word(header, 84)?).ok()?.max(128);
    let entries = (1..=count).zip(table.chunks_exact(size));
    let partition = |(number, entry): (u32, &[u8])| {
        // No type: not in use.
        let is_used = entry.iter().take(16).any(|byte| *byte != 0);
        let (first, last) = (long(entry, 32)?, long(entry, 40)?);
        let count = last.checked_sub(first)?.checked_add(1)?;
        let bytes = range(first, count, sector).filter(|_| is_used)?;
        Some(numbered(number, bytes))
    };
    Some(entries.filter_map(partition).collect())
}

/// Partitions inside an extended one: each has a table of its own, which says where the next is.
fn logical(extended: &Entry, sector: &mut dyn FnMut(u64) -> Option<Sector>) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    let mut at = u64::from(extended.first);
    // Tables that lead in circles end as well.
    for _ in 0..COUNT_MAX {
        let table = at.checked_mul(512).and_then(&mut *sector);
        let Some(table) = table.filter(is_mbr) else {
            break;
        };
        let own = entries(&table).filter(|entry| !entry.is_extended());
        found.extend(own.filter_map(|entry| entry.range(at)));
        let Some(next) = entries(&table).find(Entry::is_extended) else {
            break;
        };
        at = u64::from(extended.first) + u64::from(next.first);
    }
    found
}

fn is_mbr(sector: &Sector) -> bool {
    sector.ends_with(&MBR_SIGNATURE)
}

/// An entry of an MBR that is in use: in sectors.
struct Entry {
    number: u32,
    kind: u8,
    first: u32,
    count: u32,
}

impl Entry {
    /// Whether it holds others.
    fn is_extended(&self) -> bool {
        matches!(self.kind, 0x05 | 0x0F | 0x85)
    }

    /// Its bytes, where it counts from a sector on.
    fn range(&self, from: u64) -> Option<Range<u64>> {
        let first = from.checked_add(self.first.into())?;
        range(first, self.count.into(), 512)
    }
}

fn entries(sector: &Sector) -> impl Iterator<Item = Entry> {
    let table = sector.get(446..510).unwrap_or_default();
    let entries = (1..).zip(table.chunks_exact(16));
    let entries = entries.filter_map(|(number, entry)| {
        Some(Entry {
            number,
            kind: *entry.get(4)?,
            first: word(entry, 8)?,
            count: word(entry, 12)?,
        })
    });
    entries.filter(|entry| entry.kind != 0)
}
