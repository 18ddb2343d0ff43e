//! Streams written anew: `redup`, `decompress` and `recompress`.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter};
use std::os::unix::fs::FileExt;

use base::ByteOrder;
use format::stream::{BeginRecord, RECORD_SIZE, VersionInfo, WriteRecord};
use stream::{
    Change, Features, Header, Recompress, Record, StreamError, compression_of_name, convert,
};

use super::{broken, input, unopened};
use crate::grammar::Invocation;
use crate::output::{Outcome, complain, usage};

/// Compresses all blocks another way.
pub(super) fn recompress(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    let level = match call.value("l") {
        Some(text) => match text.parse() {
            Ok(level) => Some(level),
            Err(_) => return Err(usage(format!("Invalid level {text}."))),
        },
        None => None,
    };
    let Some(kind) = compression_of_name(name, level) else {
        return Err(usage(format!("Invalid compression type {name}.")));
    };
    rewritten(&mut Recompress { kind })
}

/// Decompresses the blocks that are named.
pub(super) fn decompress(call: &Invocation) -> Outcome {
    let mut wanted = HashMap::new();
    for operand in call.operands() {
        let mut words = operand.split(',');
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        let (Some(object), Some(offset)) = (number(), number()) else {
            return Err(usage(format!("invalid block '{operand}'")));
        };
        let name = words.next().unwrap_or("lz4");
        let Some(kind) = compression_of_name(name, None) else {
            return Err(usage(format!("Invalid compression type {name}.")));
        };
        wanted.insert((object, offset), kind);
    }
    let mut change = Decompress {
        wanted,
        verbose: call.has("v"),
    };
    rewritten(&mut change)
}

struct Decompress {
    wanted: HashMap<(u64, u64), codec::Compression>,
    verbose: bool,
}

impl Change for Decompress {
    fn head(&mut self, _begin: &mut BeginRecord, _order: ByteOrder) -> Result<(), StreamError> {
        Ok(())
    }

    fn record(
        &mut self,
        record: &mut Record,
        payload: &mut Vec<u8>,
        _position: u64,
    ) -> Result<bool, StreamError> {
        let Record::Write(write) = record else {
            return Ok(true);
        };
        let place = (write.object.0, write.offset);
        if let Some(kind) = self.wanted.get(&place) {
            match stream::decompress(write, payload, Some(*kind)) {
                Ok(()) if self.verbose => {
                    complain(&format!(
                        "Resetting compression type of object {} offset {}",
                        place.0, place.1
                    ));
                }
                Ok(()) => {}
                // It may be another snapshot's, whose block is as it says.
                Err(_) => complain(&format!(
                    "decompression failed for ino {} offset {}",
                    place.0, place.1
                )),
            }
        }
        Ok(true)
    }
}

fn rewritten(change: &mut dyn Change) -> Outcome {
    let output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    convert(input(None)?, output, change)
        .map(drop)
        .map_err(|error| broken(&error))
}

/// Puts blocks in the place of references to them.
pub(super) fn redup(call: &Invocation) -> Outcome {
    let name = call.operand(0);
    let opened = File::open(name).and_then(|file| Ok((file.try_clone()?, file)));
    let (file, blocks) = opened.map_err(|error| unopened(name, &error))?;
    let mut change = Redup {
        blocks,
        guid: 0,
        places: HashMap::new(),
        order: ByteOrder::NATIVE,
        expanded: 0,
    };
    let output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let converted = convert(BufReader::new(file), output, &mut change);
    let records = converted.map_err(|error| broken(&error))?;
    if call.has("v") {
        complain(&format!(
            "converted stream with {records} total records, including {} dedup records",
            change.expanded
        ));
    }
    Ok(())
}

/// Where the stream has the record of each block: by the snapshot, the object and the offset.
struct Redup {
    blocks: File,
    guid: u64,
    places: HashMap<(u64, u64, u64), u64>,
    order: ByteOrder,
    expanded: u64,
}

impl Redup {
    /// Reads a record again that was read at this place, with its payload.
    fn block(&self, at: u64, payload: &mut Vec<u8>) -> Result<WriteRecord, StreamError> {
        let mut bytes = [0; RECORD_SIZE];
        self.blocks.read_exact_at(&mut bytes, at)?;
        let record = Record::decode(&bytes, self.order)?;
        let length = usize::try_from(record.payload_length()?).unwrap_or(usize::MAX);
        let Record::Write(write) = record else {
            return Err(StreamError::Misplaced("another record than was there"));
        };
        payload.resize(length, 0);
        self.blocks
            .read_exact_at(payload, at.saturating_add(RECORD_SIZE as u64))?;
        Ok(write)
    }
}

impl Change for Redup {
    fn head(&mut self, begin: &mut BeginRecord, order: ByteOrder) -> Result<(), StreamError> {
        self.order = order;
        self.guid = begin.to_guid.0;
        let features = Features::of(begin.version_info);
        // Neither the blocks by reference are there any more, nor what else old senders said of them.
        let plain = features.bits() & !(Features::DEDUP.bits() | 2);
        let word = Header::Substream.version_info(Features::empty());
        begin.version_info = VersionInfo::AT.features.set(word, plain);
        Ok(())
    }

    fn record(
        &mut self,
        record: &mut Record,
        payload: &mut Vec<u8>,
        position: u64,
    ) -> Result<bool, StreamError> {
        match record {
            Record::Write(write) => {
                let place = (self.guid, write.object.0, write.offset);
                let length = (RECORD_SIZE + payload.len()) as u64;
                self.places.insert(place, position.saturating_sub(length));
            }
            Record::WriteByReference(reference) => {
                let place = (
                    reference.source_guid.0,
                    reference.source_object.0,
                    reference.source_offset,
                );
                let missing = StreamError::Misplaced("a reference to a block that did not come");
                let at = *self.places.get(&place).ok_or(missing)?;
                let source = self.block(at, payload)?;
                let write = WriteRecord {
                    object: reference.object,
                    offset: reference.offset,
                    to_guid: reference.to_guid,
                    ..source
                };
                self.expanded += 1;
                // What follows may refer to this one.
                let own = (self.guid, write.object.0, write.offset);
                self.places.insert(own, at);
                *record = Record::Write(write);
            }
            Record::Begin(_)
            | Record::Object(_)
            | Record::FreeObjects(_)
            | Record::Free(_)
            | Record::End(_)
            | Record::Spill(_)
            | Record::WriteEmbedded(_)
            | Record::ObjectRange(_)
            | Record::Redact(_) => {}
        }
        Ok(true)
    }
}
