//! Doing again what an intent log says was done to a volume: writes and freed ranges of its data. Other records do not
//! belong there, and end the replay: the log stays owed.

use std::sync::Arc;

use base::ObjectId;
use dsl::volume::DATA;
use format::intent_log::{Change, Record, Written};
use intent::{Cause, Log, Unapplied};

use crate::volume::{Source, Volume};
use crate::{Result, VolumeError};

pub use intent::Replayed;

/// The largest block, which is the most that one record writes.
const BLOCK_MAX: u64 = 16 << 20;

/// Applies what the log of a volume owes; nothing else may use the volume meanwhile.
///
/// # Errors
/// The volume cannot be opened, or the pool has stopped.
pub fn replay(source: Source, log: &Arc<Log>) -> Result<Replayed> {
    if !log.is_owed() {
        return Ok(Replayed::default());
    }
    let volume = Volume::new(source, true)?;
    Ok(log.replay(&mut Applier { volume })?)
}

struct Applier {
    volume: Volume,
}

impl intent::Replay for Applier {
    fn apply(
        &mut self,
        record: &Record<'_>,
        block: Option<&[u8]>,
    ) -> std::result::Result<(), Unapplied> {
        let change = Change::parse(record).map_err(|error| error.to_string())?;
        let applied = match &change {
            &Change::Write {
                object: DATA,
                offset,
                length,
                data,
                ..
            } => self.write(offset, length, data, block),
            &Change::Truncate {
                object: DATA,
                offset,
                length,
                ..
            } => self.free(offset, length),
            Change::Write { .. }
            | Change::Truncate { .. }
            | Change::Create(_)
            | Change::Remove { .. }
            | Change::Link { .. }
            | Change::Rename { .. }
            | Change::SetAttributes(_)
            | Change::SetAcl { .. }
            | Change::SetXattr { .. }
            | Change::CloneRange { .. } => return Err(foreign(change.object())),
        };
        applied.map_err(|error| Unapplied {
            cause: if is_damage(&error) {
                Cause::Damage
            } else {
                Cause::Other
            },
            reason: error.to_string(),
        })
    }

    // Nothing builds on a record of a volume: each says where, and what.
    fn pass_over(&mut self, _record: &Record<'_>) {}
}

fn is_damage(error: &VolumeError) -> bool {
    if let VolumeError::Storage(error) = error {
        return error.is_damage();
    }
    false
}

fn foreign(object: Option<ObjectId>) -> Unapplied {
    let reason = match object {
        Some(object) => format!("no record of a volume's data, but of object {object}"),
        None => "no record of a volume's data".to_owned(),
    };
    Unapplied::from(reason)
}

impl Applier {
    fn write(
        &self,
        offset: u64,
        length: u64,
        data: Written<'_>,
        block: Option<&[u8]>,
    ) -> Result<()> {
        match data {
            Written::Here(bytes) => self.put(offset, bytes),
            // The record of the write that has the block comes later, and a volume's size does not follow its writes.
            Written::Before => self.put(0, &[]),
            Written::Block(pointer) => {
                let bytes = block.map(|bytes| bytes.len() as u64);
                let size = bytes.unwrap_or_else(|| length.max(pointer.lsize()).min(BLOCK_MAX));
                // The pointer is that of the whole block.
                let start = if length < size {
                    offset - offset % size
                } else {
                    offset
                };
                match block {
                    Some(bytes) => self.put(start, bytes),
                    None if size == 0 => self.put(0, &[]),
                    None => self.free(start, size),
                }
            }
        }
    }

    /// Writes what lies within the volume, which may have become smaller.
    fn put(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let left = self.volume.size().saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
        let offset = offset.min(self.volume.size());
        let bytes = bytes.get(..length).unwrap_or_default();
        let buffers = self.volume.cut(offset, bytes);
        self.volume.write_piece(offset, buffers, false)
    }

    fn free(&self, offset: u64, length: u64) -> Result<()> {
        let size = self.volume.size();
        let end = match length {
            0 => size,
            length => offset.saturating_add(length).min(size),
        };
        if offset >= end {
            return self.put(0, &[]);
        }
        self.volume.free(offset..end)
    }
}
