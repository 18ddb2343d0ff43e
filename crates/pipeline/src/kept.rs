//! What was read over the gaps between blocks, as it was on the devices: whoever reads one block of metadata after the
//! other soon wants what lay between.
//!
//! Invariant: a piece gives only blocks that were on disk, whole, before its bytes were read. So a piece has the last
//! txg that was on disk then, and a block that is younger is not looked for in it: its place may have held something
//! else. A block that is no younger, and to which a pointer still leads, has not moved or changed since; one that was
//! freed has no pointer, and what lies at its place now is younger. So nobody has to tell of writes and frees. What is
//! found is verified like anything else that comes from a device, and is not believed without a checksum.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, Source, Value};
use base::{Txg, VdevId};
use sys::{Buffer, BufferMut};

use crate::tunables;

static KEPT: LockClass = LockClass::new("pipeline.kept", rank::PIPELINE + 46);

/// A chunk of a device that is kept or let go as one.
const CHUNK_BYTES: u64 = 64 << 10;

/// Bytes that are read around blocks on trust, at most.
const CREDIT_BYTES_MAX: u64 = 8 << 20;
/// What finding a block is worth: where metadata does not lie together, little more is read than was asked for.
const CREDIT_BYTES_A_HIT: u64 = 64 << 10;

type Place = (VdevId, u64);

/// Part of a device, or all that was read of it.
struct Chunk {
    bytes: Box<[u8]>,
    /// Which of these were read.
    valid: Range<usize>,
    /// What was on disk when they were read.
    seen: Txg,
}

#[derive(Default)]
struct State {
    chunks: HashMap<Place, Chunk>,
    /// The oldest first.
    order: VecDeque<Place>,
}

/// See the module.
pub(crate) struct Kept {
    state: Mutex<State>,
    /// How many chunks there are: who reads pays one load while there are none.
    count: AtomicUsize,
    /// Bytes that may be read around blocks before something is found in what was.
    credit_bytes: AtomicU64,
    /// What was kept and found when [`Self::age`] looked last.
    uses_seen: AtomicU64,
    hit: Counter,
    /// What was there, and not the block.
    pub(crate) wrong: Counter,
    stored: Counter,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            state: Mutex::new(&KEPT, State::default()),
            count: AtomicUsize::new(0),
            credit_bytes: AtomicU64::new(CREDIT_BYTES_MAX),
            uses_seen: AtomicU64::new(0),
            hit: Counter::new(),
            wrong: Counter::new(),
            stored: Counter::new(),
        }
    }
}

/// The chunks of a range of a device, and which bytes of each belong to it.
fn chunks_of(start: u64, bytes: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let end = start.saturating_add(bytes);
    (start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)).map(move |chunk| {
        let base = chunk * CHUNK_BYTES;
        // A forged pointer can lead to the last of all chunks.
        let within =
            |at: u64| usize::try_from(at.clamp(base, base.saturating_add(CHUNK_BYTES)) - base);
        let (from, to) = (within(start), within(end));
        (chunk, from.unwrap_or(0)..to.unwrap_or(0))
    })
}

impl Chunk {
    /// Takes up more of what was read.
    fn take(&mut self, range: Range<usize>, data: &[u8], seen: Txg) {
        let touches = range.start <= self.valid.end && self.valid.start <= range.end;
        let covers = range.start <= self.valid.start && self.valid.end <= range.end;
        if covers || !touches {
            (self.valid, self.seen) = (range.clone(), seen);
        } else {
            self.valid = self.valid.start.min(range.start)..self.valid.end.max(range.end);
            self.seen = self.seen.min(seen);
        }
        self.bytes[range].copy_from_slice(data);
    }
}

impl Kept {
    /// Keeps what was read of a device from `start` on, when all up to `seen` was on disk; `limit_bytes` in all.
    pub(crate) fn keep(&self, (vdev, start): Place, data: &[u8], seen: Txg, limit_bytes: u64) {
        let max = usize::try_from(limit_bytes / CHUNK_BYTES).unwrap_or(usize::MAX);
        if seen == Txg(0) || max == 0 {
            return;
        }
        let mut rest = data;
        let mut state = self.state.lock();
        let State { chunks, order } = &mut *state;
        for (chunk, range) in chunks_of(start, data.len() as u64) {
            let Some((piece, others)) = rest.split_at_checked(range.len()) else {
                break;
            };
            rest = others;
            match chunks.entry((vdev, chunk)) {
                Entry::Occupied(mut chunk) => chunk.get_mut().take(range, piece, seen),
                Entry::Vacant(place) => {
                    order.push_back((vdev, chunk));
                    let bytes = vec![0; CHUNK_BYTES as usize].into_boxed_slice();
                    let valid = range.start..range.start;
                    place
                        .insert(Chunk { bytes, valid, seen })
                        .take(range, piece, seen);
                }
            }
        }
        while chunks.len() > max {
            let Some(oldest) = order.pop_front() else {
                break;
            };
            chunks.remove(&oldest);
        }
        self.count.store(chunks.len(), Ordering::Relaxed);
        self.stored.add(data.len() as u64);
    }

    /// The piece of a device that is read with one operation and has a short range in it, less what is kept already, as
    /// long as it pays to read that. `limit_bytes` as of [`Self::keep`].
    pub(crate) fn around(
        &self,
        vdev: VdevId,
        range: Range<u64>,
        seen: Txg,
        limit_bytes: u64,
    ) -> Option<Range<u64>> {
        let unit = tunables::RUN_BYTES.get() / CHUNK_BYTES * CHUNK_BYTES;
        let length = range.end.checked_sub(range.start)?;
        // What is longer was cut out of something longer still, whose other parts others read.
        if unit == 0 || limit_bytes < 2 * unit || length > unit / 2 {
            return None;
        }
        let start = range.start / unit * unit;
        let end = range.end.checked_next_multiple_of(unit)?;
        let Range { start, end } = self.missing(vdev, start..end, &range, seen);
        let more = (end - start).checked_sub(length)?;
        let left = |credit: u64| credit.checked_sub(more);
        let order = Ordering::Relaxed;
        let credit = &self.credit_bytes;
        credit.fetch_update(order, order, left).ok()?;
        Some(start..end)
    }

    /// A range of a device without what is kept of it, as of `seen` or later, before and after the part that is
    /// `wanted`.
    pub(crate) fn missing(
        &self,
        vdev: VdevId,
        range: Range<u64>,
        wanted: &Range<u64>,
        seen: Txg,
    ) -> Range<u64> {
        let Range { mut start, mut end } = range;
        if self.count.load(Ordering::Relaxed) == 0 {
            return start..end;
        }
        let state = self.state.lock();
        let valid = |chunk: u64| {
            let base = chunk * CHUNK_BYTES;
            let found = state.chunks.get(&(vdev, chunk));
            let found = found.filter(|chunk| chunk.seen >= seen);
            found.map(|chunk| base + chunk.valid.start as u64..base + chunk.valid.end as u64)
        };
        while start < wanted.start
            && let Some(kept) = valid(start / CHUNK_BYTES).filter(|kept| kept.contains(&start))
        {
            start = kept.end.min(wanted.start);
        }
        while end > wanted.end
            && let Some(kept) =
                valid((end - 1) / CHUNK_BYTES).filter(|kept| kept.contains(&(end - 1)))
        {
            end = kept.start.max(wanted.end);
        }
        start..end
    }

    /// Lets all go if nothing was kept or found since the last time, so that memory follows what is walked through.
    pub(crate) fn age(&self) {
        let uses = self.hit.get() + self.stored.get();
        let before = self.uses_seen.swap(uses, Ordering::Relaxed);
        if before == uses && self.count.load(Ordering::Relaxed) > 0 {
            let gone = std::mem::take(&mut *self.state.lock());
            self.count.store(0, Ordering::Relaxed);
            drop(gone);
        }
    }

    /// Something was found.
    pub(crate) fn earn(&self) {
        self.hit.increment();
        let more = |credit: u64| Some((credit + CREDIT_BYTES_A_HIT).min(CREDIT_BYTES_MAX));
        let order = Ordering::Relaxed;
        let _ = self.credit_bytes.fetch_update(order, order, more);
    }

    /// The bytes at a place, if they were read when all up to `birth` was on disk.
    pub(crate) fn get(&self, (vdev, start): Place, bytes: u64, birth: Txg) -> Option<Buffer> {
        if self.count.load(Ordering::Relaxed) == 0 || bytes > tunables::RUN_BYTES.get() {
            return None;
        }
        let state = self.state.lock();
        let part = |(chunk, range): (u64, Range<usize>)| {
            let chunk = state.chunks.get(&(vdev, chunk))?;
            let has = chunk.valid.start <= range.start && range.end <= chunk.valid.end;
            (has && birth <= chunk.seen).then(|| &chunk.bytes[range])
        };
        let all_there = chunks_of(start, bytes).all(|chunk| part(chunk).is_some());
        if !all_there {
            return None;
        }
        let mut found = BufferMut::scratch(usize::try_from(bytes).ok()?);
        let mut rest = &mut found[..];
        for piece in chunks_of(start, bytes).filter_map(part) {
            let (place, others) = rest.split_at_mut_checked(piece.len())?;
            place.copy_from_slice(piece);
            rest = others;
        }
        Some(found.freeze())
    }
}

impl Source for Kept {
    fn collect(&self, sink: &mut dyn FnMut(&str, Value)) {
        for (name, counter) in [
            ("hit", &self.hit),
            ("wrong", &self.wrong),
            ("stored_bytes", &self.stored),
        ] {
            sink(name, Value::Counter(counter.get()));
        }
        let held = self.count.load(Ordering::Relaxed) as u64 * CHUNK_BYTES;
        let level = held.cast_signed();
        sink(
            "held_bytes",
            Value::Gauge {
                level,
                high_water: level,
            },
        );
    }
}

#[cfg(test)]
mod tests;
