//! Corrective receives: what a stream has of a snapshot that is here is written over blocks of it that cannot be read.
//!
//! No block is written whose checksum, in its pointer here, does not prove what is written; nothing else changes. What
//! leads to the blocks (dnodes, indirect blocks) is in no stream, and is not healed.

use std::sync::Arc;

use base::{Bookmark, ByteOrder, ObjectId};
use dsl::Dataset;
use format::block_pointer::Protection;
use format::object_type::SwapClass;
use format::stream::{SpillRecord, WriteEmbeddedRecord, WriteRecord};
use format::{BlockPointer, DnodePhys};
use pipeline::{Healing, Offered};
use pool::Pool;
use stream::{Record, embedded_contents, spill_offset};
use sys::BufferMut;

use super::apply::{BLOCK_MAX, decompressed};
use super::{Incoming, Piece, ReceiveError};
use crate::blocks::Blocks;

type Result<T, E = ReceiveError> = std::result::Result<T, E>;

/// What a corrective receive did.
#[derive(Clone, Debug, Default)]
pub struct Healed {
    /// Blocks that could not be read, and can now.
    pub blocks: u64,
    /// Their bytes on disk, each copy once.
    pub bytes: u64,
    /// Blocks that still cannot be read.
    pub lost_blocks: u64,
    /// The first of these: its object, its offset, and why.
    pub first_lost: Option<(ObjectId, u64, String)>,
    /// Bytes of the stream up to its end.
    pub position: u64,
}

/// Heals a snapshot from what follows a BEGIN, up to its END. The snapshot is held, and is the one of the stream.
///
/// # Errors
/// The stream is cut, damaged or not as a sender makes it. What was healed until then is healed.
pub fn heal(
    incoming: &mut Incoming,
    snapshot: &Arc<Dataset>,
    pool: &Arc<Pool>,
    is_sealed: bool,
) -> Result<Healed> {
    let mut healer = Healer {
        blocks: Blocks::of(pool, snapshot)?,
        pool,
        is_sealed,
        order: ByteOrder::NATIVE,
        current: None,
        gathered: None,
        healed: Healed::default(),
    };
    loop {
        let piece = incoming.next_piece()?;
        let piece = piece.ok_or(stream::StreamError::Truncated)?;
        healer.healed.position = piece.position;
        if matches!(piece.item.record, Record::End(_)) {
            return Ok(healer.healed);
        }
        healer.piece(piece)?;
    }
}

/// Pieces of a block that is larger than the stream's, as far as they came.
struct Gathered {
    object: ObjectId,
    block: u64,
    bytes: Vec<u8>,
}

struct Healer<'a> {
    blocks: Blocks,
    pool: &'a Arc<Pool>,
    is_sealed: bool,
    order: ByteOrder,
    /// The object that was asked for last.
    current: Option<(ObjectId, DnodePhys)>,
    gathered: Option<Gathered>,
    healed: Healed,
}

impl Healer<'_> {
    fn piece(&mut self, piece: Piece) -> Result<()> {
        self.order = piece.order;
        match &piece.item.record {
            Record::Write(record) => self.write(record, piece.payload),
            Record::WriteEmbedded(record) => self.write_embedded(record, &piece.payload),
            Record::Spill(record) => self.spill(record, &piece.payload),
            Record::Begin(_) => Err(ReceiveError::Invalid("BEGIN within a stream")),
            Record::WriteByReference(_) => Err(ReceiveError::Invalid("a block by reference")),
            Record::Object(_)
            | Record::FreeObjects(_)
            | Record::Free(_)
            | Record::End(_)
            | Record::ObjectRange(_)
            | Record::Redact(_) => Ok(()),
        }
    }

    /// The dnode of an object; nothing if it cannot be read, which counts as a block that is lost.
    fn dnode(&mut self, object: ObjectId, offset: u64) -> Result<Option<DnodePhys>> {
        if let Some((last, dnode)) = &self.current
            && *last == object
        {
            return Ok(Some(dnode.clone()));
        }
        match self.blocks.dnode(object) {
            Ok(Some(dnode)) => {
                self.current = Some((object, dnode.clone()));
                Ok(Some(dnode))
            }
            Ok(None) => Err(ReceiveError::Invalid("it is about no object")),
            Err(error) => {
                self.lost(object, offset, error.to_string());
                Ok(None)
            }
        }
    }

    fn lost(&mut self, object: ObjectId, offset: u64, why: String) {
        self.healed.lost_blocks += 1;
        self.healed.first_lost.get_or_insert((object, offset, why));
    }

    fn write(&mut self, record: &WriteRecord, payload: BufferMut) -> Result<()> {
        let size = record.logical_size;
        if !(512..=BLOCK_MAX).contains(&size) || record.offset.checked_add(size).is_none() {
            return Err(ReceiveError::Invalid("a block of no valid size"));
        }
        let (object, offset) = (record.object, record.offset);
        let Some(dnode) = self.dnode(object, offset)? else {
            return Ok(());
        };
        let own_size = u64::from(dnode.data_block_size());
        let is_block = size == own_size && offset.is_multiple_of(own_size);
        if self.is_sealed && !is_block {
            let why = "the stream has blocks of another size".to_owned();
            self.lost(object, offset, why);
            return Ok(());
        }
        if is_block && record.compression != 0 {
            // As it is stored there it is stored here, unless it was written with other properties.
            let block = Bookmark::new(self.blocks.set(), object, 0, offset / own_size);
            let place = (block, offset);
            let Some(pointer) = self.pointer(&dnode, place) else {
                return Ok(());
            };
            let mark = (record.salt, record.iv, record.mac);
            if self.is_stored_so(&pointer, record.compression, mark)
                && self.offer(&pointer, place, Offered::Stored(&payload), self.is_sealed)
            {
                return Ok(());
            }
            if self.is_sealed {
                self.unlike(&pointer, place);
                return Ok(());
            }
        }
        let data = decompressed(record.compression, payload, size)?;
        self.contents(&dnode, object, offset, &data);
        Ok(())
    }

    fn write_embedded(&mut self, record: &WriteEmbeddedRecord, payload: &[u8]) -> Result<()> {
        let data = embedded_contents(record, payload)?;
        let (object, offset) = (record.object, record.offset);
        let Some(dnode) = self.dnode(object, offset)? else {
            return Ok(());
        };
        if offset == spill_offset(record.length) {
            self.spill_contents(&dnode, object, Offered::Content(&data));
        } else {
            self.contents(&dnode, object, offset, &data);
        }
        Ok(())
    }

    fn spill(&mut self, record: &SpillRecord, payload: &[u8]) -> Result<()> {
        let object = record.object;
        let Some(dnode) = self.dnode(object, 0)? else {
            return Ok(());
        };
        if !self.is_sealed {
            self.spill_contents(&dnode, object, Offered::Content(payload));
            return Ok(());
        }
        let mark = (record.salt, record.iv, record.mac);
        if let Some(pointer) = dnode.spill {
            let place = (Bookmark::spill(self.blocks.set(), object), 0);
            if self.is_stored_so(&pointer, record.compression, mark) {
                self.offer(&pointer, place, Offered::Stored(payload), true);
            } else {
                self.unlike(&pointer, place);
            }
        }
        Ok(())
    }

    fn spill_contents(&mut self, dnode: &DnodePhys, object: ObjectId, offered: Offered<'_>) {
        if let (Some(pointer), Offered::Content(data)) = (dnode.spill, offered) {
            let place = (Bookmark::spill(self.blocks.set(), object), 0);
            self.content(&pointer, place, data);
        }
    }

    /// Contents that the stream has of an object: of one block, of several, or of a part of one.
    fn contents(&mut self, dnode: &DnodePhys, object: ObjectId, offset: u64, data: &[u8]) {
        let size = dnode.data_block_size() as usize;
        let mut offset = offset;
        let mut rest = data;
        while !rest.is_empty() && size != 0 {
            let within = usize::try_from(offset % size as u64).unwrap_or(0);
            let block = offset / size as u64;
            let (piece, behind) = rest.split_at(rest.len().min(size - within));
            rest = behind;
            let at = offset - within as u64;
            offset = offset.saturating_add(piece.len() as u64);
            if piece.len() == size {
                self.whole(dnode, (object, block, at), piece);
            } else if let Some(bytes) = self.gather((object, block), (within, size), piece) {
                self.whole(dnode, (object, block, at), &bytes);
            }
        }
    }

    /// The bytes of a block, once its last piece has come. Pieces of a block come one after the other.
    fn gather(
        &mut self,
        (object, block): (ObjectId, u64),
        (within, size): (usize, usize),
        piece: &[u8],
    ) -> Option<Vec<u8>> {
        if within == 0 {
            let bytes = piece.to_vec();
            self.gathered = Some(Gathered {
                object,
                block,
                bytes,
            });
            return None;
        }
        let mut gathered = self.gathered.take()?;
        if (gathered.object, gathered.block, gathered.bytes.len()) != (object, block, within) {
            return None;
        }
        gathered.bytes.extend_from_slice(piece);
        if gathered.bytes.len() == size {
            return Some(gathered.bytes);
        }
        self.gathered = Some(gathered);
        None
    }

    fn whole(
        &mut self,
        dnode: &DnodePhys,
        (object, block, offset): (ObjectId, u64, u64),
        data: &[u8],
    ) {
        let place = (Bookmark::new(self.blocks.set(), object, 0, block), offset);
        if let Some(pointer) = self.pointer(dnode, place) {
            self.content(&pointer, place, data);
        }
    }

    /// The pointer of a block; nothing if it cannot be read, which counts as a block that is lost.
    fn pointer(&mut self, dnode: &DnodePhys, place: (Bookmark, u64)) -> Option<BlockPointer> {
        let (Bookmark { object, block, .. }, offset) = place;
        match self.blocks.pointer(object, dnode, block) {
            Ok(pointer) => Some(pointer),
            Err(error) => {
                self.lost(object, offset, error.to_string());
                None
            }
        }
    }

    /// Whether a block is stored in the form that a record has it in.
    fn is_stored_so(
        &self,
        pointer: &BlockPointer,
        compression: u8,
        (salt, iv, mac): ([u8; 8], [u8; 12], [u8; 16]),
    ) -> bool {
        if pointer.compression_id() != compression {
            return false;
        }
        if !self.is_sealed {
            return !pointer.is_encrypted();
        }
        let is_marked = pointer.protection() != Protection::Encrypted
            || (pointer.salt(), pointer.iv()) == (salt, iv);
        pointer.is_encrypted() && is_marked && pointer.mac() == mac
    }

    /// What a block holds, as the stream has it.
    fn content(&mut self, pointer: &BlockPointer, place: (Bookmark, u64), data: &[u8]) {
        let kind = pointer.object_type();
        let is_of_bytes = kind.swap_class() == Some(SwapClass::Bytes);
        if pointer.byte_order() == self.order || is_of_bytes {
            self.offer(pointer, place, Offered::Content(data), true);
        } else if pointer.byte_order() == ByteOrder::NATIVE {
            let mut data = data.to_vec();
            format::swap::block(kind, 0, &mut data);
            self.offer(pointer, place, Offered::Content(&data), true);
        } else {
            self.unlike(pointer, place);
        }
    }

    /// The stream has a block in a form that leads to no bytes of its here: it is lost if it cannot be read.
    fn unlike(&mut self, pointer: &BlockPointer, place: (Bookmark, u64)) {
        self.offer(pointer, place, Offered::Content(&[]), true);
    }

    /// Offers bytes for a block; false if they are others. With `is_last` that is noted, as all else is.
    fn offer(
        &mut self,
        pointer: &BlockPointer,
        (place, offset): (Bookmark, u64),
        offered: Offered<'_>,
        is_last: bool,
    ) -> bool {
        if pointer.is_redacted() {
            return true;
        }
        match self.pool.pipeline().heal(pointer, place, offered) {
            Ok(Healing::Sound) => {}
            Ok(Healing::Healed) => {
                self.healed.blocks += 1;
                self.healed.bytes += pointer.psize();
                self.pool.note_healed(place, pointer.birth());
            }
            Ok(Healing::OtherBytes) if !is_last => return false,
            Ok(Healing::OtherBytes) => {
                let why = "what the stream has of it does not give its checksum".to_owned();
                self.lost(place.object, offset, why);
            }
            Ok(Healing::Refused) => {
                let why = "the devices did not take it".to_owned();
                self.lost(place.object, offset, why);
            }
            Err(error) => self.lost(place.object, offset, error.to_string()),
        }
        true
    }
}
