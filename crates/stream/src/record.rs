//! One record of a stream, and how long its payload is.

use base::ByteOrder;
use format::stream::{
    BeginRecord, EndRecord, FreeObjectsRecord, FreeRecord, MAGIC, ObjectRangeRecord, ObjectRecord,
    RECORD_SIZE, RecordAreas, RedactRecord, SpillRecord, WriteByReferenceRecord,
    WriteEmbeddedRecord, WriteRecord,
};

use crate::{LIST_MAX, PAYLOAD_MAX, StreamError};

/// The bytes of a record.
pub(crate) type RecordBytes = [u8; RECORD_SIZE];

/// A record of any kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Record {
    /// The head of a stream or package.
    Begin(BeginRecord),
    /// A dnode.
    Object(ObjectRecord),
    /// Objects that are not there.
    FreeObjects(FreeObjectsRecord),
    /// A block.
    Write(WriteRecord),
    /// A range without data.
    Free(FreeRecord),
    /// The end of a stream or package.
    End(EndRecord),
    /// A block that the stream has elsewhere.
    WriteByReference(WriteByReferenceRecord),
    /// A spill block.
    Spill(SpillRecord),
    /// A block inside of its pointer.
    WriteEmbedded(WriteEmbeddedRecord),
    /// How a block of dnodes is encrypted.
    ObjectRange(ObjectRangeRecord),
    /// A range that is left out on purpose.
    Redact(RedactRecord),
}

/// The order in which the bytes of a BEGIN are.
pub(crate) fn order_of_begin(bytes: &RecordBytes) -> Result<ByteOrder, StreamError> {
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| BeginRecord::AT.magic.get(bytes, *order) == MAGIC)
        .ok_or(StreamError::BadMagic)
}

impl Record {
    /// What the bytes of a record say. Its checksum is the reader's affair.
    ///
    /// # Errors
    /// When there is no such kind.
    pub fn decode(bytes: &[u8; RECORD_SIZE], order: ByteOrder) -> Result<Self, StreamError> {
        let bytes = &bytes[..];
        Ok(match RecordAreas::AT.kind.get(bytes, order) {
            0 => Self::Begin(BeginRecord::decode_padded(bytes, order)),
            1 => Self::Object(ObjectRecord::decode_padded(bytes, order)),
            2 => Self::FreeObjects(FreeObjectsRecord::decode_padded(bytes, order)),
            3 => Self::Write(WriteRecord::decode_padded(bytes, order)),
            4 => Self::Free(FreeRecord::decode_padded(bytes, order)),
            5 => Self::End(EndRecord::decode_padded(bytes, order)),
            6 => Self::WriteByReference(WriteByReferenceRecord::decode_padded(bytes, order)),
            7 => Self::Spill(SpillRecord::decode_padded(bytes, order)),
            8 => Self::WriteEmbedded(WriteEmbeddedRecord::decode_padded(bytes, order)),
            9 => Self::ObjectRange(ObjectRangeRecord::decode_padded(bytes, order)),
            10 => Self::Redact(RedactRecord::decode_padded(bytes, order)),
            other => return Err(StreamError::UnknownRecord(other)),
        })
    }

    /// The record's bytes, without its checksum.
    #[must_use]
    pub fn encode(&self, order: ByteOrder) -> [u8; RECORD_SIZE] {
        let mut bytes = match self {
            Self::Begin(record) => record.to_bytes(order),
            Self::Object(record) => record.to_bytes(order),
            Self::FreeObjects(record) => record.to_bytes(order),
            Self::Write(record) => record.to_bytes(order),
            Self::Free(record) => record.to_bytes(order),
            Self::End(record) => record.to_bytes(order),
            Self::WriteByReference(record) => record.to_bytes(order),
            Self::Spill(record) => record.to_bytes(order),
            Self::WriteEmbedded(record) => record.to_bytes(order),
            Self::ObjectRange(record) => record.to_bytes(order),
            Self::Redact(record) => record.to_bytes(order),
        };
        RecordAreas::AT.kind.put(&mut bytes, &self.number(), order);
        bytes
    }

    /// The head of a stream or package, if it is one.
    #[must_use]
    pub const fn begin(&self) -> Option<&BeginRecord> {
        match self {
            Self::Begin(begin) => Some(begin),
            Self::Object(_)
            | Self::FreeObjects(_)
            | Self::Write(_)
            | Self::Free(_)
            | Self::End(_)
            | Self::WriteByReference(_)
            | Self::Spill(_)
            | Self::WriteEmbedded(_)
            | Self::ObjectRange(_)
            | Self::Redact(_) => None,
        }
    }

    /// The number of its kind.
    #[must_use]
    pub const fn number(&self) -> u32 {
        match self {
            Self::Begin(_) => 0,
            Self::Object(_) => 1,
            Self::FreeObjects(_) => 2,
            Self::Write(_) => 3,
            Self::Free(_) => 4,
            Self::End(_) => 5,
            Self::WriteByReference(_) => 6,
            Self::Spill(_) => 7,
            Self::WriteEmbedded(_) => 8,
            Self::ObjectRange(_) => 9,
            Self::Redact(_) => 10,
        }
    }

    /// What its kind is called.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "BEGIN",
            Self::Object(_) => "OBJECT",
            Self::FreeObjects(_) => "FREEOBJECTS",
            Self::Write(_) => "WRITE",
            Self::Free(_) => "FREE",
            Self::End(_) => "END",
            Self::WriteByReference(_) => "WRITE_BYREF",
            Self::Spill(_) => "SPILL",
            Self::WriteEmbedded(_) => "WRITE_EMBEDDED",
            Self::ObjectRange(_) => "OBJECT_RANGE",
            Self::Redact(_) => "REDACT",
        }
    }

    /// Bytes of the payload that follows.
    ///
    /// # Errors
    /// When no sender makes one of that length.
    pub fn payload_length(&self) -> Result<u64, StreamError> {
        let (length, longest) = match self {
            Self::Begin(record) => (u64::from(record.payload_length), LIST_MAX),
            Self::Object(record) if record.raw_bonus_length != 0 => {
                (u64::from(record.raw_bonus_length), PAYLOAD_MAX)
            }
            Self::Object(record) => (
                u64::from(record.bonus_length).next_multiple_of(8),
                PAYLOAD_MAX,
            ),
            Self::Write(record) if record.compression != 0 => (record.compressed_size, PAYLOAD_MAX),
            Self::Write(record) => (record.logical_size, PAYLOAD_MAX),
            Self::Spill(record) if record.compressed_size != 0 => {
                (record.compressed_size, PAYLOAD_MAX)
            }
            Self::Spill(record) => (record.length, PAYLOAD_MAX),
            Self::WriteEmbedded(record) => (
                u64::from(record.physical_size).next_multiple_of(8),
                PAYLOAD_MAX,
            ),
            Self::FreeObjects(_)
            | Self::Free(_)
            | Self::End(_)
            | Self::WriteByReference(_)
            | Self::ObjectRange(_)
            | Self::Redact(_) => (0, 0),
        };
        // The checksum runs over words of four bytes.
        if length > longest || length % 4 != 0 {
            return Err(StreamError::BadLength(self.name(), length));
        }
        Ok(length)
    }
}
