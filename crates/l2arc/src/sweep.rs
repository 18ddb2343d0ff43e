//! Writing a cache device: round and round, copies and the log blocks that list them.
//!
//! The hand is where the next write goes. What lies before it, in its way, is forgotten before it is written over, some
//! way ahead; up to where, the header says, so that an import believes no log block of copies that are no more.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use base::clock::monotonic_ns;
use base::{ByteOrder, Guid};
use codec::{Checksum, Salt};
use format::l2arc::{self, CacheHeader, CopyEntry, LogBlock, LogPointer};
use sys::BufferMut;

use crate::device::CacheDevice;
use crate::error::L2ArcError;
use crate::index::{CopyKey, Index, Place};
use crate::offers::Offer;
use crate::tunables;

/// What is forgotten ahead of the hand: such a part of the room, …
const AHEAD_SHARE: u64 = 64;
/// … but at most so many bytes.
const AHEAD_BYTES_MAX: u64 = 64 << 20;

/// A copy on the device.
#[derive(Clone, Copy, Debug)]
struct Held {
    key: CopyKey,
    offset: u64,
    bytes: u64,
}

/// See the module.
pub(crate) struct Sweep {
    pool: Guid,
    device: Guid,
    ashift: u32,
    pub(crate) room: Range<u64>,
    pub(crate) log_entries: u64,
    pub(crate) hand: u64,
    pub(crate) evict: u64,
    pub(crate) is_first: bool,
    pub(crate) newest: Option<LogPointer>,
    pub(crate) second: Option<LogPointer>,
    /// Oldest first.
    copies: VecDeque<Held>,
    /// Log blocks: where, and how many bytes. Oldest first.
    logs: VecDeque<(u64, u64)>,
    /// What the next log block lists.
    listed: Vec<CopyEntry>,
    listed_bytes: u64,
    listed_start: u64,
}

impl Sweep {
    /// Of a device that holds nothing; none if it has no room.
    pub(crate) fn new(pool: Guid, device: Guid, ashift: u32, size: u64) -> Option<Self> {
        let room = l2arc::room(size, ashift)?;
        Some(Self {
            pool,
            device,
            ashift,
            log_entries: l2arc::log_entries(&room),
            hand: room.start,
            evict: room.start,
            listed_start: room.start,
            is_first: true,
            newest: None,
            second: None,
            copies: VecDeque::new(),
            logs: VecDeque::new(),
            listed: Vec::new(),
            listed_bytes: 0,
            room,
        })
    }

    pub(crate) const fn room_bytes(&self) -> u64 {
        self.room.end - self.room.start
    }

    /// Bytes that so many take on the device.
    pub(crate) const fn aligned(&self, bytes: u64) -> u64 {
        bytes.next_multiple_of(l2arc::header_size(self.ashift) as u64)
    }

    /// Bytes of the header.
    pub(crate) const fn sector(&self) -> usize {
        l2arc::header_size(self.ashift)
    }

    /// Whether a header is that of this device as it is.
    pub(crate) fn owns(&self, header: &CacheHeader) -> bool {
        header.pool == self.pool
            && header.device == self.device
            && header.start == self.room.start
            && header.end == self.room.end
            && header.log_entries == self.log_entries
    }

    /// Writes as many copies of what was offered as there are in a unit, and the log block that is due then.
    ///
    /// # Errors
    /// The device cannot be written.
    pub(crate) fn write_unit(
        &mut self,
        device: &Arc<CacheDevice>,
        index: &Index,
        offers: &mut VecDeque<Offer>,
    ) -> Result<(), L2ArcError> {
        let unit = self.next_unit(index, offers);
        let bytes: u64 = unit.iter().map(|offer| self.bytes_of(offer)).sum();
        if bytes == 0 {
            return Ok(());
        }
        self.make_room(device, index, bytes)?;
        let mut buffer = BufferMut::zeroed(usize::try_from(bytes).unwrap_or_default());
        let mut rest = &mut buffer[..];
        for offer in &unit {
            let taken = usize::try_from(self.bytes_of(offer)).unwrap_or_default();
            let (place, after) = rest.split_at_mut(taken.min(rest.len()));
            place[..offer.stored.len()].copy_from_slice(&offer.stored);
            rest = after;
        }
        self.put(device, self.hand, &buffer)?;
        for offer in unit {
            self.hold(device, index, &offer);
        }
        if self.log_entries > 0 && self.listed.len() as u64 >= self.log_entries {
            self.write_log(device, index)?;
        }
        Ok(())
    }

    fn bytes_of(&self, offer: &Offer) -> u64 {
        self.aligned(offer.stored.len() as u64)
    }

    /// Offers for one write, as many as the log block that is being filled has places for.
    fn next_unit(&self, index: &Index, offers: &mut VecDeque<Offer>) -> Vec<Offer> {
        let mut unit: Vec<Offer> = Vec::new();
        let mut bytes = 0;
        let places = match self.log_entries {
            0 => l2arc::LOG_ENTRIES_MAX,
            entries => entries.saturating_sub(self.listed.len() as u64),
        };
        while let Some(next) = offers.front() {
            let more = self.bytes_of(next);
            let is_full = unit.len() as u64 >= places;
            let is_large = bytes > 0 && bytes + more > tunables::WRITE_UNIT_BYTES.get();
            if is_full || is_large {
                break;
            }
            let Some(next) = offers.pop_front() else {
                break;
            };
            let is_known = index.contains(&next.key());
            let is_twice = unit.iter().any(|other| other.key() == next.key());
            if more > 0 && more <= self.room_bytes() / 2 && !is_known && !is_twice {
                bytes += more;
                unit.push(next);
            }
        }
        unit
    }

    /// A copy lies at the hand.
    fn hold(&mut self, device: &Arc<CacheDevice>, index: &Index, offer: &Offer) {
        let (key, offset, bytes) = (offer.key(), self.hand, self.bytes_of(offer));
        let place = Place {
            device: Arc::clone(device),
            offset,
            size: offer.stored.len() as u64,
        };
        self.hand += bytes;
        if self.log_entries > 0 {
            if self.listed.is_empty() {
                self.listed_start = offset;
            }
            self.listed_bytes += bytes;
            self.listed.push(CopyEntry {
                address: offer.address,
                birth: offer.birth,
                logical_size: offer.logical_size,
                physical_size: offer.stored.len() as u64,
                place: offset,
                compression: offer.compression,
                is_metadata: offer.is_metadata,
                is_encrypted: offer.is_encrypted,
                is_prefetched: offer.is_prefetched,
            });
        }
        index.add(key, place);
        self.copies.push_back(Held { key, offset, bytes });
        device.meters.in_use_bytes.add(bytes.cast_signed());
    }

    /// Sees to it that nobody looks for copies where the next so many bytes go.
    fn make_room(
        &mut self,
        device: &CacheDevice,
        index: &Index,
        bytes: u64,
    ) -> Result<(), L2ArcError> {
        let mut is_changed = false;
        if self.hand + bytes > self.room.end {
            self.forget_to(device, index, self.room.end);
            (self.hand, self.evict) = (self.room.start, self.room.start);
            self.is_first = false;
            // A log block lists what lies before it in one piece.
            self.listed.clear();
            self.listed_bytes = 0;
            is_changed = true;
        }
        let end = self.hand + bytes;
        if self.is_first {
            self.evict = self.evict.max(end);
        } else if end > self.evict {
            let ahead = (self.room_bytes() / AHEAD_SHARE).min(AHEAD_BYTES_MAX);
            let target = self.aligned(end + ahead).min(self.room.end);
            self.forget_to(device, index, target);
            self.evict = target;
            is_changed = true;
        }
        if is_changed {
            self.write_header(device)?;
        }
        Ok(())
    }

    /// Forgets what lies between the hand and an offset.
    fn forget_to(&mut self, device: &CacheDevice, index: &Index, target: u64) {
        let way = self.hand..target;
        while let Some(oldest) = self.copies.front().copied()
            && !self.is_first
            && way.contains(&oldest.offset)
        {
            self.forget(device, index, oldest);
        }
        while let Some((offset, bytes)) = self.logs.front().copied()
            && !self.is_first
            && way.contains(&offset)
        {
            self.logs.pop_front();
            device.meters.in_use_bytes.add(-bytes.cast_signed());
        }
    }

    fn forget(&mut self, device: &CacheDevice, index: &Index, oldest: Held) {
        self.copies.pop_front();
        index.remove(&oldest.key, device, oldest.offset);
        device.meters.in_use_bytes.add(-oldest.bytes.cast_signed());
    }

    /// Forgets the oldest copies, so that the index has at most so many.
    pub(crate) fn shrink_to(&mut self, device: &CacheDevice, index: &Index, copies: u64) {
        while index.len() > copies
            && let Some(oldest) = self.copies.front().copied()
        {
            self.forget(device, index, oldest);
        }
    }

    /// Writes the log block that lists the last copies, and a header that leads to it.
    fn write_log(&mut self, device: &CacheDevice, index: &Index) -> Result<(), L2ArcError> {
        let listed = std::mem::take(&mut self.listed);
        let payload_bytes = std::mem::take(&mut self.listed_bytes);
        let block = LogBlock {
            previous: self.second,
            copies: listed,
        };
        let (stored, compression) = block.seal(self.ashift)?;
        let stored_size = stored.len() as u64;
        let (payload_start, before) = (self.listed_start, self.hand);
        self.make_room(device, index, stored_size)?;
        if self.hand != before {
            // It would have been past the end: its copies are forgotten by the next import.
            return Ok(());
        }
        self.put(device, self.hand, &stored)?;
        let order = ByteOrder::NATIVE;
        let salt = Salt::default();
        let pointer = LogPointer {
            address: self.hand,
            stored_size,
            payload_bytes,
            payload_start,
            compression,
            checksum: codec::checksum(Checksum::Fletcher4, &stored, order, &salt),
        };
        (self.newest, self.second) = (Some(pointer), self.newest);
        self.logs.push_back((self.hand, stored_size));
        self.hand += stored_size;
        self.evict = self.evict.max(self.hand);
        device.meters.log_blocks.increment();
        device.meters.in_use_bytes.add(stored_size.cast_signed());
        self.write_header(device)
    }

    /// Writes the header.
    ///
    /// # Errors
    /// The device cannot be written.
    pub(crate) fn write_header(&self, device: &CacheDevice) -> Result<(), L2ArcError> {
        let words = |pointer: Option<LogPointer>| pointer.map_or([0; 8], |found| found.to_words());
        let header = CacheHeader {
            magic: l2arc::MAGIC,
            version: l2arc::VERSION,
            pool: self.pool,
            device: self.device,
            log_entries: self.log_entries,
            evict: self.evict,
            flags: u64::from(self.is_first) * l2arc::FIRST_SWEEP,
            start: self.room.start,
            end: self.room.end,
            newest: words(self.newest),
            second: words(self.second),
            log_bytes: self.logs.iter().map(|(_, bytes)| bytes).sum(),
            log_count: self.logs.len() as u64,
            trim_time: 0,
            trim_state: 0,
        };
        self.put(device, l2arc::HEADER_OFFSET, &header.seal(self.ashift)?)
    }

    fn put(&self, device: &CacheDevice, offset: u64, bytes: &[u8]) -> Result<(), L2ArcError> {
        let begun_ns = monotonic_ns();
        device.device.write(offset, bytes)?;
        let taken_ns = monotonic_ns().saturating_sub(begun_ns);
        device.meters.write_ns.record(taken_ns);
        device.meters.write_bytes.add(bytes.len() as u64);
        Ok(())
    }

    /// A log block of before and what it lists are older than all that is known.
    pub(crate) fn restore(
        &mut self,
        device: &Arc<CacheDevice>,
        index: &Index,
        pointer: &LogPointer,
        copies: &[CopyEntry],
    ) {
        self.logs.push_front((pointer.address, pointer.stored_size));
        let mut bytes = pointer.stored_size;
        for copy in copies.iter().rev() {
            let key = CopyKey {
                vdev: copy.address.vdev,
                offset: copy.address.offset,
                birth: copy.birth,
            };
            let place = Place {
                device: Arc::clone(device),
                offset: copy.place,
                size: copy.physical_size,
            };
            let held = Held {
                key,
                offset: copy.place,
                bytes: self.aligned(copy.physical_size),
            };
            if index.add(key, place) {
                self.copies.push_front(held);
                bytes += held.bytes;
                device.meters.rebuilt.increment();
            }
        }
        device.meters.in_use_bytes.add(bytes.cast_signed());
    }
}
