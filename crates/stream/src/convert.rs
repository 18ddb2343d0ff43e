//! Streams written anew: the same records, of which some were changed.

use std::io::{Read, Write};

use base::ByteOrder;
use codec::{Compression, ZstdLevel};
use format::stream::{BeginRecord, VersionInfo, WriteRecord};

use crate::{Features, Header, Part, Reader, Record, StreamError, Writer};

/// What changes a stream that is written anew.
pub trait Change {
    /// What the head of a stream says, which is in this byte order.
    ///
    /// # Errors
    /// Such a stream cannot be changed.
    fn head(&mut self, begin: &mut BeginRecord, order: ByteOrder) -> Result<(), StreamError>;

    /// A record, with its payload. False: it is left out.
    ///
    /// # Errors
    /// It cannot be changed.
    fn record(
        &mut self,
        record: &mut Record,
        payload: &mut Vec<u8>,
        position: u64,
    ) -> Result<bool, StreamError>;
}

/// Reads a stream or package, and writes it with changed records, in its byte order; how many records were read.
///
/// # Errors
/// It cannot be read, changed or written.
pub fn convert(
    input: impl Read,
    output: impl Write,
    change: &mut dyn Change,
) -> Result<u64, StreamError> {
    let mut reader = Reader::new(input);
    let mut payload = Vec::new();
    let Some(mut item) = reader.next(&mut payload)? else {
        return Ok(0);
    };
    let mut records = 1;
    let mut writer = Writer::in_order(output, reader.order());
    let mut is_prologue = false;
    loop {
        match (item.part, &mut item.record) {
            (part, Record::Begin(begin)) => {
                is_prologue = part == Part::Package;
                if !is_prologue {
                    change.head(begin, reader.order())?;
                }
                writer.head(begin.clone(), &payload)?;
            }
            (Part::Package, _) if std::mem::take(&mut is_prologue) => writer.end_head()?,
            (Part::Package, _) => writer.end_package()?,
            (Part::Substream, Record::End(end)) => writer.end(end.to_guid)?,
            (Part::Substream, record) => {
                if change.record(record, &mut payload, reader.position())? {
                    writer.record(record, &payload)?;
                }
            }
        }
        match reader.next(&mut payload)? {
            Some(next) => item = next,
            None => return Ok(records),
        }
        records += 1;
    }
}

/// Compresses all blocks another way. What identifies a block stays: it tells how the sender stores it.
#[derive(Clone, Copy, Debug)]
pub struct Recompress {
    /// The way.
    pub kind: Compression,
}

impl Change for Recompress {
    fn head(&mut self, begin: &mut BeginRecord, _order: ByteOrder) -> Result<(), StreamError> {
        let features = Features::of(begin.version_info);
        if features.contains(Features::RAW) {
            return Err(StreamError::Misplaced("encrypted blocks"));
        }
        let zstd = matches!(self.kind, Compression::Zstd(_));
        let is_plain = self.kind.is_off();
        let features = features
            .difference(Features::COMPRESSED)
            .with_if(Features::COMPRESSED, !is_plain)
            .with_if(Features::LZ4, self.kind == Compression::Lz4)
            .with_if(Features::ZSTD, zstd);
        begin.version_info = VersionInfo::AT.features.set(
            Header::Substream.version_info(Features::empty()),
            features.bits(),
        );
        Ok(())
    }

    fn record(
        &mut self,
        record: &mut Record,
        payload: &mut Vec<u8>,
        _position: u64,
    ) -> Result<bool, StreamError> {
        if let Record::Write(write) = record {
            decompress(write, payload, None)?;
            compress(write, payload, self.kind);
        }
        Ok(true)
    }
}

/// The name of a compression, as the property has it, with the level that a name may leave open.
#[must_use]
pub fn compression_of_name(name: &str, level: Option<u8>) -> Option<Compression> {
    let zstd = |level: u8| ZstdLevel::from_code(level).map(Compression::Zstd);
    match name {
        "off" => Some(Compression::Off),
        "lz4" | "on" => Some(Compression::Lz4),
        "lzjb" => Some(Compression::Lzjb),
        "zle" => Some(Compression::Zle),
        "gzip" => Some(Compression::Gzip(level.unwrap_or(6).clamp(1, 9))),
        "zstd" => level.map_or(Some(Compression::Zstd(ZstdLevel::DEFAULT)), zstd),
        other => {
            let (way, level) = other.split_once('-')?;
            let level: u8 = level.parse().ok()?;
            match way {
                "gzip" if (1..=9).contains(&level) => Some(Compression::Gzip(level)),
                "zstd" if level <= 19 => zstd(level),
                _ => None,
            }
        }
    }
}

/// Gives a block plain bytes, by the compression that it says or by another one.
///
/// # Errors
/// They are no such bytes.
pub fn decompress(
    write: &mut WriteRecord,
    payload: &mut Vec<u8>,
    kind: Option<Compression>,
) -> Result<(), StreamError> {
    let invalid = || StreamError::Misplaced("a block that cannot be decompressed");
    let kind = match kind {
        Some(kind) => kind,
        None if write.compression == 0 => return Ok(()),
        None => Compression::from_id(write.compression).map_err(|_| invalid())?,
    };
    if !kind.is_off() {
        let size = usize::try_from(write.logical_size).map_err(|_| invalid())?;
        if write.logical_size > crate::PAYLOAD_MAX {
            return Err(StreamError::BadLength("WRITE", write.logical_size));
        }
        let mut plain = vec![0; size];
        codec::decompress(kind, payload, &mut plain).map_err(|_| invalid())?;
        *payload = plain;
    }
    write.compression = 0;
    write.compressed_size = 0;
    Ok(())
}

/// Compresses a plain block, where that makes it smaller.
fn compress(write: &mut WriteRecord, payload: &mut Vec<u8>, kind: Compression) {
    const SECTOR: usize = 512;
    let mut packed = vec![0; payload.len().saturating_sub(SECTOR)];
    let Some(length) = codec::compress(kind, payload, &mut packed) else {
        return;
    };
    let padded = length.next_multiple_of(SECTOR);
    if padded >= payload.len() || padded > packed.len() {
        return;
    }
    packed.truncate(padded);
    if let Some(padding) = packed.get_mut(length..) {
        padding.fill(0);
    }
    *payload = packed;
    write.compression = kind.id();
    write.compressed_size = u64::try_from(padded).unwrap_or(u64::MAX);
}
