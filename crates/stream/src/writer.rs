//! Writes a stream record by record, each with the checksum of all before.

use std::io::Write;

use base::{ByteOrder, Guid};
use codec::RunningFletcher4;
use format::nvlist::{NvList, encode_native, encode_xdr};
use format::stream::{BeginRecord, EndRecord, MAGIC, RecordAreas};

use crate::begin::{Header, name_field};
use crate::record::Record;
use crate::{Features, StreamError};

/// Writes a stream, or a package of streams.
#[derive(Debug)]
pub struct Writer<W> {
    output: W,
    order: ByteOrder,
    sum: RunningFletcher4,
    position: u64,
}

impl<W: Write> Writer<W> {
    /// Writes in the order of this machine. Records are written one by one: wrap what is slow at that.
    pub const fn new(output: W) -> Self {
        Self::in_order(output, ByteOrder::NATIVE)
    }

    /// Writes in the given order. Payloads are the caller's, also their order.
    pub const fn in_order(output: W, order: ByteOrder) -> Self {
        Self {
            output,
            order,
            sum: RunningFletcher4::new(),
            position: 0,
        }
    }

    /// How many bytes were written.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// What is written to.
    pub fn into_output(self) -> W {
        self.output
    }

    /// Begins a stream; its magic number and the length of its list are filled in.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin(&mut self, begin: BeginRecord, list: Option<&NvList>) -> Result<(), StreamError> {
        let payload = list.map(encode_native).unwrap_or_default();
        self.head(begin, &payload)
    }

    /// Begins a package of streams with this name, and with this list if there is one.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn begin_package(
        &mut self,
        name: &[u8],
        features: Features,
        list: Option<&NvList>,
    ) -> Result<(), StreamError> {
        let begin = BeginRecord {
            payload_length: 0,
            magic: MAGIC,
            version_info: Header::Package.version_info(features),
            creation_time: 0,
            object_set_kind: 0,
            flags: 0,
            to_guid: Guid(0),
            from_guid: Guid(0),
            name: name_field(name),
        };
        let payload = list.map(encode_xdr).unwrap_or_default();
        self.head(begin, &payload)?;
        self.end_head()
    }

    /// Ends the head of a package.
    pub(crate) fn end_head(&mut self) -> Result<(), StreamError> {
        // The checksum of the list is in the record itself; there is none behind it.
        let end = EndRecord {
            checksum: self.sum.value().0,
            to_guid: Guid(0),
        };
        self.put(&Record::End(end).encode(self.order))
    }

    /// Ends a package of streams.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end_package(&mut self) -> Result<(), StreamError> {
        let end = EndRecord {
            checksum: [0; 4],
            to_guid: Guid(0),
        };
        self.put(&Record::End(end).encode(self.order))?;
        self.flush()
    }

    /// Writes a record with its payload, of the length that the record says.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn record(&mut self, record: &Record, payload: &[u8]) -> Result<(), StreamError> {
        let length = record.payload_length()?;
        if u64::try_from(payload.len()).ok() != Some(length) {
            return Err(StreamError::BadLength(record.name(), length));
        }
        let mut bytes = record.encode(self.order);
        let (body, _) = bytes.split_at(RecordAreas::AT.checksum.offset);
        self.sum.feed(body, self.order);
        let sum = self.sum.value().0;
        RecordAreas::AT.checksum.put(&mut bytes, &sum, self.order);
        let (_, trailer) = bytes.split_at(RecordAreas::AT.checksum.offset);
        self.sum.feed(trailer, self.order);
        self.put(&bytes)?;
        self.sum.feed(payload, self.order);
        self.put(payload)
    }

    /// Ends a stream.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn end(&mut self, to_guid: Guid) -> Result<(), StreamError> {
        let end = EndRecord {
            checksum: self.sum.value().0,
            to_guid,
        };
        self.record(&Record::End(end), &[])?;
        self.flush()
    }

    /// Begins a stream or package with a payload as it is.
    pub(crate) fn head(&mut self, begin: BeginRecord, payload: &[u8]) -> Result<(), StreamError> {
        let length = payload.len().try_into();
        let begin = BeginRecord {
            payload_length: length.map_err(|_| StreamError::BadLength("BEGIN", u64::MAX))?,
            magic: MAGIC,
            ..begin
        };
        let bytes = Record::Begin(begin).encode(self.order);
        self.sum = RunningFletcher4::new();
        self.sum.feed(&bytes, self.order);
        self.sum.feed(payload, self.order);
        self.put(&bytes)?;
        self.put(payload)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), StreamError> {
        self.output.write_all(bytes)?;
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.position = self.position.saturating_add(length);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(self.output.flush()?)
    }
}
