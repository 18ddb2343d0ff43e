//! The pool's history.

use std::io::Write;

use base::{ByteOrder, ObjectId};
use format::config::directory;
use format::history::{HistoryPhys, LENGTH_SIZE, decode_record, keys, record_length};
use format::nvlist::NvList;

use crate::error::Result;
use crate::print::{print_list, stamp};
use crate::raw::{RawObject, RawPool};

/// No record is longer.
const RECORD_BYTES_MAX: u64 = 16 << 20;

/// Prints every record, oldest first.
pub(crate) fn print_history(out: &mut dyn Write, pool: &RawPool) -> Result<()> {
    writeln!(out, "\nHistory:")?;
    let Some(id) = pool.directory_word(directory::HISTORY)? else {
        return Ok(());
    };
    let object = pool.mos.object(ObjectId(id))?;
    let phys = HistoryPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE);
    phys.check().map_err(|source| object.format_error(source))?;
    // The first record stays for ever; the ring goes on from the oldest that is left.
    let mut parts = vec![(0, phys.create_length), (phys.begin, phys.end)];
    if phys.begin <= phys.create_length {
        parts = vec![(0, phys.end)];
    }
    for (mut at, end) in parts {
        loop {
            let start = at.saturating_add(LENGTH_SIZE);
            if start > end {
                break;
            }
            let prefix = read_ring(&object, &phys, at, LENGTH_SIZE)?;
            let length = record_length(&prefix);
            let next = start.saturating_add(length);
            if length == 0 || length > RECORD_BYTES_MAX || next > end {
                break;
            }
            let bytes = read_ring(&object, &phys, start, length)?;
            match decode_record(&bytes) {
                Ok(record) => print_record(out, &record)?,
                Err(error) => writeln!(out, "unreadable record at {at}: {error}")?,
            }
            at = next;
        }
    }
    Ok(())
}

/// Bytes by logical offset, which may wrap around the end of the ring.
fn read_ring(object: &RawObject, phys: &HistoryPhys, at: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let read = bytes.len() as u64;
        let left = length.saturating_sub(read);
        if left == 0 {
            break;
        }
        let from = phys.physical(at.saturating_add(read));
        let room = phys.ring_size.saturating_sub(from).max(1);
        let take = left.min(room);
        bytes.extend(object.read_at(from, take as usize)?);
    }
    Ok(bytes)
}

fn print_record(out: &mut dyn Write, record: &NvList) -> Result<()> {
    let time = stamp(record.u64(keys::TIME).unwrap_or(0));
    let text = |key| record.bytes(key).map(String::from_utf8_lossy);
    if let Some(command) = text(keys::COMMAND) {
        writeln!(out, "{time} {command}")?;
    } else if let Some(name) = text(keys::INTERNAL_NAME) {
        let txg = record.u64(keys::TXG).unwrap_or(0);
        write!(out, "{time} [txg:{txg}] {name} ")?;
        if let Some(dataset) = text(keys::DATASET_NAME) {
            let id = record.u64(keys::DATASET_ID).unwrap_or(0);
            write!(out, "{dataset} ({id}) ")?;
        }
        writeln!(out, "{}", text(keys::INTERNAL_TEXT).unwrap_or_default())?;
    } else if let Some(request) = text(keys::REQUEST) {
        writeln!(out, "{time} ioctl {request}")?;
        for (title, key) in [
            ("input", keys::REQUEST_INPUT),
            ("output", keys::REQUEST_OUTPUT),
        ] {
            if let Some(list) = record.list(key) {
                writeln!(out, "    {title}:")?;
                print_list(out, list, 8)?;
            }
        }
        if let Some(format::nvlist::Value::Int64(number)) = record.get(keys::ERROR) {
            writeln!(out, "    errno: {number}")?;
        }
    } else {
        writeln!(out, "unrecognized record:")?;
        print_list(out, record, 8)?;
    }
    Ok(())
}
