//! What a cache device holds since an import before: its log blocks are followed, newest first.

use std::ops::Range;
use std::sync::Arc;

use format::l2arc::{CacheHeader, CopyEntry, FIRST_SWEEP, HEADER_OFFSET, LogBlock, LogPointer};
use sys::BufferMut;

use crate::device::CacheDevice;
use crate::error::L2ArcError;
use crate::index::Index;
use crate::sweep::Sweep;

/// Finds out what a device holds; at most `copies_max` copies are remembered by all devices. One whose header is not
/// the pool's, or damaged, holds nothing, and gets a header that says so.
///
/// # Errors
/// The header can be neither read nor written.
pub(crate) fn rebuild(
    device: &Arc<CacheDevice>,
    index: &Index,
    copies_max: u64,
) -> Result<(), L2ArcError> {
    let mut sweep = device.sweep.lock();
    let mut sector = BufferMut::zeroed(sweep.sector());
    device.device.read(HEADER_OFFSET, &mut sector)?;
    let header = CacheHeader::open(&sector).ok();
    let Some(header) = header.filter(|header| sweep.owns(header)) else {
        return sweep.write_header(device);
    };
    let (newest, second) = (
        LogPointer::from_words(header.newest),
        LogPointer::from_words(header.second),
    );
    let Some(newest) = newest.filter(|newest| is_inside(newest, &sweep.room)) else {
        return sweep.write_header(device);
    };
    sweep.is_first = header.flags & FIRST_SWEEP != 0;
    sweep.hand = newest.address + newest.stored_size;
    sweep.evict = header.evict.clamp(sweep.hand, sweep.room.end);
    follow(device, index, &mut sweep, (newest, second), copies_max);
    Ok(())
}

/// Follows both chains of log blocks backwards, to the first that cannot be believed.
fn follow(
    device: &Arc<CacheDevice>,
    index: &Index,
    sweep: &mut Sweep,
    (newest, second): (LogPointer, Option<LogPointer>),
    copies_max: u64,
) {
    let mut walk = Walk {
        last: sweep.hand,
        is_wrapped: false,
    };
    let (mut this, mut next) = (Some(newest), second);
    while let Some(pointer) = this
        && device.is_usable()
        && index.len() < copies_max
        && walk.goes_to(&pointer, sweep)
    {
        let Some(block) = read(device, &pointer, sweep.log_entries) else {
            break;
        };
        let copies: Vec<CopyEntry> = block.copies.into_iter().collect();
        let is_listed = |copy: &CopyEntry| lists(&pointer, copy, sweep);
        let copies: Vec<CopyEntry> = copies.into_iter().filter(is_listed).collect();
        if sweep.newest.is_none() {
            sweep.newest = Some(pointer);
        } else if sweep.second.is_none() {
            sweep.second = Some(pointer);
        }
        sweep.restore(device, index, &pointer, &copies);
        (this, next) = (next, block.previous);
    }
}

fn read(device: &CacheDevice, pointer: &LogPointer, entries: u64) -> Option<LogBlock> {
    let mut stored = BufferMut::zeroed(usize::try_from(pointer.stored_size).ok()?);
    device.device.read(pointer.address, &mut stored).ok()?;
    LogBlock::open(pointer, &stored, entries).ok()
}

fn is_inside(pointer: &LogPointer, room: &Range<u64>) -> bool {
    let end = pointer.address.checked_add(pointer.stored_size);
    pointer.address >= room.start
        && pointer.payload_start >= room.start
        && pointer.payload_start < room.end
        && end.is_some_and(|end| end <= room.end)
}

/// Whether a log block can list a copy: it lies between the copies before and the block.
fn lists(pointer: &LogPointer, copy: &CopyEntry, sweep: &Sweep) -> bool {
    let Some(end) = copy.place.checked_add(sweep.aligned(copy.physical_size)) else {
        return false;
    };
    let pieces = pieces(pointer, &sweep.room);
    let is_in = |piece: &Range<u64>| copy.place >= piece.start && end <= piece.end;
    !copy.address.gang && pieces.iter().any(is_in)
}

/// Where a log block and what it lists lie: in one piece, or around the end.
fn pieces(pointer: &LogPointer, room: &Range<u64>) -> [Range<u64>; 2] {
    let end = pointer.address.saturating_add(pointer.stored_size);
    if pointer.payload_start <= pointer.address {
        [pointer.payload_start..end, 0..0]
    } else {
        [pointer.payload_start..room.end, room.start..end]
    }
}

/// Where the walk is: it goes towards the start, and once around it.
struct Walk {
    last: u64,
    is_wrapped: bool,
}

impl Walk {
    /// Whether a log block is before the last one in the order of writing, and was not written over: so the walk ends.
    fn goes_to(&mut self, pointer: &LogPointer, sweep: &Sweep) -> bool {
        if !is_inside(pointer, &sweep.room) {
            return false;
        }
        let pieces = pieces(pointer, &sweep.room);
        if pointer.address >= self.last {
            if self.is_wrapped || sweep.is_first {
                return false;
            }
            self.is_wrapped = true;
        }
        self.last = pointer.address;
        let gone = sweep.hand..sweep.evict.max(sweep.hand);
        let is_gone = |piece: &Range<u64>| piece.start < gone.end && gone.start < piece.end;
        let is_ahead = |piece: &Range<u64>| piece.end > sweep.hand;
        if sweep.is_first {
            return !pieces.iter().any(is_ahead);
        }
        let is_behind = self.is_wrapped || pointer.address < sweep.hand;
        is_behind && !pieces.iter().any(is_gone)
    }
}
