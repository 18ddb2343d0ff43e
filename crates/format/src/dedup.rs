//! Dedup tables: values of their ZAPs, and the records of their logs.

use base::ByteOrder;
use codec::Compression;

use crate::block_pointer::Dva;
use crate::record::get_at;

/// What an entry is found by: the checksum, and a word of sizes and compression.
pub type DedupKey = [u64; 5];

const KEY_BYTES: usize = 40;
/// Bytes of a value with one list of addresses.
pub const FLAT_BYTES: usize = 72;
/// Bytes of a value with a list for each number of copies.
pub const LEGACY_BYTES: usize = 256;
const LEGACY_ENTRY_BYTES: usize = 64;
/// Where the number of references is in a list.
const COUNT_OFFSET: usize = 48;
/// In the first byte of a stored value: it is little-endian.
const LITTLE_ENDIAN: u8 = 0x80;
/// Bytes of the word that begins a record of a log.
const RECORD_HEAD: usize = 8;
/// The kind of the records that are entries, in the low byte of that word; their length is in the next two.
const RECORD_ENTRY: u64 = 1;

/// A stored value: one byte of compression and byte order, then the payload.
#[must_use]
pub fn unpack(stored: &[u8]) -> Option<(Vec<u8>, ByteOrder)> {
    let (&head, payload) = stored.split_first()?;
    let order = if head & LITTLE_ENDIAN != 0 {
        ByteOrder::Little
    } else {
        ByteOrder::Big
    };
    let compression = Compression::from_id(head & !LITTLE_ENDIAN).ok()?;
    match compression {
        Compression::Off => Some((payload.to_vec(), order)),
        // A value that is nothing but zeros is not in a table.
        Compression::Empty => None,
        Compression::Lzjb
        | Compression::Gzip(_)
        | Compression::Zle
        | Compression::Lz4
        | Compression::Zstd(_) => {
            // Which of the two kinds it is shows only by whether it unpacks to that size.
            for size in [LEGACY_BYTES, FLAT_BYTES] {
                let mut bytes = vec![0; size];
                if codec::decompress(compression, payload, &mut bytes).is_ok() {
                    return Some((bytes, order));
                }
            }
            None
        }
    }
}

/// The first addresses that an entry describes, with how often they are referred to.
#[must_use]
pub fn addresses(bytes: &[u8], order: ByteOrder) -> Vec<(Dva, u64)> {
    let one = |at: usize| {
        let words: [u64; 2] = get_at(bytes, at, order);
        let count: u64 = get_at(bytes, at + COUNT_OFFSET, order);
        let dva = Dva::from_words(words)?;
        (count > 0).then_some((dva, count))
    };
    if bytes.len() >= LEGACY_BYTES {
        (0..LEGACY_BYTES / LEGACY_ENTRY_BYTES)
            .filter_map(|index| one(index * LEGACY_ENTRY_BYTES))
            .collect()
    } else {
        one(0).into_iter().collect()
    }
}

/// The entries of a block of a log: key and value. They end with the block, or with what is no entry.
pub fn log_entries(block: &[u8]) -> impl Iterator<Item = (DedupKey, &[u8])> {
    let order = ByteOrder::NATIVE;
    let mut rest = block;
    std::iter::from_fn(move || {
        let head: u64 = get_at(rest, 0, order);
        let length = usize::try_from(head >> 8 & 0xFFFF).ok()?;
        let (record, after) = rest.split_at_checked(length)?;
        let value = record.get(RECORD_HEAD + KEY_BYTES..)?;
        if head & 0xFF != RECORD_ENTRY {
            return None;
        }
        rest = after;
        Some((get_at(record, RECORD_HEAD, order), value))
    })
}

#[cfg(test)]
mod tests;
