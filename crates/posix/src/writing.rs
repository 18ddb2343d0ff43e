//! Changing file data: writes, truncation, holes.
//!
//! A write of a part of a block reads that block before its transaction begins. Writers and
//! truncation of one file exclude each other; readers are never excluded: the size grows after the
//! data are there, and shrinks before they go.

use std::ops::Range;

use dmu::Tx;
use format::intent_log::Change;
use format::sa::Attribute;

use crate::copying::{Contents, Origin};
use crate::core::{Core, Plan};
use crate::log::{LoggedWrite, Scope};
use crate::permission::without_set_id;
use crate::znode::{State, Znode, internal_flags};
use crate::{AllocateMode, FileType, PosixError, Result, SetAttributes, Timestamp, WriteOptions};

/// What one transaction writes at most.
pub(crate) const CHUNK: usize = 1 << 20;
/// The largest offset of a byte, as Linux has it.
const SIZE_MAX: u64 = i64::MAX as u64;
/// The smallest unit of a block size.
const SECTOR: u64 = 512;

/// The attributes that change with data.
const OF_DATA: [Attribute; 4] = [
    Attribute::Size,
    Attribute::Mtime,
    Attribute::Ctime,
    Attribute::Flags,
];

/// What a change of size changes, as it was.
struct Before {
    size: u64,
    flags: u64,
    mode: u32,
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Core {
    /// Writes `data`; a short count when something failed on the way.
    pub(crate) fn write(
        &self,
        znode: &Znode,
        offset: u64,
        data: &[u8],
        options: WriteOptions,
    ) -> Result<usize> {
        self.write_from(znode, offset, data, None, options)
    }

    /// The same for data that were copied from elsewhere: at most [`CHUNK`] of them then.
    pub(crate) fn write_from(
        &self,
        znode: &Znode,
        offset: u64,
        data: &[u8],
        origin: Option<&Origin<'_>>,
        options: WriteOptions,
    ) -> Result<usize> {
        let mut written = 0;
        let mut offset = offset;
        for chunk in data.chunks(CHUNK) {
            let contents = Contents::Bytes(chunk, origin);
            match self.write_chunk(znode, offset, &contents, options) {
                Ok(end) => offset = end.unwrap_or(offset),
                Err(_) if written > 0 => break,
                Err(error) => return Err(error),
            }
            written += chunk.len();
        }
        if options.sync && !options.uncommitted && written > 0 {
            self.fsync(znode)?;
        }
        Ok(written)
    }

    /// Writes one transaction's worth; says where it ended, unless that cannot be written so.
    pub(crate) fn write_chunk(
        &self,
        znode: &Znode,
        offset: u64,
        contents: &Contents<'_>,
        options: WriteOptions,
    ) -> Result<Option<u64>> {
        let length = contents.length();
        let guess = {
            let state = znode.state.read();
            let guess = if options.append { state.size } else { offset };
            if options.was_stored {
                check_kind(znode, &state)?;
            } else {
                self.check_data_change(znode, &state)?;
                self.check_overwrite(&state, guess)?;
            }
            guess
        };
        if guess.checked_add(length).is_none_or(|end| end > SIZE_MAX) {
            return Err(PosixError::FileTooLarge);
        }
        if !options.was_promised {
            self.check_space_quota(znode)?;
        }
        znode.object.prepare_write(guess, length)?;
        let block_bytes = self.block_bytes_of(znode, guess.saturating_add(length));
        let plan = contents.plan(block_bytes);
        let tx = self.begin(Plan {
            net_free: plan.net_free || options.was_promised,
            ..plan
        })?;
        let _data = znode.data.lock();
        let size = {
            let state = znode.state.read();
            if options.was_stored {
                check_kind(znode, &state)?;
            } else {
                self.check_data_change(znode, &state)?;
            }
            state.size
        };
        let offset = if options.append { size } else { offset };
        let end = offset + length;
        if end > SIZE_MAX {
            return Err(PosixError::FileTooLarge);
        }
        self.hold_data_change(&tx, znode, options.kill_set_id)?;
        self.grow_block(&tx, znode, size, end)?;
        if !contents.put(&tx, znode, offset)? {
            return Ok(None);
        }
        let mut state = znode.state.write();
        state.size = state.size.max(end);
        let times = if options.keeps_times {
            (state.mtime, state.ctime)
        } else {
            let now = self.now();
            (now, now)
        };
        self.whole(&tx, || {
            self.note_data_change_at(times, (&tx, znode, &mut state), options.kill_set_id)
        })?;
        // Nobody finds a file without names again.
        let is_named = state.links != 0;
        drop(state);
        if let Some(log) = self.log().filter(|_| is_named) {
            let write = LoggedWrite {
                object: znode.id(),
                offset,
                length,
                data: contents.bytes(),
                at_once: options.sync,
            };
            log.record_write(&tx, &write);
        }
        Ok(Some(end))
    }

    /// Whether a write of so many bytes would be refused now.
    pub(crate) fn check_write(&self, znode: &Znode, bytes: u64) -> Result<()> {
        self.check_data_change(znode, &znode.state.read())?;
        self.check_space_quota(znode)?;
        let record = self.properties().record_size;
        self.begin(Plan {
            write_bytes: bytes,
            block_bytes: znode.object.block_size().max(record),
            objects: 1,
            ..Plan::default()
        })
        .map(drop)
    }

    /// Fits the block size of a file with one block to its size after a change up to `end`.
    pub(crate) fn grow_block(&self, tx: &Tx, znode: &Znode, size: u64, end: u64) -> Result<()> {
        let info = znode.object.info();
        let block = u64::from(info.block_size);
        // One block may have levels above it: a stream has given the file another block size than it had.
        if info.max_block != 0 || size > block {
            return Ok(());
        }
        let record = u64::from(self.properties().record_size);
        let new = grown_block_size(block, record, size.max(end));
        if new != block {
            let new = u32::try_from(new).map_err(|_| PosixError::FileTooLarge)?;
            znode.object.set_block_size(tx, new, 0)?;
        }
        Ok(())
    }

    /// Bytes of the blocks of a file that is going to be written up to `end`, at most.
    pub(crate) fn block_bytes_of(&self, znode: &Znode, end: u64) -> u32 {
        let info = znode.object.info();
        if info.max_block != 0 {
            return info.block_size;
        }
        let record = u64::from(self.properties().record_size);
        let grown = grown_block_size(u64::from(info.block_size), record, end);
        u32::try_from(grown)
            .unwrap_or(info.block_size)
            .max(info.block_size)
    }

    pub(crate) fn check_data_change(&self, znode: &Znode, state: &State) -> Result<()> {
        check_kind(znode, state)?;
        if self.forbids(state, crate::flags::IMMUTABLE | crate::flags::READ_ONLY) {
            return Err(PosixError::NotPermitted("the file is immutable"));
        }
        Ok(())
    }

    /// Refuses a change from `offset` on of what a file that only grows has.
    pub(crate) fn check_overwrite(&self, state: &State, offset: u64) -> Result<()> {
        if offset < state.size && self.forbids(state, crate::flags::APPEND_ONLY) {
            return Err(PosixError::NotPermitted("the file only grows"));
        }
        Ok(())
    }

    /// Has the attributes of a file where [`Core::note_data_change`] has nothing to read.
    pub(crate) fn hold_data_change(&self, tx: &Tx, znode: &Znode, kill_set_id: bool) -> Result<()> {
        let mut state = znode.state.write();
        znode.hold(tx, &self.store, &mut state, &OF_DATA)?;
        if kill_set_id && without_set_id(state.mode) != state.mode {
            // As long as before: the list of the mode does not say who the program becomes.
            let list = [Attribute::Mode, Attribute::DaclCount, Attribute::DaclAces];
            znode.hold(tx, &self.store, &mut state, &list)?;
        }
        Ok(())
    }

    /// Times, flags and set-id bits after a change of data; the size is set already, and the attributes are held.
    pub(crate) fn note_data_change(
        &self,
        tx: &Tx,
        znode: &Znode,
        state: &mut State,
        kill_set_id: bool,
    ) -> Result<()> {
        let now = self.now();
        self.note_data_change_at((now, now), (tx, znode, state), kill_set_id)
    }

    /// The same, with these times of the change of data and of attributes.
    fn note_data_change_at(
        &self,
        times: (Timestamp, Timestamp),
        (tx, znode, state): (&Tx, &Znode, &mut State),
        kill_set_id: bool,
    ) -> Result<()> {
        (state.mtime, state.ctime) = times;
        self.mark_changed(state);
        znode.store(tx, &self.store, state, &OF_DATA)?;
        let mode = if kill_set_id {
            without_set_id(state.mode)
        } else {
            state.mode
        };
        if mode != state.mode {
            self.store.store_mode(tx, znode, state, mode)?;
            self.record_mode(tx, znode.id(), state);
        }
        Ok(())
    }

    /// Takes the set-id bits of a file away, if it has any.
    pub(crate) fn drop_set_id(&self, znode: &Znode) -> Result<()> {
        let has_none = |state: &State| without_set_id(state.mode) == state.mode;
        if has_none(&znode.state.read()) {
            return Ok(());
        }
        let tx = self.begin(Plan {
            objects: 1,
            ..Plan::default()
        })?;
        if has_none(znode.alive(&znode.state.read())?) {
            return Ok(());
        }
        self.hold_data_change(&tx, znode, true)?;
        let mut state = znode.state.write();
        self.note_data_change(&tx, znode, &mut state, true)
    }

    /// Empties a file that is opened so.
    pub(crate) fn truncate(&self, znode: &Znode, size: u64) -> Result<()> {
        self.set_size(znode, size, &SetAttributes::default())
    }

    /// Sets the size.
    pub(crate) fn set_size(&self, znode: &Znode, size: u64, change: &SetAttributes) -> Result<()> {
        self.change_size(znode, size, change, false)
    }

    /// Sets the size; when it `grows_only`, not if it came to be larger meanwhile.
    fn change_size(
        &self,
        znode: &Znode,
        size: u64,
        change: &SetAttributes,
        grows_only: bool,
    ) -> Result<()> {
        if size > SIZE_MAX {
            return Err(PosixError::FileTooLarge);
        }
        // The block in which the new end lies is kept in part; of an empty file nothing is kept.
        if size != 0 {
            znode.object.prepare_write(size, 1)?;
        }
        let shrinks = size < znode.state.read().size;
        let freed_blocks = if shrinks {
            let cost = self.cut_all_but_one(znode, size, change)?;
            znode.object.prepare_free(size, u64::MAX)?;
            cost
        } else {
            0
        };
        let plan = Plan {
            write_bytes: u64::from(znode.object.block_size()),
            block_bytes: znode.object.block_size(),
            objects: 1,
            net_free: shrinks,
            freed_blocks,
            ..Plan::default()
        };
        let tx = self.begin(plan)?;
        let _data = znode.data.lock();
        let old = {
            let state = znode.state.read();
            self.check_data_change(znode, &state)?;
            state.size
        };
        if grows_only && old >= size {
            return Ok(());
        }
        self.replace_size(&tx, znode, old..size, change)
    }

    /// Makes a file of one size one of another. What can fail comes before anything is changed, and the log is told
    /// when all is done.
    fn replace_size(
        &self,
        tx: &Tx,
        znode: &Znode,
        Range {
            start: old,
            end: size,
        }: Range<u64>,
        change: &SetAttributes,
    ) -> Result<()> {
        if size < old {
            return self.cut(tx, znode, size, change, true);
        }
        self.hold_data_change(tx, znode, change.kill_set_id)?;
        self.grow_block(tx, znode, old, size)?;
        self.store_size(tx, znode, size, change)?;
        self.record_size(tx, znode.id(), &znode.state.read());
        Ok(())
    }

    /// Cuts a file off, in one transaction, and `tells` the log. Readers see the new end before anything goes; what can
    /// fail of that fails before the end moves, or it moves back.
    fn cut(
        &self,
        tx: &Tx,
        znode: &Znode,
        size: u64,
        change: &SetAttributes,
        tells: bool,
    ) -> Result<()> {
        self.hold_data_change(tx, znode, change.kill_set_id)?;
        znode.object.begin_free(tx, size)?;
        let before = self.store_size(tx, znode, size, change)?;
        if let Err(error) = znode.object.free_range(tx, size, u64::MAX) {
            // Nothing is freed. All of this was stored a moment ago: nothing is read.
            let mut state = znode.state.write();
            if state.mode != before.mode {
                self.store.store_mode(tx, znode, &mut state, before.mode)?;
                self.record_mode(tx, znode.id(), &state);
            }
            (state.size, state.flags) = (before.size, before.flags);
            (state.mtime, state.ctime) = (before.mtime, before.ctime);
            self.whole(tx, || znode.store(tx, &self.store, &mut state, &OF_DATA))?;
            return Err(error.into());
        }
        if tells {
            self.record_size(tx, znode.id(), &znode.state.read());
        }
        Ok(())
    }

    /// Cuts the end of a file off as one of several pieces. A record that is replayed counts as applied with its last
    /// transaction, which another piece has.
    pub(crate) fn cut_piece(
        &self,
        tx: &Tx,
        znode: &Znode,
        size: u64,
        change: &SetAttributes,
    ) -> Result<()> {
        self.check_data_change(znode, &znode.state.read())?;
        let size = size.min(znode.state.read().size);
        self.cut(tx, znode, size, change, !self.replaying)
    }

    /// Stores a new size, or leaves the old one; answers what was there before.
    fn store_size(
        &self,
        tx: &Tx,
        znode: &Znode,
        size: u64,
        change: &SetAttributes,
    ) -> Result<Before> {
        let mut state = znode.state.write();
        self.check_data_change(znode, &state)?;
        let before = Before {
            size: state.size,
            flags: state.flags,
            mode: state.mode,
            mtime: state.mtime,
            ctime: state.ctime,
        };
        state.size = size;
        if size == 0 {
            state.flags &= !internal_flags::SPARSE;
        }
        let times = if change.keeps_times {
            (state.mtime, state.ctime)
        } else {
            let now = self.now();
            (now, now)
        };
        let noted = (tx, znode, &mut *state);
        let stored = self.note_data_change_at(times, noted, change.kill_set_id);
        if stored.is_err() {
            (state.size, state.flags) = (before.size, before.flags);
        }
        stored.map(|()| before)
    }

    pub(crate) fn allocate(
        &self,
        znode: &Znode,
        mode: AllocateMode,
        range: Range<u64>,
    ) -> Result<()> {
        if range.is_empty() {
            return Err(PosixError::Invalid("an empty range"));
        }
        if range.end > SIZE_MAX {
            return Err(PosixError::FileTooLarge);
        }
        let size = {
            let state = znode.state.read();
            self.check_data_change(znode, &state)?;
            if !matches!(mode, AllocateMode::Extend | AllocateMode::KeepSize) {
                self.check_overwrite(&state, range.start)?;
            }
            state.size
        };
        let extends = matches!(
            mode,
            AllocateMode::Extend | AllocateMode::ZeroRange { keep_size: false }
        );
        if matches!(mode, AllocateMode::Extend | AllocateMode::KeepSize) {
            let available = self
                .space()
                .map_or(u64::MAX, |space| space.numbers().available);
            // A tenth more, for what blocks cost beside their bytes.
            let wanted = range.end - range.start;
            if wanted.saturating_add(wanted / 10) > available {
                return Err(PosixError::NoSpace);
            }
        } else {
            self.free_file_range(znode, range.start..range.end.min(size))?;
        }
        if extends && range.end > size {
            let grows_only = true;
            self.change_size(znode, range.end, &SetAttributes::default(), grows_only)?;
        }
        Ok(())
    }

    /// Makes a range within the file a hole, piece by piece from its end.
    pub(crate) fn free_file_range(&self, znode: &Znode, range: Range<u64>) -> Result<()> {
        let mut range = range;
        while !range.is_empty() {
            let (piece, freed_blocks) = self.last_piece_of(znode, &range);
            range.end = piece.start;
            self.free_file_piece(znode, piece, freed_blocks, range.is_empty())?;
        }
        Ok(())
    }

    fn free_file_piece(
        &self,
        znode: &Znode,
        range: Range<u64>,
        freed_blocks: u64,
        is_last: bool,
    ) -> Result<()> {
        let length = range.end - range.start;
        let goes = |size| if range.end >= size { u64::MAX } else { length };
        let size = znode.state.read().size;
        znode.object.prepare_free(range.start, goes(size))?;
        let plan = Plan {
            write_bytes: 2 * u64::from(znode.object.block_size()),
            block_bytes: znode.object.block_size(),
            objects: 1,
            net_free: true,
            freed_blocks,
            ..Plan::default()
        };
        let tx = self.begin(plan)?;
        let _data = znode.data.lock();
        // Not the size that the caller saw: what was appended since is kept.
        let size = znode.state.read().size;
        // Beyond the end there is nothing to keep: the last block goes as a whole.
        self.hold_data_change(&tx, znode, false)?;
        znode.object.begin_free(&tx, range.start)?;
        if goes(size) != u64::MAX {
            znode.object.begin_free(&tx, range.end)?;
        }
        znode.object.free_range(&tx, range.start, goes(size))?;
        let mut state = znode.state.write();
        self.whole(&tx, || self.note_data_change(&tx, znode, &mut state, false))?;
        // A record that is replayed counts as applied with its last transaction.
        if state.links != 0 && (is_last || !self.replaying) {
            let change = Change::Truncate {
                object: znode.id(),
                offset: range.start,
                length,
            };
            self.record(&tx, Scope::File(znode.id()), &[change]);
        }
        Ok(())
    }
}

/// The block size of a one-block file after it came to have `end` bytes.
fn grown_block_size(block: u64, record: u64, end: u64) -> u64 {
    let power = block.is_power_of_two();
    if end <= block || power && block >= record {
        return block;
    }
    let wanted = end.next_multiple_of(SECTOR);
    if block > record {
        wanted.min(block.next_power_of_two())
    } else {
        wanted.min(record)
    }
}

/// Fails unless the file has data.
fn check_kind(znode: &Znode, state: &State) -> Result<()> {
    match znode.alive(state)?.file_type() {
        FileType::Regular => Ok(()),
        FileType::Directory => Err(PosixError::IsDirectory),
        FileType::Fifo
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Symlink
        | FileType::Socket => Err(PosixError::Invalid("data of a special file")),
    }
}

#[cfg(test)]
mod tests;
