//! Records about file data.

use std::borrow::Cow;
use std::sync::Arc;

use format::intent_log::Written;

use super::Applier;
use crate::core::Plan;
use crate::log::LoggedWrite;
use crate::znode::Znode;
use crate::{PosixError, Result, SetAttributes, WriteOptions};

/// The largest block of a file, which is the most that one record writes.
const BLOCK_MAX: u64 = 16 << 20;

impl Applier {
    pub(super) fn write(
        &self,
        znode: &Arc<Znode>,
        offset: u64,
        length: u64,
        (data, block): (Written<'_>, Option<&[u8]>),
    ) -> Result<()> {
        let end = offset.checked_add(length).ok_or(PosixError::FileTooLarge)?;
        match data {
            Written::Here(bytes) => {
                let options = WriteOptions::default();
                self.core.write(znode, offset, bytes, options).map(drop)
            }
            Written::Before => self.grow(znode, end),
            Written::Block(pointer) => {
                let bytes = match block {
                    Some(bytes) => Cow::Borrowed(bytes),
                    None => {
                        let size = length.max(pointer.lsize());
                        if size > BLOCK_MAX {
                            return Err(PosixError::Invalid("length of a write in the log"));
                        }
                        Cow::Owned(vec![0; size as usize])
                    }
                };
                let size = bytes.len() as u64;
                // The pointer is that of the whole block: later records of the same block have
                // none, and rely on its content.
                let start = if length < size {
                    offset - offset % size
                } else {
                    offset
                };
                self.write_block(znode, start, &bytes, end)
            }
        }
    }

    /// Writes a whole block of the file, of which the part up to `end` is within the file.
    fn write_block(&self, znode: &Arc<Znode>, start: u64, data: &[u8], end: u64) -> Result<()> {
        let core = &self.core;
        let length = data.len() as u64;
        znode.object.prepare_write(start, length)?;
        let tx = core.begin(Plan {
            write_bytes: length,
            objects: 1,
            ..Plan::default()
        })?;
        let _data = znode.data.lock();
        let size = {
            let state = znode.state.read();
            core.check_data_change(znode, &state)?;
            state.size
        };
        core.hold_data_change(&tx, znode, false)?;
        core.grow_block(&tx, znode, size, start.saturating_add(length))?;
        znode.object.begin_write(&tx, start, length)?;
        znode.object.write(&tx, start, data)?;
        let mut state = znode.state.write();
        state.size = size.max(end);
        core.note_data_change(&tx, znode, &mut state, false)?;
        drop(state);
        if let Some(log) = core.log() {
            let write = LoggedWrite {
                object: znode.id(),
                offset: start,
                length,
                data: Some(data),
                at_once: false,
            };
            log.record_write(&tx, &write);
        }
        Ok(())
    }

    fn grow(&self, znode: &Arc<Znode>, end: u64) -> Result<()> {
        if znode.state.read().size < end {
            self.core.set_size(znode, end, &SetAttributes::default())?;
        }
        Ok(())
    }

    pub(super) fn truncate(&self, znode: &Arc<Znode>, offset: u64, length: u64) -> Result<()> {
        if length == 0 {
            return self.core.set_size(znode, offset, &SetAttributes::default());
        }
        let size = {
            let state = znode.state.read();
            self.core.check_data_change(znode, &state)?;
            state.size
        };
        let end = offset.saturating_add(length).min(size);
        self.core.free_file_range(znode, offset..end)
    }
}
