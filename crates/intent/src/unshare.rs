//! Shared blocks in a log that is being claimed: the log is written anew without them.
//!
//! A record of a clone names blocks of another file. Who counts references to blocks takes one for each when the log is
//! claimed, and gives it back when the log is freed. Without such counts the blocks could be freed before the replay,
//! and who imports the claimed log next would give back what was never taken. So the claim puts another chain in the
//! place of the old one, with the same records in the same order, but for clones: in their stead are writes, whose
//! blocks are copies. A write of a whole block by pointer is replayed in the same way everywhere.

use std::sync::Arc;

use base::random::Rng;
use base::{Bookmark, ByteOrder, ObjectId, ObjectSetId, Txg};
use codec::Checksum;
use format::BlockPointer;
use format::embedded_checksum;
use format::intent_log::{
    Body, ChainElement, CloneRangeFields, Identity, LogHeader, Record, WriteFields, encode_record,
    kind, stamp_record,
};
use pipeline::{Pipeline, ReadRequest};
use sys::BufferMut;
use vdev::WriteGroup;

use crate::error::IntentError;
use crate::layout::{BLOCK_MAX, UNIT};
use crate::tunables;
use crate::walk::walk;

/// Writes the chain that `header` shows anew, without clones, in `first`: the header that takes its place, claimed.
/// The old chain's blocks are the caller's to free, but not the data that its other records point to.
///
/// # Errors
/// A shared block cannot be read, there is no space, or the records are of the other byte order.
pub fn unshare(
    pipeline: &Pipeline,
    rng: &dyn Rng,
    set: ObjectSetId,
    header: &LogHeader,
    first: Txg,
) -> Result<LogHeader, IntentError> {
    if header.log.is_encrypted() {
        // Pools are opened before keys are.
        let what = "clones of encrypted blocks";
        return Err(IntentError::Unsupported { what });
    }
    let random = [rng.next_u64(), rng.next_u64()];
    let mut chain = NewChain {
        pipeline,
        set,
        first,
        group: WriteGroup::new(first),
        pointer: BlockPointer::HOLE,
        used: Vec::new(),
        sequence: 0,
    };
    chain.pointer = chain.allocate(Identity::first(random, set.0), BLOCK_MAX)?;
    let log = chain.pointer;
    let mut failed = None;
    walk(pipeline, set, header, &mut |record| {
        let result = chain.copy(record);
        failed = result.err();
        failed.is_none()
    });
    if let Some(error) = failed {
        return Err(error);
    }
    chain.end()?;
    Ok(LogHeader {
        claim_txg: first,
        replay_sequence: 0,
        log,
        claim_block_sequence: Identity::of(&chain.pointer).sequence(),
        flags: LogHeader::FLAG_CLAIM_RECORD_VALID | LogHeader::FLAG_REPLAY_NEEDED,
        claim_record_sequence: chain.sequence,
    })
}

/// A chain that is being written.
struct NewChain<'a> {
    pipeline: &'a Pipeline,
    set: ObjectSetId,
    first: Txg,
    group: Arc<WriteGroup>,
    /// The block that is filled, or after the end the tail.
    pointer: BlockPointer,
    /// Its records so far.
    used: Vec<u8>,
    /// Of the last record.
    sequence: u64,
}

impl NewChain<'_> {
    fn allocate(&self, identity: Identity, size: u64) -> Result<BlockPointer, IntentError> {
        let taken = self
            .pipeline
            .allocate_log_block(size, identity.0, self.first, self.set);
        taken.map_err(|error| IntentError::Claim(error.to_string()))
    }

    fn copy(&mut self, record: &Record<'_>) -> Result<(), IntentError> {
        if record.order != ByteOrder::NATIVE {
            let what = "clones of blocks in the other byte order";
            return Err(IntentError::Unsupported { what });
        }
        if let Body::CloneRange(fields) = &record.body {
            self.writes(record, fields)
        } else {
            self.push(record.bytes.to_vec(), record.header.txg)
        }
    }

    /// The writes that do what a clone did.
    fn writes(
        &mut self,
        record: &Record<'_>,
        fields: &CloneRangeFields,
    ) -> Result<(), IntentError> {
        let mut done = 0;
        for source in record.pointers() {
            let length = fields.block_size.min(fields.length.saturating_sub(done));
            let offset = fields.offset.saturating_add(done);
            done = done.saturating_add(fields.block_size);
            if length == 0 {
                continue;
            }
            let write = WriteFields {
                object: fields.object,
                offset,
                length,
                pointer: BlockPointer::HOLE,
            };
            let txg = record.header.txg;
            if source.is_hole() {
                self.push_write(write, &[], txg)?;
            } else if let Some(pointer) = self.duplicate(&source)? {
                self.push_write(WriteFields { pointer, ..write }, &[], txg)?;
            } else {
                self.inline(&source, write, txg)?;
            }
        }
        Ok(())
    }

    fn request(&self) -> ReadRequest {
        ReadRequest::new(Bookmark {
            object_set: self.set,
            object: ObjectId(0),
            level: -2,
            block: 0,
        })
        .uncached()
    }

    /// A copy of a block as it is stored; none of what is in its pointer or in pieces.
    fn duplicate(&self, source: &BlockPointer) -> Result<Option<BlockPointer>, IntentError> {
        if source.is_embedded() || source.is_gang() || source.is_dedup() {
            return Ok(None);
        }
        let stored = self.pipeline.read_stored(source, &self.request());
        let stored = stored.map_err(|error| IntentError::Claim(error.to_string()))?;
        let hint = self.set.0;
        let copy = self
            .pipeline
            .duplicate(source, &stored, self.first, hint, &self.group);
        // Without room in one piece the bytes go into the log.
        Ok(copy.ok())
    }

    /// The bytes of a block as writes that carry them.
    fn inline(
        &mut self,
        source: &BlockPointer,
        write: WriteFields,
        txg: Txg,
    ) -> Result<(), IntentError> {
        let bytes = self.pipeline.read(source, &self.request());
        let bytes = bytes.map_err(|error| IntentError::Claim(error.to_string()))?;
        let length = usize::try_from(write.length).unwrap_or(usize::MAX);
        let bytes = &bytes[..length.min(bytes.len())];
        let mut offset = write.offset;
        for piece in bytes.chunks(tunables::UNSHARED_BYTES_MAX.count()) {
            let length = piece.len() as u64;
            let write = WriteFields {
                offset,
                length,
                ..write
            };
            self.push_write(write, piece, txg)?;
            offset += length;
        }
        Ok(())
    }

    fn push_write(&mut self, write: WriteFields, data: &[u8], txg: Txg) -> Result<(), IntentError> {
        let fields = write.to_bytes(ByteOrder::NATIVE);
        self.push(encode_record(kind::WRITE, &fields, &[data]), txg)
    }

    fn push(&mut self, mut record: Vec<u8>, txg: Txg) -> Result<(), IntentError> {
        let room = BLOCK_MAX as usize - ChainElement::SIZE - self.used.len();
        if record.len() > room {
            self.seal(BLOCK_MAX)?;
        }
        self.sequence += 1;
        stamp_record(&mut record, txg, self.sequence);
        self.used.extend_from_slice(&record);
        Ok(())
    }

    /// Writes the block, and goes on with one of so many bytes.
    fn seal(&mut self, next_size: u64) -> Result<(), IntentError> {
        let next = self.allocate(Identity::of(&self.pointer).next(), next_size)?;
        let used = ChainElement::SIZE + self.used.len();
        let mut block = BufferMut::zeroed(used.next_multiple_of(UNIT as usize));
        let room = block.get_mut(ChainElement::SIZE..used).unwrap_or_default();
        room.copy_from_slice(&self.used);
        self.used.clear();
        ChainElement::slim(next, used as u64, 0).encode(&mut block, ByteOrder::NATIVE);
        let identity = Identity::of(&self.pointer);
        let failed = |error: String| IntentError::Claim(error);
        embedded_checksum::seal(Checksum::Zilog2, &mut block, identity.0)
            .map_err(|error| failed(error.to_string()))?;
        self.pipeline
            .write_log_block(&self.pointer, &block.freeze(), &self.group)
            .map_err(|error| failed(error.to_string()))?;
        self.pointer = next;
        Ok(())
    }

    /// Writes the last block, and waits until all is on the devices; the txg flushes them.
    fn end(&mut self) -> Result<(), IntentError> {
        self.seal(UNIT)?;
        let written = self.group.wait();
        written.map_err(|error| IntentError::Claim(error.to_string()))
    }
}
