//! Files that have streams: which streams, and how far they can be read.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use base::{ByteOrder, Guid};
use format::ObjectSetKind;
use format::stream::{BeginRecord, FLAG_SPILL_BLOCK, RECORD_SIZE};
use stream::{Features, Part, Reader, Record, StreamError, begin_name};

use super::extents::Spot;
use crate::error::{InspectError, Result};

/// Takes a record of a stream with its spot, its payload and its byte order.
type RecordVisitor<'a> = dyn FnMut(&Record, Spot, Vec<u8>, ByteOrder) -> Result<()> + 'a;

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Records of a file, and streams of all files, that are looked at.
const STREAMS_MAX: usize = 1 << 16;

/// A stream within a file.
#[derive(Clone, Debug)]
pub(super) struct Stream {
    /// Where its BEGIN is.
    pub(super) begin: Spot,
    /// The dataset and the snapshot, as they were called.
    pub(super) dataset: String,
    pub(super) snapshot: String,
    pub(super) to: Guid,
    /// What it starts from; 0: nothing.
    pub(super) from: Guid,
    pub(super) kind: ObjectSetKind,
    pub(super) features: Features,
    /// Its objects say whether they have a spill block.
    pub(super) says_spill: bool,
    /// Its END is there.
    pub(super) is_whole: bool,
    pub(super) records: u64,
    /// The byte behind the last record that is as it was sent.
    pub(super) end: u64,
}

impl Stream {
    fn of(begin: &BeginRecord, spot: Spot, end: u64) -> Self {
        let name = String::from_utf8_lossy(begin_name(begin)).into_owned();
        let (dataset, snapshot) = name.split_once('@').unwrap_or((&name, ""));
        let kind = ObjectSetKind::from_number(begin.object_set_kind.into());
        Self {
            begin: spot,
            dataset: dataset.to_owned(),
            snapshot: snapshot.to_owned(),
            to: begin.to_guid,
            from: begin.from_guid,
            kind: kind.unwrap_or(ObjectSetKind::None),
            features: Features::of(begin.version_info),
            says_spill: begin.flags & FLAG_SPILL_BLOCK != 0,
            is_whole: false,
            records: 1,
            end,
        }
    }

    /// Its snapshot.
    pub(super) fn name(&self) -> String {
        format!("{}@{}", self.dataset, self.snapshot)
    }
}

/// Where a file is not as it was sent.
#[derive(Debug)]
pub(super) struct Damage {
    /// The number of the record, from 0 on, that is, or before which is, what is wrong.
    pub(super) record: u64,
    /// Everything up to here is right.
    pub(super) from: u64,
    /// What is wrong lies before this byte.
    pub(super) until: u64,
    pub(super) error: StreamError,
}

/// A file that has a stream or a package.
#[derive(Debug)]
pub(super) struct StreamFile {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) streams: Vec<Stream>,
    pub(super) records: u64,
    pub(super) bytes: u64,
    pub(super) damage: Option<Damage>,
}

impl StreamFile {
    /// Reads all of a file and compares each checksum. What is damaged is no error: what comes before it counts.
    pub(super) fn open(path: &Path, number: u32) -> Result<Self> {
        let failed = |source| InspectError::File {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        let input = file.try_clone().map_err(failed)?;
        let mut found = Self {
            path: path.to_owned(),
            file,
            streams: Vec::new(),
            records: 0,
            bytes: 0,
            damage: None,
        };
        let mut reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, input));
        let (mut payload, mut last) = (Vec::new(), 0);
        loop {
            let before = reader.position();
            match reader.next(&mut payload) {
                Ok(None) => break,
                Ok(Some(item)) => {
                    let spot = Spot {
                        file: number,
                        at: before,
                    };
                    found.note(item.part, &item.record, spot, reader.position());
                    last = before;
                }
                Err(StreamError::Io(error)) => return Err(failed(error)),
                Err(error) => {
                    let from = found.drop_unproven(&error, last);
                    found.damage = Some(Damage {
                        record: found.records,
                        from,
                        until: reader.position(),
                        error,
                    });
                    break;
                }
            }
        }
        Ok(found)
    }

    /// A checksum covers what is before it, so a wrong one takes the payload of the record before along, which began at
    /// `last`. The byte up to which all is right.
    fn drop_unproven(&mut self, error: &StreamError, last: u64) -> u64 {
        if !matches!(error, StreamError::BadChecksum(_)) || self.records == 0 {
            return self.bytes;
        }
        let end = std::mem::replace(&mut self.bytes, last);
        self.records -= 1;
        if let Some(stream) = self.streams.pop_if(|stream| stream.end == end)
            && stream.begin.at < last
        {
            self.streams.push(Stream {
                records: stream.records - 1,
                end: last,
                ..stream
            });
        }
        last.saturating_add(RECORD_SIZE as u64).min(end)
    }

    fn note(&mut self, part: Part, record: &Record, spot: Spot, position: u64) {
        self.records += 1;
        self.bytes = position;
        match (part, record) {
            (Part::Substream, Record::Begin(begin)) if self.streams.len() < STREAMS_MAX => {
                self.streams.push(Stream::of(begin, spot, position));
            }
            (Part::Substream, record) => {
                if let Some(last) = self.streams.last_mut() {
                    last.records += 1;
                    last.end = position;
                    last.is_whole |= matches!(record, Record::End(_));
                }
            }
            (Part::Package, _) => {}
        }
    }

    /// Goes through the records of a stream once more, as far as it is right: each with its spot and its payload.
    pub(super) fn each_record(&self, stream: &Stream, visit: &mut RecordVisitor<'_>) -> Result<()> {
        let failed = |source| InspectError::File {
            path: self.path.clone(),
            source,
        };
        let mut input = self.file.try_clone().map_err(failed)?;
        let start = stream.begin.at;
        input.seek(SeekFrom::Start(start)).map_err(failed)?;
        let length = stream.end.saturating_sub(start);
        let mut reader = Reader::new(BufReader::with_capacity(BUFFER_BYTES, input.take(length)));
        let mut payload = Vec::new();
        let mut at = start;
        while at < stream.end {
            let item = reader.next(&mut payload);
            let item = item.map_err(|source| InspectError::Stream {
                path: self.path.clone(),
                source,
            })?;
            let Some(item) = item else {
                break;
            };
            let spot = Spot { at, ..stream.begin };
            visit(
                &item.record,
                spot,
                std::mem::take(&mut payload),
                reader.order(),
            )?;
            at = start + reader.position();
        }
        Ok(())
    }

    /// A record that was looked at before, with its payload.
    pub(super) fn record(
        &self,
        at: u64,
        order: ByteOrder,
    ) -> std::result::Result<(Record, Vec<u8>), StreamError> {
        let mut head = [0; RECORD_SIZE];
        self.file.read_exact_at(&mut head, at)?;
        let record = Record::decode(&head, order)?;
        let length = usize::try_from(record.payload_length()?).unwrap_or(usize::MAX);
        let mut payload = vec![0; length.min(PAYLOAD_BYTES_MAX)];
        self.file
            .read_exact_at(&mut payload, at + RECORD_SIZE as u64)?;
        Ok((record, payload))
    }
}

/// No payload of a record but a BEGIN's is longer.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;
