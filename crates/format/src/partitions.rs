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

const GPT_SIGNATURE: &[u8] = b"EFI PART";
const MBR_SIGNATURE: [u8; 2] = [0x55, 0xAA];

/// The partitions of a disk whose first bytes these are, as ranges of bytes, in the order of the table; without what
/// lies inside extended partitions.
#[must_use]
pub fn partitions(head: &[u8]) -> Vec<Range<u64>> {
    let gpt = [512, 4096].into_iter().find_map(|sector| gpt(head, sector));
    gpt.or_else(|| mbr(head)).unwrap_or_default()
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

fn gpt(head: &[u8], sector: u64) -> Option<Vec<Range<u64>>> {
    let header = head.get(usize::try_from(sector).ok()?..)?;
    if !header.starts_with(GPT_SIGNATURE) {
        return None;
    }
    let table = long(header, 72)?.checked_mul(sector)?;
    let table = head.get(usize::try_from(table).ok()?..)?;
    let count = word(header, 80)?.min(COUNT_MAX);
    let size = usize::try_from(word(header, 84)?).ok()?.max(128);
    let entries = table.chunks_exact(size);
    let entries = entries.take(usize::try_from(count).ok()?);
    let partition = |entry: &[u8]| {
        // No type: not in use.
        let is_used = entry.iter().take(16).any(|byte| *byte != 0);
        let (first, last) = (long(entry, 32)?, long(entry, 40)?);
        let count = last.checked_sub(first)?.checked_add(1)?;
        range(first, count, sector).filter(|_| is_used)
    };
    Some(entries.filter_map(partition).collect())
}

fn mbr(head: &[u8]) -> Option<Vec<Range<u64>>> {
    /// Not in use, and partitions that hold others.
    const PASSED_OVER: [u8; 4] = [0, 0x05, 0x0F, 0x85];
    let sector = head.get(..512)?;
    if !sector.ends_with(&MBR_SIGNATURE) {
        return None;
    }
    let table = sector.get(446..510)?;
    let partition = |entry: &[u8]| {
        let kind = entry.get(4).filter(|kind| !PASSED_OVER.contains(kind));
        let (first, count) = (word(entry, 8)?, word(entry, 12)?);
        kind.and_then(|_| range(first.into(), count.into(), 512))
    };
    Some(table.chunks_exact(16).filter_map(partition).collect())
}
