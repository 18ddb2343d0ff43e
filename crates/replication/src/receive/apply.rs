//! Writing the records of one stream into an object set.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use codec::Compression;
use dmu::{DmuError, Object, ObjectSet, Reservation, Tx, tunables};
use dsl::{Dataset, HeadAdmission, ResumePoint};
use format::ObjectType;
use format::stream::{
    FreeObjectsRecord, FreeRecord, RedactRecord, SPILL_UNMODIFIED, SpillRecord,
    WriteEmbeddedRecord, WriteRecord,
};
use stream::{Record, embedded_contents, spill_offset};
use sys::BufferMut;
use txg::Engine;

use super::{Incoming, Piece, ReceiveError};

/// The largest block there is.
pub(super) const BLOCK_MAX: u64 = 16 << 20;
/// Blocks that are left out by one record, at most, and with one transaction.
const REDACTED_BLOCKS_MAX: u64 = 1 << 31;
const REDACTED_PIECE: u64 = 1024;
/// As many, and what there is must be on disk before more are: their records in memory are few bytes, but the sync that
/// writes them is to end soon.
const REDACTED_UNSYNCED_MAX: u64 = 1 << 16;
/// What each of them takes in the block above it.
const POINTER_BYTES: u64 = 128;
/// Transactions between two looks whether the stream is still wanted, which is a system call.
const WANTED_STRIDE: u64 = 16;

/// What a stream says of itself that the writing of it depends on.
#[derive(Clone, Copy, Debug)]
pub struct Substream {
    /// It begins at nothing.
    pub is_full: bool,
    /// It is written over what a clone shows: what it does not have goes.
    pub is_full_over_clone: bool,
    /// Its objects say whether they have a spill block.
    pub says_spill: bool,
    /// How far it has come is to be kept.
    pub is_resumable: bool,
    /// Its blocks are as they are encrypted.
    pub is_sealed: bool,
    /// It leaves blocks out.
    pub is_redacted: bool,
}

/// What was received.
#[derive(Clone, Copy, Debug, Default)]
pub struct Applied {
    /// Bytes of the stream up to its end.
    pub position: u64,
}

/// Whether a stream is still to be received, or why it is not.
pub type Wanted<'a> = &'a dyn Fn() -> io::Result<()>;

/// Writes what follows a BEGIN, up to its END. A record may take many transactions: it is asked within records, too,
/// whether the stream is still wanted.
///
/// # Errors
/// The stream is cut, damaged or not as a sender makes it; what it says cannot be written; or it is not wanted any
/// more. What was written until then is there.
pub fn apply(
    incoming: &mut Incoming,
    receiving: &Arc<Dataset>,
    engine: &Arc<Engine>,
    substream: Substream,
    wanted: Wanted<'_>,
) -> Result<Applied, ReceiveError> {
    let mut applier = Applier {
        set: if substream.is_sealed {
            receiving.sealed_object_set()?
        } else {
            receiving.object_set()?
        },
        admission: receiving.admission(),
        receiving,
        engine,
        substream,
        order: ByteOrder::NATIVE,
        position: 0,
        current: None,
        last: (ObjectId(0), 0),
        highest: ObjectId(0),
        max_block: 0,
        free_until: (0, 0),
        wanted,
        begun: Cell::new(0),
        redacted: 0,
    };
    loop {
        let piece = incoming.next_piece()?;
        let piece = piece.ok_or(stream::StreamError::Truncated)?;
        if let Some(applied) = applier.piece(piece)? {
            return Ok(applied);
        }
    }
}

/// What writes a stream.
pub(super) struct Applier<'a> {
    pub(super) set: Arc<ObjectSet>,
    admission: Arc<HeadAdmission>,
    pub(super) receiving: &'a Arc<Dataset>,
    engine: &'a Arc<Engine>,
    pub(super) substream: Substream,
    pub(super) order: ByteOrder,
    /// Bytes of the stream so far.
    position: u64,
    /// The object that was written last.
    current: Option<Arc<Object>>,
    /// Where the last block was written.
    last: (ObjectId, u64),
    /// The highest object that the stream has.
    pub(super) highest: ObjectId,
    /// The last block of the object that was written last, as a raw stream says.
    pub(super) max_block: u64,
    /// From the first number up to the second there is no object.
    free_until: (u64, u64),
    wanted: Wanted<'a>,
    /// Transactions so far.
    begun: Cell<u64>,
    /// Blocks that were left out since the last wait for a sync.
    redacted: u64,
}

type Result<T, E = ReceiveError> = std::result::Result<T, E>;

impl Applier<'_> {
    fn piece(&mut self, piece: Piece) -> Result<Option<Applied>> {
        self.order = piece.order;
        self.position = piece.position;
        let payload = piece.payload;
        match &piece.item.record {
            Record::Object(record) => {
                self.current = None;
                if self.substream.is_sealed {
                    self.sealed_object(record, &payload)?;
                } else {
                    self.object(record, &payload)?;
                }
            }
            Record::FreeObjects(record) => self.free_objects(record)?,
            Record::Write(record) => self.write(record, payload)?,
            Record::WriteEmbedded(record) => self.write_embedded(record, &payload)?,
            Record::Free(record) => self.free_range(record)?,
            Record::Spill(record) => self.spill(record, payload)?,
            Record::End(_) => {
                if self.substream.is_full_over_clone {
                    self.free_from(self.highest.0 + 1, u64::MAX)?;
                }
                return Ok(Some(Applied {
                    position: self.position,
                }));
            }
            Record::Begin(_) => return Err(ReceiveError::Invalid("BEGIN within a stream")),
            Record::WriteByReference(_) => {
                return Err(ReceiveError::Invalid("a block by reference"));
            }
            Record::ObjectRange(record) => self.object_range(record)?,
            Record::Redact(record) => self.redact(record)?,
        }
        Ok(None)
    }

    /// A transaction, and how far the receive has come with it.
    pub(super) fn begin(&self, reservation: Reservation<'_>) -> Result<Tx> {
        let begun = self.begun.replace(self.begun.get().wrapping_add(1));
        if begun.is_multiple_of(WANTED_STRIDE) {
            (self.wanted)().map_err(stream::StreamError::Io)?;
        }
        Ok(Tx::assign(
            self.engine,
            &Reservation {
                admission: Some(&*self.admission),
                ..reservation
            },
        )?)
    }

    /// Waits until what was freed is so on disk, and its numbers can be used again.
    pub(super) fn wait_synced(&self) -> Result<()> {
        Ok(self.engine.wait_synced(None)?)
    }

    pub(super) fn note(&self, tx: &Tx, object: ObjectId, offset: u64) {
        if self.substream.is_resumable {
            let point = ResumePoint {
                object: object.0,
                offset,
                bytes: self.position,
            };
            self.receiving.note_received(tx, point);
        }
    }

    /// The object that a record is about.
    fn known(&mut self, id: ObjectId) -> Result<Arc<Object>> {
        if let Some(current) = &self.current
            && current.id() == id
        {
            return Ok(Arc::clone(current));
        }
        let found = match self.set.object(id) {
            Err(DmuError::NoSuchObject { .. }) => {
                return Err(ReceiveError::Invalid("it is about no object"));
            }
            found => found?,
        };
        self.current = Some(Arc::clone(&found));
        Ok(found)
    }

    fn write(&mut self, record: &WriteRecord, payload: BufferMut) -> Result<()> {
        let object = self.known(record.object)?;
        let size = record.logical_size;
        if !(512..=BLOCK_MAX).contains(&size) || record.offset.checked_add(size).is_none() {
            return Err(ReceiveError::Invalid("a block of no valid size"));
        }
        if self.substream.is_sealed {
            return self.write_sealed(&object, record, payload);
        }
        let mut data = decompressed(record.compression, payload, size)?;
        self.swap(object_type(record.kind)?, &mut data);
        self.write_data(&object, record.offset, data)
    }

    fn write_embedded(&mut self, record: &WriteEmbeddedRecord, payload: &[u8]) -> Result<()> {
        if self.substream.is_sealed {
            return Err(ReceiveError::Invalid("an embedded block in a raw stream"));
        }
        let object = self.known(record.object)?;
        let mut data = embedded_contents(record, payload)?;
        if record.offset == spill_offset(record.length) {
            self.swap(object.info().bonus_type, &mut data);
            return self.set_spill(&object, &data);
        }
        self.swap(object.info().object_type, &mut data);
        self.write_data(&object, record.offset, BufferMut::from_slice(&data))
    }

    fn write_data(&mut self, object: &Arc<Object>, offset: u64, data: BufferMut) -> Result<()> {
        self.comes_next(object.id(), offset)?;
        let block_bytes = object.block_size();
        let size = u64::from(block_bytes);
        let is_block = offset.is_multiple_of(size) && data.len() as u64 == size;
        if !is_block {
            object.prepare_write(offset, data.len() as u64)?;
        }
        let tx = self.begin(Reservation {
            write_bytes: data.len() as u64,
            block_bytes,
            objects: 1,
            ..Reservation::default()
        })?;
        if is_block {
            object.write_block(&tx, offset / size, data.freeze())?;
        } else {
            object.write(&tx, offset, &data)?;
        }
        self.note(&tx, object.id(), offset);
        Ok(())
    }

    /// Refuses a block that is not behind the one before.
    pub(super) fn comes_next(&mut self, object: ObjectId, offset: u64) -> Result<()> {
        let at = (object, offset);
        let begins = self.last == (ObjectId(0), 0);
        if at < self.last || (at == self.last && !begins) {
            return Err(ReceiveError::Invalid("a block out of order"));
        }
        self.last = at;
        Ok(())
    }

    fn spill(&mut self, record: &SpillRecord, mut payload: BufferMut) -> Result<()> {
        if record.flags & SPILL_UNMODIFIED != 0 && self.substream.says_spill {
            return Ok(());
        }
        if !(512..=BLOCK_MAX).contains(&record.length) {
            return Err(ReceiveError::Invalid("a spill block of no valid size"));
        }
        let object = self.known(record.object)?;
        if self.substream.is_sealed {
            return self.set_sealed_spill(&object, record, payload);
        }
        if record.compressed_size != 0 {
            return Err(ReceiveError::Invalid("a compressed spill block"));
        }
        self.swap(object.info().bonus_type, &mut payload);
        self.set_spill(&object, &payload)
    }

    fn set_spill(&self, object: &Arc<Object>, data: &[u8]) -> Result<()> {
        let tx = self.begin(Reservation {
            write_bytes: data.len() as u64,
            objects: 1,
            ..Reservation::default()
        })?;
        Ok(object.set_spill(&tx, Some(data))?)
    }

    fn free_range(&mut self, record: &FreeRecord) -> Result<()> {
        let object = self.known(record.object)?;
        let end = match record.length {
            u64::MAX => u64::MAX,
            length => record
                .offset
                .checked_add(length)
                .ok_or(ReceiveError::Invalid("a range of no valid length"))?,
        };
        self.cut(&object, record.offset, end)?;
        if self.substream.is_sealed {
            self.keep_length(&object)?;
        }
        Ok(())
    }

    /// Blocks that were left out.
    fn redact(&mut self, record: &RedactRecord) -> Result<()> {
        let substream = &self.substream;
        if !substream.is_redacted || substream.is_sealed {
            return Err(ReceiveError::Invalid("a redacted range"));
        }
        let object = self.known(record.object)?;
        let size = u64::from(object.block_size());
        let count = record.length / size;
        let is_valid = record.offset.is_multiple_of(size)
            && record.length.is_multiple_of(size)
            && count <= REDACTED_BLOCKS_MAX
            && record.offset.checked_add(record.length).is_some();
        if !is_valid {
            return Err(ReceiveError::Invalid("a redacted range of no blocks"));
        }
        let mut first = record.offset / size;
        let end = first + count;
        while first < end {
            let piece = (end - first).min(REDACTED_PIECE);
            let tx = self.begin(Reservation {
                write_bytes: piece * POINTER_BYTES,
                block_bytes: object.block_size(),
                objects: 1,
                ..Reservation::default()
            })?;
            object.redact(&tx, first, piece)?;
            drop(tx);
            first += piece;
            self.redacted += piece;
            if self.redacted >= REDACTED_UNSYNCED_MAX {
                self.wait_synced()?;
                self.redacted = 0;
            }
        }
        Ok(())
    }

    /// Frees what an object has from `offset` up to `end`, from its end on, in as many transactions as it takes.
    pub(super) fn cut(&self, object: &Arc<Object>, offset: u64, end: u64) -> Result<()> {
        let limit = tunables::FREE_BLOCKS_PIECE.get();
        let mut end = end;
        loop {
            let piece = object.last_free_piece(offset, end, limit);
            if piece.cost_blocks == 0 {
                return Ok(());
            }
            let length = match end {
                u64::MAX => u64::MAX,
                end => end.saturating_sub(piece.offset),
            };
            object.prepare_free(piece.offset, length)?;
            let tx = self.begin(Reservation {
                objects: 1,
                freed_blocks: piece.cost_blocks,
                net_free: true,
                ..Reservation::default()
            })?;
            object.free_range(&tx, piece.offset, length)?;
            if piece.offset == offset {
                return Ok(());
            }
            end = piece.offset;
        }
    }

    fn free_objects(&mut self, record: &FreeObjectsRecord) -> Result<()> {
        let first = record.first.0;
        let end = first
            .checked_add(record.count)
            .ok_or(ReceiveError::Invalid("a range of no valid length"))?;
        self.current = None;
        self.free_from(first.max(1), end)
    }

    /// Frees the objects from `first` on that are before `end`.
    fn free_from(&mut self, first: u64, end: u64) -> Result<()> {
        let (from, until) = self.free_until;
        if first >= from && end <= until {
            return Ok(());
        }
        let mut after = ObjectId(first.saturating_sub(1));
        loop {
            let next = self.set.next_object(after)?;
            let Some(id) = next.filter(|id| id.0 < end) else {
                let until = next.map_or(u64::MAX, |id| id.0);
                self.free_until = (first, until);
                return Ok(());
            };
            self.free_one(id)?;
            after = id;
        }
    }

    /// Frees an object with all its blocks.
    pub(super) fn free_one(&self, id: ObjectId) -> Result<()> {
        let object = self.set.object(id)?;
        // What one transaction cannot free goes before.
        if object
            .last_free_piece(0, u64::MAX, tunables::FREE_BLOCKS_PIECE.get())
            .offset
            != 0
        {
            self.cut(&object, 0, u64::MAX)?;
        }
        let tx = self.begin(Reservation {
            objects: 1,
            freed_blocks: object.free_cost_blocks(),
            net_free: true,
            ..Reservation::default()
        })?;
        Ok(self.set.free(&tx, id)?)
    }

    /// Brings what the other byte order wrote to this one's.
    pub(super) fn swap(&self, kind: ObjectType, data: &mut [u8]) {
        if self.order != ByteOrder::NATIVE {
            format::swap::block(kind, 0, data);
        }
    }

    /// There may be an object with that number from now on.
    pub(super) fn note_object(&mut self, id: ObjectId) {
        let (from, until) = self.free_until;
        if (from..until).contains(&id.0) {
            self.free_until = (id.0 + 1, until);
        }
    }
}

/// The type that a record names.
pub(super) fn object_type(number: u32) -> Result<ObjectType> {
    u8::try_from(number)
        .ok()
        .map(ObjectType)
        .filter(|kind| kind.is_valid())
        .ok_or(ReceiveError::Invalid("no such type of objects"))
}

/// The bytes of a block that may be compressed.
pub(super) fn decompressed(number: u8, payload: BufferMut, size: u64) -> Result<BufferMut> {
    let invalid = ReceiveError::Invalid;
    let size = usize::try_from(size).map_err(|_| invalid("a block of no valid size"))?;
    if number == 0 {
        return (payload.len() == size)
            .then_some(payload)
            .ok_or(invalid("a block of no valid size"));
    }
    let kind = Compression::from_id(number).map_err(|_| invalid("no such compression"))?;
    let mut data = BufferMut::zeroed(size);
    codec::decompress(kind, &payload, &mut data)
        .map_err(|_| invalid("a block that cannot be decompressed"))?;
    Ok(data)
}
