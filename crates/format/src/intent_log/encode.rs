//! Writing records: fixed fields, what follows them, padding to eight bytes.

use base::{ByteOrder, Txg};

use super::record::RecordHeader;

/// The unit of a record's length.
const UNIT: usize = 8;

/// A whole record in host order: `fields` as the fields' `to_bytes` gives them (they leave room
/// for the header), then the parts, then zeros up to a multiple of eight bytes. Its txg and
/// sequence number are still 0: see [`stamp_record`].
#[must_use]
pub fn encode_record(kind: u64, fields: &[u8], parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = fields.len() + parts.iter().map(|part| part.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(UNIT));
    bytes.extend_from_slice(fields);
    for part in parts {
        bytes.extend_from_slice(part);
    }
    bytes.resize(length.next_multiple_of(UNIT).max(RecordHeader::SIZE), 0);
    let header = RecordHeader {
        kind,
        length: bytes.len() as u64,
        txg: Txg(0),
        sequence: 0,
    };
    header.encode(&mut bytes, ByteOrder::NATIVE);
    bytes
}

/// Writes txg and sequence number into an encoded record.
pub fn stamp_record(record: &mut [u8], txg: Txg, sequence: u64) {
    let at = RecordHeader::AT;
    at.txg.put(record, &txg, ByteOrder::NATIVE);
    at.sequence.put(record, &sequence, ByteOrder::NATIVE);
}
