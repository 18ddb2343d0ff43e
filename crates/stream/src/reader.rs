//! Reads a stream record by record; nothing is handed on whose checksum is wrong.

use std::io::{ErrorKind, Read};
use std::ops::DerefMut;

use base::ByteOrder;
use codec::{ChecksumValue, RunningFletcher4};
use format::stream::{RECORD_SIZE, RecordAreas};

use crate::begin::Header;
use crate::record::{Record, RecordBytes, order_of_begin};
use crate::{LIST_MAX, StreamError};

/// [`RECORD_SIZE`], to count with.
const RECORD_SIZE_U64: u64 = 312;
const _: () = assert!(RECORD_SIZE == 312);

/// Memory for a payload doubles as bytes come, from the first of these to steps of the second.
const GROWTH_MIN: usize = 32 << 10;
const GROWTH_MAX: usize = 1 << 20;

/// What a record belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The package's own head and its end, and the last end of all.
    Package,
    /// A stream, alone or in a package.
    Substream,
}

/// A record of a stream.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Item {
    /// What it belongs to.
    pub part: Part,
    /// The record.
    pub record: Record,
}

/// Where in the framing the next record stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    Start,
    /// Behind a package's BEGIN.
    Prologue,
    /// Between the streams of a package.
    Between,
    /// In a stream.
    Within {
        packaged: bool,
    },
    End,
}

/// A record whose payload is still to be read.
struct Head {
    item: Item,
    payload_length: u64,
    /// Where the record after it stands.
    next: Place,
}

/// Reads a stream.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    order: ByteOrder,
    sum: RunningFletcher4,
    place: Place,
    position: u64,
    list_max: u64,
    /// Whether checksums are compared.
    checks: bool,
    /// The checksum that the last record has.
    stored: ChecksumValue,
}

impl<R: Read> Reader<R> {
    /// Reads no byte more than the stream has. Records are read one by one: wrap what is slow at that.
    pub const fn new(input: R) -> Self {
        Self {
            input,
            order: ByteOrder::NATIVE,
            sum: RunningFletcher4::new(),
            place: Place::Start,
            position: 0,
            list_max: LIST_MAX,
            checks: true,
            stored: ChecksumValue([0; 4]),
        }
    }

    /// Takes records whatever their checksums are.
    #[must_use]
    pub const fn unchecked(mut self) -> Self {
        self.checks = false;
        self
    }

    /// The checksum that the last record has.
    pub const fn stored_checksum(&self) -> [u64; 4] {
        self.stored.0
    }

    /// The checksum of all that was read since the last BEGIN, but for the checksum of the last record.
    pub fn checksum(&self) -> [u64; 4] {
        self.sum.value().0
    }

    /// Lists at heads are no longer than this.
    #[must_use]
    pub fn with_list_max(mut self, bytes: u64) -> Self {
        self.list_max = bytes.min(LIST_MAX);
        self
    }

    /// The byte order of the stream, from its first record on.
    pub const fn order(&self) -> ByteOrder {
        self.order
    }

    /// How many bytes were read.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// What the stream is read from.
    pub fn into_input(self) -> R {
        self.input
    }

    /// The next record, with its payload in place of what `payload` had; nothing after the last. Memory is taken only
    /// as bytes come.
    ///
    /// # Errors
    /// When the stream cannot be read, is cut short or is not as a sender makes it. It is then of no more use.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<Item>, StreamError> {
        payload.clear();
        let Some(head) = self.next_head()? else {
            return Ok(None);
        };
        let length = size_of_payload(head.payload_length)?;
        while payload.len() < length {
            let begin = payload.len();
            let piece = (length - begin).min(begin.clamp(GROWTH_MIN, GROWTH_MAX));
            payload.resize(begin + piece, 0);
            self.read_exact(payload.get_mut(begin..).unwrap_or_default())?;
        }
        Ok(Some(self.finish(head, payload)))
    }

    /// The next record, with its payload in what `room` gives for so many bytes, which is asked once; nothing after the
    /// last.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn next_in<P: DerefMut<Target = [u8]>>(
        &mut self,
        room: impl FnOnce(usize) -> P,
    ) -> Result<Option<(Item, P)>, StreamError> {
        let Some(head) = self.next_head()? else {
            return Ok(None);
        };
        let mut payload = room(size_of_payload(head.payload_length)?);
        self.read_exact(&mut payload)?;
        Ok(Some((self.finish(head, &payload), payload)))
    }

    /// The next record, whose payload is still to be read.
    fn next_head(&mut self) -> Result<Option<Head>, StreamError> {
        if self.place == Place::End {
            return Ok(None);
        }
        let place = std::mem::replace(&mut self.place, Place::End);
        let mut bytes = [0; RECORD_SIZE];
        self.read_exact(&mut bytes)?;
        self.position = self.position.saturating_add(RECORD_SIZE_U64);
        // BEGIN's number is zero, which is the same in both orders.
        if bytes.first_chunk() == Some(&[0_u8; 4]) {
            self.order = order_of_begin(&bytes)?;
            self.sum = RunningFletcher4::default();
        } else if place == Place::Start {
            return Err(StreamError::BadMagic);
        }
        let record = Record::decode(&bytes, self.order)?;
        let (part, next) = follow(place, &record)?;
        self.check(&bytes, &record, place == Place::Between)?;
        let payload_length = record.payload_length()?;
        if payload_length > self.list_max && matches!(record, Record::Begin(_)) {
            return Err(StreamError::BadLength("BEGIN", payload_length));
        }
        Ok(Some(Head {
            item: Item { part, record },
            payload_length,
            next,
        }))
    }

    /// A record whose payload has been read.
    fn finish(&mut self, head: Head, payload: &[u8]) -> Item {
        self.sum.feed(payload, self.order);
        self.position = self.position.saturating_add(head.payload_length);
        self.place = head.next;
        head.item
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), StreamError> {
        self.input.read_exact(bytes).map_err(|error| {
            if error.kind() == ErrorKind::UnexpectedEof {
                StreamError::Truncated
            } else {
                StreamError::Io(error)
            }
        })
    }

    /// Feeds a record, and compares the checksum that it has with that of all before.
    fn check(
        &mut self,
        bytes: &RecordBytes,
        record: &Record,
        is_last: bool,
    ) -> Result<(), StreamError> {
        let (body, trailer) = bytes.split_at(RecordAreas::AT.checksum.offset);
        let before = self.sum.value();
        self.sum.feed(body, self.order);
        let bad = StreamError::BadChecksum(self.position);
        if !matches!(record, Record::Begin(_)) {
            let stored = ChecksumValue(RecordAreas::AT.checksum.get(bytes, self.order));
            self.stored = stored;
            // All zero: the sender of long ago did not store one; nor do the ends of packages.
            if self.checks && stored != ChecksumValue::default() && stored != self.sum.value() {
                return Err(bad);
            }
        }
        if let Record::End(end) = record
            && ChecksumValue(end.checksum) != before
            && self.checks
            && !is_last
        {
            return Err(bad);
        }
        self.sum.feed(trailer, self.order);
        Ok(())
    }
}

/// A length of a payload, which [`Record::payload_length`] has found to be one.
fn size_of_payload(length: u64) -> Result<usize, StreamError> {
    usize::try_from(length).map_err(|_| StreamError::BadLength("payload", length))
}

/// What a record belongs to, and what stands behind it.
fn follow(place: Place, record: &Record) -> Result<(Part, Place), StreamError> {
    let packaged = place == Place::Between;
    match (place, record) {
        (Place::Start | Place::Between, Record::Begin(begin)) => {
            match Header::of(begin.version_info)? {
                Header::Substream => Ok((Part::Substream, Place::Within { packaged })),
                Header::Package if packaged => Err(StreamError::Misplaced("a package")),
                Header::Package => Ok((Part::Package, Place::Prologue)),
            }
        }
        (Place::Prologue, Record::End(_)) => Ok((Part::Package, Place::Between)),
        (Place::Between, Record::End(_)) => Ok((Part::Package, Place::End)),
        (Place::Within { packaged: true }, Record::End(_)) => Ok((Part::Substream, Place::Between)),
        (Place::Within { packaged: false }, Record::End(_)) => Ok((Part::Substream, Place::End)),
        (Place::Within { .. }, Record::Begin(_)) => Err(StreamError::Misplaced("BEGIN")),
        (Place::Within { .. }, _) => Ok((Part::Substream, place)),
        (Place::Start | Place::Prologue | Place::Between | Place::End, other) => {
            Err(StreamError::Misplaced(other.name()))
        }
    }
}
