//! The walk over an object set: what was born after a txg, objects ascending, in each the offsets ascending.
//!
//! A tree that is not younger than the txg is not entered. In a block of dnodes that is younger all objects are told,
//! also those that did not change, and which are not there.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use base::{Bookmark, Guid, ObjectId, ObjectSetId, Txg};
use dsl::Dataset;
use format::block_pointer::{EMBEDDED_PAYLOAD_MAX, EmbeddedKind};
use format::dnode::{SLOT_SIZE, SLOTS_PER_BLOCK, Slot, slots};
use format::stream::{
    BlockKey, FreeObjectsRecord, FreeRecord, OBJECT_HAS_SPILL, ObjectRecord, RedactRecord,
    SPILL_UNMODIFIED, SpillRecord, WRITE_DEDUP_CHECKSUM, WriteEmbeddedRecord, WriteRecord,
};
use format::{BlockPointer, DnodePhys, ObjectType};
use pipeline::ReadRequest;
use pool::Pool;
use stream::{Features, Record};
use sys::Buffer;

use super::begin::{Form, SMALL_BLOCK_MAX};
use super::window::{Contents, Window};
use super::{SendError, raw};
use crate::redaction::Cursor;

/// The slots of a block of dnodes, to count with.
const PER_BLOCK: u64 = SLOTS_PER_BLOCK as u64;
/// To the end of the object.
const TO_THE_END: u64 = u64::MAX;
/// The number of the checksum of blocks that have none to tell of.
const CHECKSUM_OFF: u8 = 2;
/// Compressions that every receiver of embedded blocks knows, up to this number.
const OLD_COMPRESSIONS: u8 = 14;
/// A spill block that lies in its pointer is sent as this block of data.
const SPILL_BLOCK: u64 = u64::MAX - 1;
const LZ4: u8 = 15;
const ZSTD: u8 = 16;

/// A walk.
pub(super) struct Walk<'a> {
    pub(super) pool: &'a Arc<Pool>,
    pub(super) set: ObjectSetId,
    pub(super) to_guid: Guid,
    /// What was born up to here is at the receiver's.
    pub(super) from: Txg,
    pub(super) form: Form,
    /// Where an earlier stream was cut off.
    pub(super) resume: Option<(ObjectId, u64)>,
    /// The block behind which nothing is told.
    pub(super) until: Option<(ObjectId, u64)>,
    /// The blocks that are left out.
    pub(super) left_out: RefCell<Option<Cursor>>,
    /// The blocks that were left out of the stream before, and are sent though they did not change since.
    pub(super) sent_again: RefCell<Option<Cursor>>,
}

/// A tree of blocks, as a dnode has it.
#[derive(Clone, Copy)]
struct Tree<'a> {
    object: ObjectId,
    dnode: &'a DnodePhys,
}

impl Tree<'_> {
    /// Log2 of the data blocks below a pointer to a block of that level.
    fn span_shift(&self, level: u8) -> u32 {
        u32::from(level) * self.dnode.entries_shift()
    }

    /// The first data block below, and how many there are.
    fn span(&self, level: u8, index: u64) -> (u64, u64) {
        let shift = self.span_shift(level);
        let shifted = |value: u64| {
            value
                .checked_shl(shift)
                .filter(|found| found >> shift == value)
        };
        (
            shifted(index).unwrap_or(u64::MAX),
            shifted(1).unwrap_or(u64::MAX),
        )
    }

    /// The level of the pointers in the dnode.
    fn top(&self) -> u8 {
        self.dnode.levels.saturating_sub(1)
    }

    /// The pointers in the dnode.
    fn pointers(&self) -> impl Iterator<Item = (u64, &BlockPointer)> {
        let count = usize::from(self.dnode.pointer_count);
        (0..).zip(self.dnode.pointers.iter().take(count))
    }
}

impl Walk<'_> {
    /// Walks all that is to be sent.
    pub(super) fn run<W: Write>(
        &self,
        dataset: &Dataset,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let root = dataset.phys()?.block_pointer;
        let is_old = root.birth() <= self.from && self.sent_again.borrow().is_none();
        if root.is_hole() || is_old {
            return Ok(());
        }
        let Some(root) = dataset.root()? else {
            return Ok(());
        };
        let tree = Tree {
            object: ObjectId(0),
            dnode: &root.meta_dnode,
        };
        for (index, pointer) in tree.pointers() {
            self.dnodes(tree, pointer, tree.top(), index, window)?;
        }
        Ok(())
    }

    /// Whether the receiver lacks what a pointer says. Holes did not always have a birth.
    fn is_news(&self, pointer: &BlockPointer) -> bool {
        // What was written anew has the content that it had; but where that is sent as ciphertext, codes are part of
        // it, and dnodes prove the new ones.
        let birth = match self.form.raw && pointer.is_encrypted() {
            true => pointer.space_birth(),
            false => pointer.birth(),
        };
        birth > self.from || (pointer.is_hole() && birth == Txg(0))
    }

    fn read(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        level: u8,
        index: u64,
    ) -> Result<Buffer, SendError> {
        let place = Bookmark::new(self.set, tree.object, level, index);
        Ok(self
            .pool
            .pipeline()
            .read(pointer, &ReadRequest::new(place))?)
    }

    /// A block of dnodes as it is stored.
    fn read_stored(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        index: u64,
    ) -> Result<Buffer, SendError> {
        let place = Bookmark::new(self.set, tree.object, 0, index);
        let request = ReadRequest::new(place);
        Ok(self.pool.pipeline().read_stored(pointer, &request)?)
    }

    /// The pointers in an indirect block.
    fn children<'b>(
        tree: Tree<'_>,
        data: &'b [u8],
        index: u64,
    ) -> impl Iterator<Item = (u64, BlockPointer)> + use<'b> {
        let first = index << tree.dnode.entries_shift();
        (first..).zip(dmu::raw::entries(data))
    }

    /// A part of the array of dnodes.
    fn dnodes<W: Write>(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        level: u8,
        index: u64,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let (first, count) = tree.span(level, index);
        let last = first.saturating_add(count.saturating_sub(1));
        let resumes_behind = |(object, _): (ObjectId, u64)| object.0 / PER_BLOCK > last;
        let ends_before = |(object, _): (ObjectId, u64)| object.0 / PER_BLOCK < first;
        if self.resume.is_some_and(resumes_behind) || self.until.is_some_and(ends_before) {
            return Ok(());
        }
        if !self.is_news(pointer) {
            return self.old_dnodes(tree, pointer, (level, index), window);
        }
        if pointer.is_hole() {
            // Not beyond the last block of dnodes.
            let end = last.min(tree.dnode.max_block_id).saturating_add(1);
            if first < end {
                self.free_objects(first * PER_BLOCK, (end - first) * PER_BLOCK, window)?;
            }
            return Ok(());
        }
        let data = if level == 0 && self.form.raw {
            raw::check(pointer)?;
            let first = index * PER_BLOCK;
            let range = raw::range(first, PER_BLOCK, pointer, self.to_guid);
            window.record(range, Vec::new())?;
            self.read_stored(tree, pointer, index)?
        } else {
            self.read(tree, pointer, level, index)?
        };
        if level > 0 {
            for (index, child) in Self::children(tree, &data, index) {
                self.dnodes(tree, &child, level - 1, index, window)?;
            }
            return Ok(());
        }
        for (slot, found) in slots(&data) {
            let object = ObjectId(index * PER_BLOCK + slot as u64);
            match found {
                Slot::Free => self.free_objects(object.0, 1, window)?,
                Slot::Allocated { .. } => {
                    let bytes = data.get(slot * SLOT_SIZE..).unwrap_or(&[]);
                    self.object(object, (&dmu::raw::dnode(&data, slot)?, bytes), window)?;
                }
            }
        }
        Ok(())
    }

    /// A part of the array of dnodes that did not change: of objects of which blocks were left out before, these.
    fn old_dnodes<W: Write>(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        (level, index): (u8, u64),
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let (first, count) = tree.span(level, index);
        let first = first.saturating_mul(PER_BLOCK);
        let last = first.saturating_add(count.saturating_mul(PER_BLOCK).saturating_sub(1));
        let next = match self.sent_again.borrow_mut().as_mut() {
            Some(list) => list.object(ObjectId(first), ObjectId(last))?,
            None => None,
        };
        if next.is_none() || pointer.is_hole() {
            return Ok(());
        }
        let data = self.read(tree, pointer, level, index)?;
        if level > 0 {
            for (index, child) in Self::children(tree, &data, index) {
                self.dnodes(tree, &child, level - 1, index, window)?;
            }
            return Ok(());
        }
        for (slot, found) in slots(&data) {
            let object = ObjectId(index * PER_BLOCK + slot as u64);
            let is_wanted = self.resume.is_none_or(|(from, _)| object >= from)
                && Self::is_on(&self.sent_again, object, (0, u64::MAX))?;
            if let Slot::Allocated { .. } = found
                && is_wanted
            {
                let dnode = &dmu::raw::dnode(&data, slot)?;
                let tree = Tree { object, dnode };
                for (index, pointer) in tree.pointers() {
                    self.data(tree, pointer, tree.top(), index, window)?;
                }
            }
        }
        Ok(())
    }

    /// Whether some of an object's blocks are on a list.
    fn is_on(
        list: &RefCell<Option<Cursor>>,
        object: ObjectId,
        (first, last): (u64, u64),
    ) -> Result<bool, SendError> {
        match list.borrow_mut().as_mut() {
            Some(list) => Ok(list.has(object, first, last)?),
            None => Ok(false),
        }
    }

    fn free_objects<W: Write>(
        &self,
        first: u64,
        count: u64,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        // There is no object 0. What was received is not told again.
        let least = self.resume.map_or(1, |(object, _)| object.0.max(1));
        let end = first.saturating_add(count);
        let end = self.until.map_or(end, |(object, _)| end.min(object.0));
        let first = first.max(least);
        if first >= end {
            return Ok(());
        }
        window.free(Record::FreeObjects(FreeObjectsRecord {
            first: ObjectId(first),
            count: end - first,
            to_guid: self.to_guid,
        }))
    }

    fn object<W: Write>(
        &self,
        object: ObjectId,
        (dnode, stored): (&DnodePhys, &[u8]),
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let is_behind = self.until.is_some_and(|(until, _)| object > until);
        if self.resume.is_some_and(|(from, _)| object < from) || is_behind {
            return Ok(());
        }
        let tree = Tree { object, dnode };
        let block_size = dnode.data_block_size().min(self.form.block_max);
        let record = ObjectRecord {
            object,
            kind: dnode.object_type.0.into(),
            bonus_kind: dnode.bonus_type.0.into(),
            block_size,
            bonus_length: dnode.bonus_len.into(),
            checksum: dnode.checksum,
            compression: dnode.compress,
            slots: dnode.extra_slots + 1,
            flags: if dnode.spill.is_some() {
                OBJECT_HAS_SPILL
            } else {
                0
            },
            raw_bonus_length: 0,
            to_guid: self.to_guid,
            indirect_shift: 0,
            levels: 0,
            pointers: 0,
            max_block: 0,
        };
        let mut bonus = dnode.bonus_bytes().to_vec();
        bonus.resize(bonus.len().next_multiple_of(8), 0);
        let (record, bonus) = if self.form.raw {
            raw::object(record, dnode, stored)
        } else {
            (record, bonus)
        };
        window.record(Record::Object(record), bonus)?;
        let end = dnode.max_block_id.saturating_add(1);
        let end = end.saturating_mul(dnode.data_block_size().into());
        self.free(tree, end, TO_THE_END, window)?;
        let unmodified = dnode.spill.filter(|spill| !self.is_news(spill));
        if let Some(spill) = unmodified {
            self.spill(tree, &spill, SPILL_UNMODIFIED, window)?;
        }
        for (index, pointer) in tree.pointers() {
            self.data(tree, pointer, tree.top(), index, window)?;
        }
        // It comes behind the last block of the object.
        let is_last = self.until.is_some_and(|(until, _)| object == until);
        match dnode.spill.filter(|spill| self.is_news(spill) && !is_last) {
            Some(spill) => self.spill(tree, &spill, 0, window),
            None => Ok(()),
        }
    }

    fn free<W: Write>(
        &self,
        tree: Tree<'_>,
        offset: u64,
        length: u64,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        window.free(Record::Free(FreeRecord {
            object: tree.object,
            offset,
            length,
            to_guid: self.to_guid,
        }))
    }

    fn spill<W: Write>(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        flags: u8,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        if flags == 0 && self.stays_embedded(pointer) {
            let offset = SPILL_BLOCK.wrapping_mul(pointer.lsize());
            return self.embedded(tree, pointer, (offset, pointer.lsize()), window);
        }
        let record = SpillRecord {
            object: tree.object,
            length: pointer.lsize(),
            to_guid: self.to_guid,
            flags,
            compression: 0,
            compressed_size: 0,
            salt: [0; 8],
            iv: [0; 12],
            mac: [0; 16],
            kind: 0,
        };
        let place = Bookmark::spill(self.set, tree.object);
        if self.form.raw {
            raw::check(pointer)?;
            let record = Box::new(raw::spill(record, pointer));
            return window.block(pointer, place, Contents::Stored(record));
        }
        window.block(pointer, place, Contents::Plain(vec![Record::Spill(record)]))
    }

    /// A part of an object's data.
    fn data<W: Write>(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        level: u8,
        index: u64,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let size = u64::from(tree.dnode.data_block_size());
        let (first, count) = tree.span(level, index);
        let (offset, length) = (first.saturating_mul(size), count.saturating_mul(size));
        let was_received = |(object, done): (ObjectId, u64)| {
            object == tree.object && offset.saturating_add(length) <= done
        };
        let is_behind = |(object, until): (ObjectId, u64)| object == tree.object && offset > until;
        if self.resume.is_some_and(was_received) || self.until.is_some_and(is_behind) {
            return Ok(());
        }
        let blocks = (first, first.saturating_add(count.saturating_sub(1)));
        let is_news = self.is_news(pointer);
        if !is_news && (pointer.is_hole() || !Self::is_on(&self.sent_again, tree.object, blocks)?) {
            return Ok(());
        }
        if pointer.is_hole() {
            // Of files and volumes nothing is told behind their last block, of all others it is.
            let kind = tree.dnode.object_type;
            let is_data = kind == ObjectType::PLAIN_FILE || kind == ObjectType::ZVOL;
            if is_data && first > tree.dnode.max_block_id {
                return Ok(());
            }
            return self.free(tree, offset, length, window);
        }
        if level == 0 {
            let is_left_out = Self::is_on(&self.left_out, tree.object, blocks)?;
            return match (is_left_out || pointer.is_redacted(), is_news) {
                (true, true) => self.redact(tree, offset, length, window),
                // The receiver does not have it, and is not to.
                (true, false) => Ok(()),
                (false, _) => self.block(tree, pointer, index, window),
            };
        }
        let data = self.read(tree, pointer, level, index)?;
        for (index, child) in Self::children(tree, &data, index) {
            self.data(tree, &child, level - 1, index, window)?;
        }
        Ok(())
    }

    fn redact<W: Write>(
        &self,
        tree: Tree<'_>,
        offset: u64,
        length: u64,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        window.free(Record::Redact(RedactRecord {
            object: tree.object,
            offset,
            length,
            to_guid: self.to_guid,
        }))
    }

    /// A block of data, in the form that the stream has it in.
    fn block<W: Write>(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        index: u64,
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let size = tree.dnode.data_block_size();
        let offset = index.saturating_mul(size.into());
        if self.stays_embedded(pointer) {
            return self.embedded(tree, pointer, (offset, size.into()), window);
        }
        let is_cut = size > self.form.block_max;
        let plain = self.plain(tree, offset);
        let place = Bookmark::new(self.set, tree.object, 0, index);
        if is_cut {
            let offsets =
                (offset..offset.saturating_add(size.into())).step_by(SMALL_BLOCK_MAX as usize);
            let piece = |offset| {
                let end =
                    (plain.offset + plain.logical_size).min(offset + u64::from(SMALL_BLOCK_MAX));
                Record::Write(WriteRecord {
                    offset,
                    logical_size: end - offset,
                    ..plain.clone()
                })
            };
            return window.block(
                pointer,
                place,
                Contents::Plain(offsets.map(piece).collect()),
            );
        }
        if self.form.raw {
            raw::check(pointer)?;
        } else if pointer.is_embedded() || pointer.is_encrypted() {
            return window.block(pointer, place, Contents::Plain(vec![Record::Write(plain)]));
        }
        let dedup = pointer.checksum().is_ok_and(|kind| kind.is_dedup_safe());
        let keyed = WriteRecord {
            checksum_kind: pointer.checksum_id(),
            flags: if dedup { WRITE_DEDUP_CHECKSUM } else { 0 },
            checksum: pointer.checksum_value().0,
            key: key(pointer),
            ..plain
        };
        if self.form.raw {
            let record = Box::new(raw::write(keyed, pointer));
            return window.block(pointer, place, Contents::Stored(record));
        }
        if self.stays_compressed(tree, pointer)? {
            let stored = WriteRecord {
                compression: pointer.compression_id(),
                compressed_size: pointer.psize(),
                ..keyed
            };
            return window.block(
                pointer,
                place,
                Contents::Stored(Box::new(Record::Write(stored))),
            );
        }
        window.block(pointer, place, Contents::Plain(vec![Record::Write(keyed)]))
    }

    /// The record of a block that has nothing to tell but its contents.
    fn plain(&self, tree: Tree<'_>, offset: u64) -> WriteRecord {
        WriteRecord {
            object: tree.object,
            kind: tree.dnode.object_type.0.into(),
            offset,
            logical_size: tree.dnode.data_block_size().into(),
            to_guid: self.to_guid,
            checksum_kind: CHECKSUM_OFF,
            flags: 0,
            compression: 0,
            checksum: [0; 4],
            key: 0,
            compressed_size: 0,
            salt: [0; 8],
            iv: [0; 12],
            mac: [0; 16],
        }
    }

    fn stays_compressed(&self, tree: Tree<'_>, pointer: &BlockPointer) -> Result<bool, SendError> {
        Ok(self.form.compressed
            && !pointer.compression()?.is_off()
            && !tree.dnode.object_type.is_metadata()
            && pointer.byte_order() == base::ByteOrder::NATIVE)
    }

    fn stays_embedded(&self, pointer: &BlockPointer) -> bool {
        let known = |number: u8| match number {
            ..=OLD_COMPRESSIONS => true,
            LZ4 => self.form.features.contains(Features::LZ4),
            ZSTD => self.form.features.contains(Features::ZSTD),
            _ => false,
        };
        self.form.embedded
            && pointer.embedded_kind() == Some(EmbeddedKind::Data)
            && known(pointer.compression_id())
    }

    fn embedded<W: Write>(
        &self,
        tree: Tree<'_>,
        pointer: &BlockPointer,
        (offset, length): (u64, u64),
        window: &mut Window<'_, W>,
    ) -> Result<(), SendError> {
        let mut payload = [0; EMBEDDED_PAYLOAD_MAX];
        let filled = pointer.embedded_payload(&mut payload);
        let mut payload = payload.get(..filled).unwrap_or(&payload).to_vec();
        payload.resize(filled.next_multiple_of(8), 0);
        let small = |size: u64| u32::try_from(size).unwrap_or(u32::MAX);
        let record = WriteEmbeddedRecord {
            object: tree.object,
            offset,
            length,
            to_guid: self.to_guid,
            compression: pointer.compression_id(),
            embedded_kind: pointer.embedded_number(),
            logical_size: small(pointer.lsize()),
            physical_size: small(pointer.psize()),
        };
        window.record(Record::WriteEmbedded(record), payload)
    }
}

/// What identifies a block beside its checksum.
fn key(pointer: &BlockPointer) -> u64 {
    let sectors = |bytes: u64| (bytes / SLOT_SIZE as u64).saturating_sub(1);
    let at = BlockKey::AT;
    let key = at.logical_sectors.set(0, sectors(pointer.lsize()));
    let key = at.physical_sectors.set(key, sectors(pointer.psize()));
    at.compression.set(key, pointer.compression_id().into())
}
