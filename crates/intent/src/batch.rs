//! A batch of log blocks: filled from records, sealed, written and flushed.

use base::metrics::flow;
use base::{Bookmark, ByteOrder, VdevId};
use dmu::{BlockError, DmuError};
use format::BlockPointer;
use format::intent_log::{ChainElement, ChainForm, RecordHeader, WriteFields, kind, stamp_record};
use sys::{Buffer, BufferMut};
use vdev::WriteGroup;

use crate::entry::{Contents, Data, Entry, WriteEntry};
use crate::in_flight::Passage;
use crate::layout::{Piece, Shape, UNIT};
use crate::lists::Item;
use crate::log::Log;

/// A block that is to be filled.
pub(crate) struct BlockPlan {
    pub(crate) pointer: BlockPointer,
    pub(crate) next: BlockPointer,
    pub(crate) pieces: Vec<Piece>,
    /// The sequence number of its first record.
    pub(crate) first_record: u64,
    /// How many blocks of the batch come after it.
    pub(crate) following: u64,
}

/// Blocks that are written and waited for together.
pub(crate) struct Batch {
    pub(crate) number: u64,
    pub(crate) blocks: Vec<BlockPlan>,
    pub(crate) items: Vec<Item>,
    /// Until the batch is on the medium, or has failed, no txg passes that has its blocks in the maps.
    pub(crate) _passage: Passage,
}

/// What there is to be placed of an item.
pub(crate) fn shape(item: &Item) -> Shape {
    match &item.entry {
        Entry::Record(bytes) => Shape::Whole(bytes.len() as u64),
        Entry::Write(write) => Shape::Data(write.length),
    }
}

impl BlockPlan {
    /// Bytes of its records, if none is dropped.
    pub(crate) fn bytes(&self, items: &[Item]) -> u64 {
        let bytes = |piece: &Piece| match items.get(piece.item).map(|item| &item.entry) {
            Some(Entry::Record(bytes)) => bytes.len() as u64,
            Some(Entry::Write(_)) => WriteFields::SIZE as u64 + piece.length.next_multiple_of(8),
            None => 0,
        };
        self.pieces.iter().map(bytes).sum()
    }
}

impl Log {
    /// Writes a batch; the vdevs to be flushed, or nothing when it failed.
    pub(crate) fn write(&self, batch: &Batch) -> Option<Vec<VdevId>> {
        let supplied = self.contents.lock().clone();
        let contents: &dyn Contents = match &supplied {
            Some(supplied) => supplied.as_ref(),
            None => self.objects.as_ref(),
        };
        let newest = batch.blocks.last().map(|block| block.next.birth());
        let findings = self.engine.findings();
        let group = WriteGroup::of_pool(newest.unwrap_or_default(), findings);
        let mut vdevs: Vec<VdevId> = Vec::new();
        let mut good = true;
        for block in &batch.blocks {
            let Ok(sealed) = self.seal(block, &batch.items, contents) else {
                good = false;
                break;
            };
            self.meters.blocks.increment();
            self.meters.bytes.add(sealed.len() as u64);
            flow().log.add(sealed.len() as u64);
            let pointer = &block.pointer;
            let queued = self.pipeline.write_log_block(pointer, &sealed, &group);
            good &= queued.is_ok();
            vdevs.extend(pointer.dvas().map(|dva| dva.vdev));
        }
        vdevs.extend(batch.items.iter().flat_map(|item| &item.vdevs));
        vdevs.sort_unstable();
        vdevs.dedup();
        // Waited for in any case: no write may be under way when its block is given up.
        if group.wait().is_err() {
            good = false;
            for write in group.take_failed() {
                (self.failed)(write.vdev);
            }
        }
        good.then_some(vdevs)
    }

    pub(crate) fn flush(&self, vdev: VdevId) -> bool {
        match self.flusher.flush(vdev) {
            Ok(own) => {
                self.meters.flushes.add(u64::from(own));
                true
            }
            Err(_) => {
                (self.failed)(vdev);
                false
            }
        }
    }

    /// Fills a block and seals it.
    fn seal(
        &self,
        plan: &BlockPlan,
        items: &[Item],
        contents: &dyn Contents,
    ) -> Result<Buffer, DmuError> {
        let form = ChainForm::of(&plan.pointer).unwrap_or(ChainForm::Slim);
        let max = match form {
            // Its end is where the chain goes on, so it is written whole.
            ChainForm::Old => plan.pointer.lsize() as usize,
            ChainForm::Slim => ChainElement::SIZE + plan.bytes(items) as usize,
        };
        let mut block = BufferMut::zeroed(max.next_multiple_of(UNIT as usize));
        let mut used = form.records_offset();
        for (index, piece) in plan.pieces.iter().enumerate() {
            let Some(item) = items.get(piece.item) else {
                continue;
            };
            let room = block.get_mut(used..).unwrap_or_default();
            let length = match &item.entry {
                Entry::Record(bytes) => {
                    room[..bytes.len()].copy_from_slice(bytes);
                    self.meters.record_bytes.add(bytes.len() as u64);
                    bytes.len()
                }
                Entry::Write(write) => {
                    let length = self.fill_write(room, write, piece, contents)?;
                    if item.txg > self.synced_txg() {
                        length
                    } else {
                        // The number may be another file's by now: the record is needless.
                        room[..length].fill(0);
                        0
                    }
                }
            };
            if length != 0 {
                self.meters.records.increment();
                stamp_record(
                    &mut room[..length],
                    item.txg,
                    plan.first_record + index as u64,
                );
            }
            used += length;
        }
        if form == ChainForm::Slim {
            block.truncate(used.next_multiple_of(UNIT as usize));
        }
        let element = ChainElement::new(plan.next, used as u64, plan.following);
        let at = form.element_offset(block.len());
        element.encode(&mut block[at..], ByteOrder::NATIVE);
        let set = self.objects.id();
        let sealed = self
            .pipeline
            .seal_log_block(set, &plan.pointer, (&mut block, used));
        sealed.map_err(|error| DmuError::Write {
            place: Bookmark::root(set),
            source: BlockError::new(error),
        })?;
        Ok(block.freeze())
    }

    /// Writes one record of a write; its length, 0 when it has become needless.
    fn fill_write(
        &self,
        room: &mut [u8],
        write: &WriteEntry,
        piece: &Piece,
        contents: &dyn Contents,
    ) -> Result<usize, DmuError> {
        let length = piece.length as usize;
        let total = WriteFields::SIZE + length.next_multiple_of(8);
        let offset = write.offset + piece.start;
        let data = &mut room[WriteFields::SIZE..WriteFields::SIZE + length];
        match &write.data {
            Data::Copied(bytes) => {
                let start = piece.start as usize;
                data.copy_from_slice(&bytes[start..start + length]);
            }
            Data::Later => {
                if !contents.read(write.object, offset, data)? {
                    room[..total].fill(0);
                    return Ok(0);
                }
            }
        }
        let fields = WriteFields {
            object: write.object,
            offset,
            length: piece.length,
            pointer: BlockPointer::HOLE,
        };
        fields.encode(room, ByteOrder::NATIVE);
        let header = RecordHeader {
            kind: kind::WRITE,
            length: total as u64,
            txg: base::Txg(0),
            sequence: 0,
        };
        header.encode(room, ByteOrder::NATIVE);
        self.meters.data_bytes.add(piece.length);
        self.meters.record_bytes.add(WriteFields::SIZE as u64);
        Ok(total)
    }
}
