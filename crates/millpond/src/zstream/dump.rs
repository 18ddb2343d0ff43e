//! `zstream dump`: the records of a stream, line by line as OpenZFS prints them.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};

use format::stream::{
    BeginRecord, ObjectRecord, RECORD_SIZE, SpillRecord, VersionInfo, WriteByReferenceRecord,
    WriteEmbeddedRecord, WriteRecord,
};
use stream::{Reader, Record, StreamError, begin_name, decode_list};

use super::{broken, input, list};
use crate::grammar::Invocation;
use crate::output::{Outcome, Output, Stop, complain};

/// Kinds of records that the summary has, in its order.
const COUNTED: [(&str, u32); 9] = [
    ("BEGIN", 0),
    ("END", 5),
    ("OBJECT", 1),
    ("FREEOBJECTS", 2),
    ("WRITE", 3),
    ("WRITE_BYREF", 6),
    ("WRITE_EMBEDDED", 8),
    ("FREE", 4),
    ("SPILL", 7),
];

/// How many records there are of a kind, and the bytes of their payloads.
#[derive(Clone, Copy, Default)]
struct Count {
    records: u64,
    bytes: u64,
}

#[derive(Default)]
struct Counts([Count; 11]);

impl Counts {
    fn add(&mut self, record: &Record, bytes: u64) {
        let index = usize::try_from(record.number()).unwrap_or(usize::MAX);
        if let Some(count) = self.0.get_mut(index) {
            count.records += 1;
            count.bytes += bytes;
        }
    }

    fn summary(&self, length: u64) -> String {
        let mut out = "SUMMARY:\n".to_owned();
        for (name, number) in COUNTED {
            let Count { records, bytes } = usize::try_from(number)
                .ok()
                .and_then(|number| self.0.get(number))
                .copied()
                .unwrap_or_default();
            let _ = writeln!(
                out,
                "\tTotal DRR_{name} records = {records} ({bytes} bytes)"
            );
        }
        let records: u64 = self.0.iter().map(|count| count.records).sum();
        let payload: u64 = self.0.iter().map(|count| count.bytes).sum();
        let overhead = records * RECORD_SIZE as u64;
        let _ = writeln!(out, "\tTotal records = {records}");
        let _ = writeln!(out, "\tTotal payload size = {payload} ({payload:#x})");
        let _ = writeln!(out, "\tTotal header overhead = {overhead} ({overhead:#x})");
        let _ = writeln!(out, "\tTotal stream length = {length} ({length:#x})");
        out
    }
}

pub(super) fn run(call: &Invocation) -> Outcome {
    let shows_data = call.has("d");
    let verbose = call.has("v") || shows_data;
    let mut reader = Reader::new(input(call.operands().first().map(String::as_str))?);
    if call.has("C") {
        reader = reader.unchecked();
    }
    let mut out = BufWriter::new(Output::standard());
    let mut write = |text: &str| -> Outcome {
        out.write_all(text.as_bytes())
            .map_err(|error| broken(&StreamError::Io(error)))
    };
    let mut counts = Counts::default();
    let mut payload = Vec::new();
    let outcome = loop {
        match reader.next(&mut payload) {
            Ok(None) => break Ok(()),
            Ok(Some(item)) => {
                counts.add(&item.record, payload.len() as u64);
                write(&describe(&item.record, &payload, verbose))?;
                if !shows_data {
                    continue;
                }
                if item.record.begin().is_none() {
                    write(&rows(&payload))?;
                    let checksum = sums(reader.stored_checksum());
                    write(&format!("    checksum = {checksum}\n"))?;
                }
            }
            Err(error) => break Err(error),
        }
    };
    if let Err(StreamError::BadChecksum(_)) = &outcome {
        complain(&"invalid checksum");
        let expected = sums(reader.checksum());
        write(&format!(
            "Incorrect checksum in record header.\nExpected checksum = {expected}\n"
        ))?;
    }
    write(&counts.summary(reader.position()))?;
    out.flush()
        .map_err(|error| broken(&StreamError::Io(error)))?;
    match outcome {
        Ok(()) => Ok(()),
        // That was said.
        Err(StreamError::BadChecksum(_)) => Err(Stop::Quiet(1)),
        Err(error) => Err(broken(&error)),
    }
}

fn sums([a, b, c, d]: [u64; 4]) -> String {
    format!("{a:x}/{b:x}/{c:x}/{d:x}")
}

fn bytes(all: &[u8]) -> String {
    all.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// What a record's lines are.
fn describe(record: &Record, payload: &[u8], verbose: bool) -> String {
    match record {
        Record::Begin(begin) => return head(begin, payload, verbose),
        Record::End(end) => return format!("END checksum = {}\n", sums(end.checksum)),
        Record::Object(_)
        | Record::FreeObjects(_)
        | Record::Write(_)
        | Record::Free(_)
        | Record::WriteByReference(_)
        | Record::Spill(_)
        | Record::WriteEmbedded(_)
        | Record::ObjectRange(_)
        | Record::Redact(_) => {}
    }
    if verbose {
        line(record, payload.len())
    } else {
        String::new()
    }
}

fn head(begin: &BeginRecord, payload: &[u8], verbose: bool) -> String {
    let mut out = "BEGIN record\n".to_owned();
    let _ = writeln!(
        out,
        "\thdrtype = {}",
        VersionInfo::AT.header.get(begin.version_info)
    );
    let features = VersionInfo::AT.features.get(begin.version_info);
    let _ = writeln!(out, "\tfeatures = {features:x}");
    let _ = writeln!(out, "\tmagic = {:x}", begin.magic);
    let _ = writeln!(out, "\tcreation_time = {:x}", begin.creation_time);
    let _ = writeln!(out, "\ttype = {}", begin.object_set_kind);
    let _ = writeln!(out, "\tflags = {:#x}", begin.flags);
    let _ = writeln!(out, "\ttoguid = {:x}", begin.to_guid.0);
    let _ = writeln!(out, "\tfromguid = {:x}", begin.from_guid.0);
    let name = String::from_utf8_lossy(begin_name(begin)).into_owned();
    let _ = writeln!(out, "\ttoname = {name}");
    let _ = writeln!(out, "\tpayloadlen = {}", begin.payload_length);
    if verbose {
        out.push('\n');
    }
    if let Ok(Some(found)) = decode_list(payload) {
        out += &list::text(&found, 0);
    }
    out
}

fn line(record: &Record, payload: usize) -> String {
    match record {
        Record::Begin(_) | Record::End(_) => String::new(),
        Record::Object(one) => object(one),
        Record::Write(one) => write_line(one, payload),
        Record::WriteByReference(one) => by_reference(one),
        Record::Spill(one) => spill(one, payload),
        Record::WriteEmbedded(one) => embedded(one),
        Record::FreeObjects(one) => format!(
            "FREEOBJECTS firstobj = {} numobjs = {}\n",
            one.first, one.count
        ),
        Record::Free(one) => {
            let (object, offset) = (one.object, one.offset);
            let length = one.length.cast_signed();
            format!("FREE object = {object} offset = {offset} length = {length}\n")
        }
        Record::ObjectRange(one) => format!(
            "OBJECT_RANGE firstobj = {} numslots = {} flags = {} salt = {} iv = {} mac = {}\n",
            one.first,
            one.slots,
            one.flags,
            bytes(&one.salt),
            bytes(&one.iv),
            bytes(&one.mac)
        ),
        Record::Redact(one) => format!(
            "REDACT object = {} offset = {} length = {}\n",
            one.object, one.offset, one.length
        ),
    }
}

fn object(one: &ObjectRecord) -> String {
    format!(
        "OBJECT object = {} type = {} bonustype = {} blksz = {} bonuslen = {} dn_slots = {} raw_bonuslen = {} \
         flags = {} maxblkid = {} indblkshift = {} nlevels = {} nblkptr = {}\n",
        one.object,
        one.kind,
        one.bonus_kind,
        one.block_size,
        one.bonus_length,
        one.slots,
        one.raw_bonus_length,
        one.flags,
        one.max_block,
        one.indirect_shift,
        one.levels,
        one.pointers
    )
}

fn write_line(one: &WriteRecord, payload: usize) -> String {
    format!(
        "WRITE object = {} type = {} checksum type = {} compression type = {} flags = {} offset = {} \
         logical_size = {} compressed_size = {} payload_size = {payload} props = {:x} salt = {} iv = {} mac = {}\n",
        one.object,
        one.kind,
        one.checksum_kind,
        one.compression,
        one.flags,
        one.offset,
        one.logical_size,
        one.compressed_size,
        one.key,
        bytes(&one.salt),
        bytes(&one.iv),
        bytes(&one.mac)
    )
}

fn by_reference(one: &WriteByReferenceRecord) -> String {
    format!(
        "WRITE_BYREF object = {} checksum type = {} props = {:x} offset = {} length = {} toguid = {:x} \
         refguid = {:x} refobject = {} refoffset = {}\n",
        one.object,
        one.checksum_kind,
        one.key,
        one.offset,
        one.length,
        one.to_guid.0,
        one.source_guid.0,
        one.source_object,
        one.source_offset
    )
}

fn spill(one: &SpillRecord, payload: usize) -> String {
    format!(
        "SPILL block for object = {} length = {} flags = {} compression type = {} compressed_size = {} \
         payload_size = {payload} salt = {} iv = {} mac = {}\n",
        one.object,
        one.length,
        one.flags,
        one.compression,
        one.compressed_size,
        bytes(&one.salt),
        bytes(&one.iv),
        bytes(&one.mac)
    )
}

fn embedded(one: &WriteEmbeddedRecord) -> String {
    format!(
        "WRITE_EMBEDDED object = {} offset = {} length = {} toguid = {:x} comp = {} etype = {} lsize = {} psize = {}\n",
        one.object,
        one.offset,
        one.length,
        one.to_guid.0,
        one.compression,
        one.embedded_kind,
        one.logical_size,
        one.physical_size
    )
}

/// Bytes in hexadecimal and as text, sixteen a row.
fn rows(data: &[u8]) -> String {
    let mut out = String::new();
    for row in data.chunks(16) {
        for index in 0..16 {
            if index % 4 == 0 && index != 0 {
                out.push(' ');
            }
            match row.get(index) {
                Some(byte) => {
                    let _ = write!(out, " {byte:02x}");
                }
                None => out.push_str("   "),
            }
        }
        out.push_str("  ");
        for (index, byte) in row.iter().enumerate() {
            if index % 4 == 0 {
                out.push(' ');
            }
            let shown = byte.is_ascii_graphic() || *byte == b' ';
            out.push(if shown { char::from(*byte) } else { '.' });
        }
        out.push('\n');
    }
    out
}
