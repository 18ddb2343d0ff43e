//! Changing a volume: writes, zeroes, discards, flushes, another size.

use std::ops::Range;
use std::sync::atomic::Ordering;

use base::ByteOrder;
use dmu::{Reservation, Tx, tunables};
use dsl::volume::{DATA, Resizing};
use format::intent_log::Change;
use intent::{Data, Entry, Scope, SyncPolicy, WriteEntry};
use sys::Buffer;

use crate::tunables::{COPIED_BYTES_MAX, PIECE_BYTES};
use crate::volume::{Durability, Volume, Writing};
use crate::{Result, VolumeError};

impl Volume {
    /// What makes changes possible, unless they are refused.
    fn writing(&self) -> Result<&Writing> {
        self.check_open()?;
        let refused = !self.replaying && self.is_read_only();
        self.writing
            .as_ref()
            .filter(|_| !refused)
            .ok_or(VolumeError::ReadOnly)
    }

    /// Begins a transaction. No lock may be held: this waits for credit and for txgs.
    fn begin(&self, wanted: Reservation<'_>) -> Result<Tx> {
        let writing = self.writing()?;
        let admission = writing.admission.as_deref().filter(|_| !self.replaying);
        let reservation = Reservation {
            admission: admission.map(|admission| admission as _),
            ..wanted
        };
        let tx = Tx::assign(&writing.engine, &reservation)?;
        // That may have waited for as long as others like: see [`Volume::close`].
        self.writing()?;
        Ok(tx)
    }

    /// Whether changes made now are durable when the call that makes them returns.
    fn is_at_once(&self, durability: Durability) -> bool {
        let always = |writing: &Writing| writing.log.sync_policy() == SyncPolicy::Always;
        durability == Durability::AtOnce || self.writing.as_ref().is_some_and(always)
    }

    /// Writes `data` at `offset`. What fails in the middle has written the pieces before that, each as a whole.
    ///
    /// # Errors
    /// The range is not within the volume; it is read-only; there is no room; a block of which a part is kept cannot be
    /// read; or, of what is to be durable, it could not be made so.
    pub fn write_at(&self, offset: u64, data: &[u8], durability: Durability) -> Result<()> {
        self.writing()?;
        self.check_range(offset, data.len() as u64)?;
        let at_once = self.is_at_once(durability);
        let unit = self.piece_bytes();
        let mut at = offset;
        let mut left = data;
        while !left.is_empty() {
            // Pieces end where those of others would: blocks are then written whole.
            let length = unit - at % unit;
            let length = usize::try_from(length)
                .unwrap_or(usize::MAX)
                .min(left.len());
            let (piece, rest) = left.split_at(length);
            self.write_piece(at, self.cut(at, piece), at_once)?;
            at = at.saturating_add(length as u64);
            left = rest;
        }
        if at_once { self.commit() } else { Ok(()) }
    }

    /// Writes what buffers hold, one behind the other from `offset` on; one that is a block becomes it without a copy.
    /// What fails in the middle has written the pieces before that, each as a whole.
    ///
    /// # Errors
    /// As [`Volume::write_at`].
    pub fn write_buffers(
        &self,
        offset: u64,
        buffers: Vec<Buffer>,
        durability: Durability,
    ) -> Result<()> {
        self.writing()?;
        self.check_range(offset, length_of(&buffers))?;
        let at_once = self.is_at_once(durability);
        let unit = self.piece_bytes();
        let mut at = offset;
        let mut piece = Vec::new();
        let mut end = offset;
        for buffer in buffers {
            let next = end.saturating_add(buffer.len() as u64);
            if next.saturating_sub(at - at % unit) > unit && !piece.is_empty() {
                self.write_piece(at, std::mem::take(&mut piece), at_once)?;
                at = end;
            }
            end = next;
            piece.push(buffer);
        }
        if !piece.is_empty() {
            self.write_piece(at, piece, at_once)?;
        }
        if at_once { self.commit() } else { Ok(()) }
    }

    /// What one transaction writes at most; whole blocks.
    fn piece_bytes(&self) -> u64 {
        let block = u64::from(self.block_size()).max(1);
        PIECE_BYTES.get().max(1).next_multiple_of(block)
    }

    /// Copies of bytes that are to be written at `offset`, cut where blocks end.
    pub(crate) fn cut(&self, offset: u64, data: &[u8]) -> Vec<Buffer> {
        let block = self.block_size().max(1) as usize;
        let within = usize::try_from(offset % block as u64).unwrap_or(0);
        let (first, rest) = data.split_at(data.len().min(block - within));
        let pieces = std::iter::once(first).chain(rest.chunks(block));
        pieces
            .filter(|piece| !piece.is_empty())
            .map(Buffer::from_slice)
            .collect()
    }

    /// Writes in one transaction.
    pub(crate) fn write_piece(
        &self,
        offset: u64,
        buffers: Vec<Buffer>,
        at_once: bool,
    ) -> Result<()> {
        let length = length_of(&buffers);
        self.data.prepare_write(offset, length)?;
        let tx = self.begin(Reservation {
            write_bytes: length,
            block_bytes: self.block_size(),
            objects: 1,
            ..Reservation::default()
        })?;
        let entry = self.write_entry(offset, &buffers, at_once);
        let _one_at_a_time = self.changes.lock();
        // It may have been made smaller meanwhile.
        self.check_range(offset, length)?;
        self.data.begin_write(&tx, offset, length)?;
        let block = u64::from(self.block_size());
        let mut at = offset;
        for buffer in buffers {
            let length = buffer.len() as u64;
            if length == block && at.is_multiple_of(block) {
                self.data.write_block(&tx, at / block, buffer)?;
            } else {
                self.data.write(&tx, at, &buffer)?;
            }
            at = at.saturating_add(length);
        }
        self.record_write(&tx, entry)
    }

    fn write_entry(&self, offset: u64, buffers: &[Buffer], at_once: bool) -> WriteEntry {
        let length = length_of(buffers);
        let is_short = length <= COPIED_BYTES_MAX.get();
        WriteEntry {
            object: DATA,
            offset,
            length,
            data: if at_once && is_short {
                Data::Copied(
                    buffers
                        .iter()
                        .flat_map(|buffer| buffer.iter().copied())
                        .collect(),
                )
            } else {
                Data::Later
            },
        }
    }

    fn record_write(&self, tx: &Tx, entry: WriteEntry) -> Result<()> {
        let log = &self.writing.as_ref().ok_or(VolumeError::ReadOnly)?.log;
        if log.records() {
            log.append(tx, Scope::Object(DATA), vec![Entry::Write(entry)]);
        } else {
            log.append_nothing(tx);
        }
        Ok(())
    }

    /// Makes a range zeroes: whole blocks become holes, and of the others the bytes are written.
    ///
    /// # Errors
    /// As [`Volume::write_at`].
    pub fn write_zeroes(&self, offset: u64, length: u64, durability: Durability) -> Result<()> {
        self.writing()?;
        self.check_range(offset, length)?;
        self.free(offset..offset.saturating_add(length))?;
        if self.is_at_once(durability) {
            return self.commit();
        }
        Ok(())
    }

    /// Frees the blocks that lie within a range as a whole; they read as zeroes then. The rest stays as it is.
    ///
    /// # Errors
    /// As [`Volume::write_at`].
    pub fn discard(&self, offset: u64, length: u64, durability: Durability) -> Result<()> {
        self.writing()?;
        self.check_range(offset, length)?;
        let size = u64::from(self.block_size()).max(1);
        let end = offset.saturating_add(length);
        let first = offset.div_ceil(size).saturating_mul(size);
        self.free(first..end / size * size)?;
        if self.is_at_once(durability) {
            return self.commit();
        }
        Ok(())
    }

    /// Makes a range a hole, piece by piece from its end.
    pub(crate) fn free(&self, mut range: Range<u64>) -> Result<()> {
        while range.start < range.end {
            let limit = tunables::FREE_BLOCKS_PIECE.get();
            let piece = self.data.last_free_piece(range.start, range.end, limit);
            self.free_piece(piece.offset..range.end, range.start, piece.cost_blocks)?;
            range.end = piece.offset;
        }
        Ok(())
    }

    /// Frees the end of a range that begins at `start`.
    fn free_piece(&self, range: Range<u64>, start: u64, freed_blocks: u64) -> Result<()> {
        let length = range.end - range.start;
        self.data.prepare_free(range.start, length)?;
        let block = self.block_size();
        let tx = self.begin(Reservation {
            write_bytes: 2 * u64::from(block),
            block_bytes: block,
            objects: 1,
            net_free: true,
            freed_blocks,
            ..Reservation::default()
        })?;
        let _one_at_a_time = self.changes.lock();
        self.data.begin_free(&tx, range.start)?;
        self.data.begin_free(&tx, range.end)?;
        self.data.free_range(&tx, range.start, length)?;
        let log = &self.writing.as_ref().ok_or(VolumeError::ReadOnly)?.log;
        // A record that is replayed counts as applied with its last transaction.
        if self.replaying && range.start != start {
            return Ok(());
        }
        if !log.records() {
            log.append_nothing(&tx);
            return Ok(());
        }
        let change = Change::Truncate {
            object: DATA,
            offset: range.start,
            length,
        };
        let entry = Entry::Record(change.encode(ByteOrder::NATIVE));
        log.append(&tx, Scope::Object(DATA), vec![entry]);
        Ok(())
    }

    fn commit(&self) -> Result<()> {
        let Some(writing) = &self.writing else {
            return Ok(());
        };
        writing.log.commit(DATA)?;
        // What was taken out of service meanwhile is not called durable.
        if self.objects.is_stopped() && writing.log.sync_policy() != SyncPolicy::Disabled {
            return Err(VolumeError::Closed);
        }
        Ok(())
    }

    /// Makes durable what was changed so far, by anybody.
    ///
    /// # Errors
    /// It could not be written: the pool has stopped, or the volume was taken out of service.
    pub fn flush(&self) -> Result<()> {
        self.check_open()?;
        self.commit()
    }

    /// Gives it another size, which is durable when this returns. What is beyond a smaller one is freed.
    ///
    /// # Errors
    /// The size is no whole number of blocks; the volume is read-only; it cannot be written.
    pub fn resize(&self, size: u64) -> Result<()> {
        let block_size = self.block_size();
        if size == 0 || !size.is_multiple_of(u64::from(block_size)) {
            return Err(VolumeError::Unaligned { size, block_size });
        }
        self.check_open()?;
        let writing = self.writing.as_ref().ok_or(VolumeError::ReadOnly)?;
        let old = self.size();
        if size < old {
            // From now on nobody writes there, nor reads what goes.
            let one_at_a_time = self.changes.lock();
            self.size.store(size, Ordering::Release);
            drop(one_at_a_time);
        }
        let resized = self.store_size(writing, old, size);
        match &resized {
            Ok(()) => self.size.store(size, Ordering::Release),
            Err(_) => self.size.store(old, Ordering::Release),
        }
        resized
    }

    fn store_size(&self, writing: &Writing, old: u64, size: u64) -> Result<()> {
        // Not what a property forbids: who changes the size is not who writes.
        let begin = |wanted: Reservation<'_>| -> Result<Tx> {
            let tx = Tx::assign(&writing.engine, &wanted)?;
            self.check_open()?;
            Ok(tx)
        };
        let mut end = u64::MAX;
        while size < old && end > size {
            let limit = tunables::FREE_BLOCKS_PIECE.get();
            let piece = self.data.last_free_piece(size, end, limit);
            self.data.prepare_free(piece.offset, u64::MAX)?;
            let tx = begin(Reservation {
                objects: 1,
                net_free: true,
                freed_blocks: piece.cost_blocks,
                ..Reservation::default()
            })?;
            let _one_at_a_time = self.changes.lock();
            self.data.free_range(&tx, piece.offset, u64::MAX)?;
            writing.log.append_nothing(&tx);
            end = piece.offset;
        }
        let stored = Resizing::open(&self.objects)?;
        let tx = begin(Reservation {
            names: 1,
            objects: 1,
            net_free: size < old,
            ..Reservation::default()
        })?;
        stored.resize(&tx, old, size)?;
        drop(tx);
        // Records of what is written beyond the old size must not be there without the new one.
        writing.engine.wait_synced(None)?;
        Ok(())
    }

    /// Refuses all from now on, and waits for nothing: who lets go of the pool then writes it out, or gives it up.
    pub fn stop(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Waits until all changes are durable, and refuses others from then on: somebody else may open the volume then.
    ///
    /// # Errors
    /// Changes could not be written.
    pub fn close(&self) -> Result<()> {
        if self.objects.is_stopped() || self.closed.swap(true, Ordering::SeqCst) {
            self.closed.store(true, Ordering::SeqCst);
            return Ok(());
        }
        // Who waited for a transaction meanwhile sees that it is closed; who has one ends with its txg.
        if let Some(writing) = &self.writing {
            writing.engine.wait_synced(None)?;
        }
        Ok(())
    }
}

/// The bytes of buffers together.
fn length_of(buffers: &[Buffer]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}
