//! Replay of clones: a record that says which blocks of another file a file got becomes writes of the same bytes, by
//! pointer, which every layer above knows.
//!
//! The blocks are there: who claimed the log counted a reference to each, which goes when the log is freed. They are
//! read one by one, for a record may name a thousand of 16 MiB.

use std::sync::atomic::Ordering;

use base::{ByteOrder, ObjectSetId};
use format::BlockPointer;
use format::intent_log::{
    CloneRangeFields, Record, WriteFields, encode_record, kind, stamp_record,
};

use super::{Cause, Replay, Unapplied};
use crate::log::Log;

impl Log {
    /// Applies a record of a clone. It counts as applied with the last transaction of its last block: a replay that
    /// was cut off in between does it again from the beginning. `before` has the number of the record before.
    pub(super) fn apply_clone(
        &self,
        set: ObjectSetId,
        (record, fields, before): (&Record<'_>, &CloneRangeFields, u64),
        replay: &mut dyn Replay,
    ) -> Result<(), Unapplied> {
        let pieces = pieces(record, fields);
        let mut lost = None;
        for (index, (write, source)) in pieces.iter().enumerate() {
            let is_last = index + 1 == pieces.len();
            let noted = if is_last {
                record.header.sequence
            } else {
                before
            };
            self.progress.current.store(noted, Ordering::Release);
            match self.apply_piece(set, (record, write, source), replay) {
                Ok(()) => {}
                // The other blocks are none the worse for it.
                Err(unapplied) if unapplied.cause == Cause::Damage => {
                    lost.get_or_insert(unapplied);
                }
                Err(unapplied) => return Err(unapplied),
            }
        }
        lost.map_or(Ok(()), Err)
    }

    fn apply_piece(
        &self,
        set: ObjectSetId,
        (record, write, source): (&Record<'_>, &WriteFields, &BlockPointer),
        replay: &mut dyn Replay,
    ) -> Result<(), Unapplied> {
        let block = match source.is_hole() {
            true => None,
            false => Some(self.block(set, source)?),
        };
        let fields = write.to_bytes(ByteOrder::NATIVE);
        let mut bytes = encode_record(kind::WRITE, &fields, &[]);
        stamp_record(&mut bytes, record.header.txg, record.header.sequence);
        let write = Record::decode(&bytes, ByteOrder::NATIVE).map_err(|error| error.to_string())?;
        self.apply_twice(&write, block.as_ref(), replay)
    }
}

/// The writes that do what a clone did, and the block of each.
fn pieces(record: &Record<'_>, fields: &CloneRangeFields) -> Vec<(WriteFields, BlockPointer)> {
    let mut pieces = Vec::new();
    let mut done = 0_u64;
    for source in record.pointers() {
        let length = fields.block_size.min(fields.length.saturating_sub(done));
        let offset = fields.offset.saturating_add(done);
        done = done.saturating_add(fields.block_size);
        if length == 0 {
            break;
        }
        // A block that lies in its pointer is handed on as bytes, too.
        let pointer = source;
        let object = fields.object;
        pieces.push((
            WriteFields {
                object,
                offset,
                length,
                pointer,
            },
            source,
        ));
    }
    pieces
}
