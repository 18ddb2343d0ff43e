//! The write queue of a leaf: bounded in bytes, sorted by offset, merged, readable.
//!
//! Invariants: what is pending or being written covers the newest bytes of its ranges, so reads
//! take them from here; two writes of overlapping ranges are never on the device at once; a write
//! that replaces a pending one of the same range takes over its completions. Nothing lingers once
//! someone waits for its group; until then a few writes may, to be merged with those that follow.

use crate::group::WriteCompletion;
use crate::leaf::{DeviceHandle, Gate};
use crate::tunables;
use crate::{Failure, IoClass};
use base::Txg;
use base::clock::monotonic_ns;
use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::{self, JoinHandle};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use sys::Buffer;

static CLASS: LockClass = LockClass::new("vdev.queue", rank::VDEV + 10);

/// The sizes of a queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueConfig {
    /// The most bytes that are pending; a producer beyond writes itself. As much again is kept for
    /// writes that someone waits for: they do not stand in line behind those that nobody does.
    pub(crate) bytes_max: usize,
    /// Pending bytes at which threads begin to write unasked.
    pub(crate) start_bytes: usize,
    /// How many threads write.
    pub(crate) threads: usize,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self {
            bytes_max: 16 << 20,
            start_bytes: 512 << 10,
            threads: 2,
        }
    }
}

/// Which writes a thread does that is not the queue's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Help {
    /// Those that someone waits for, and no others: these may have to wait for their turn.
    Urgent,
    /// All, the urgent ones first.
    Any,
}

struct Pending {
    data: Buffer,
    completions: Vec<Arc<WriteCompletion>>,
    since_ns: u64,
}

/// Pending writes that lie one after the other, taken to be written in one operation.
struct Run {
    range: Range<u64>,
    pieces: Vec<(Buffer, Txg)>,
    completions: Vec<Vec<Arc<WriteCompletion>>>,
    /// Since when the piece that waited longest was pending.
    since_ns: u64,
}

/// The bytes of a run while they are being written.
struct Busy {
    range: Range<u64>,
    pieces: Vec<Buffer>,
}

#[derive(Default)]
struct State {
    pending: BTreeMap<u64, Pending>,
    /// Offsets of pending writes that someone waits for: written first.
    urgent: BTreeSet<u64>,
    bytes: usize,
    busy: Vec<Busy>,
    /// Where the last run ended: the next starts there, so that offsets rise.
    cursor: u64,
    idle_threads: usize,
    waiters: usize,
    /// Whether everything pending is to be written without delay.
    kicked: bool,
    closed: bool,
    /// Identity of the group that was registered last: most writes in a row are of one group.
    last_group: u64,
}

pub(crate) struct Queue {
    handle: Arc<DeviceHandle>,
    config: QueueConfig,
    state: Mutex<State>,
    work: Condvar,
    progress: Condvar,
    /// Writes that are pending or being written: 0 lets reads pass without the lock.
    count: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

static THREADS_CLASS: LockClass = LockClass::new("vdev.queue.threads", rank::VDEV + 5);

impl State {
    fn is_busy(&self, range: &Range<u64>) -> bool {
        self.busy
            .iter()
            .any(|busy| busy.range.start < range.end && range.start < busy.range.end)
    }

    /// Pending writes that overlap `range`, by rising offset.
    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Pending)> {
        // Pending writes do not overlap each other: only the last one that starts before the
        // range can reach into it.
        let before = self.pending.range(..range.start).next_back();
        let before = before.filter(|(offset, p)| **offset + p.data.len() as u64 > range.start);
        before
            .into_iter()
            .chain(self.pending.range(range))
            .map(|(offset, p)| (*offset, p))
    }

    /// Takes the next writes that can go to the device. Urgent ones and others are not mixed: who
    /// waits for a log block does not wait for its neighbours, nor does it wait as they do.
    fn take_run(&mut self, what: Help, gate: &Gate) -> Option<Run> {
        let free = |(offset, pending): (&u64, &Pending)| {
            let range = *offset..*offset + pending.data.len() as u64;
            (!self.is_busy(&range)).then_some(*offset)
        };
        let urgent = self
            .urgent
            .iter()
            .find_map(|offset| free((offset, self.pending.get(offset)?)));
        let is_urgent = urgent.is_some();
        let start = match what {
            Help::Urgent => urgent?,
            Help::Any => urgent
                .or_else(|| self.pending.range(self.cursor..).find_map(free))
                .or_else(|| self.pending.range(..self.cursor).find_map(free))?,
        };
        let bytes_max = if is_urgent {
            tunables::WRITE_BYTES_MAX.count()
        } else {
            gate.write_bytes_max()
        };
        let pieces_max = tunables::RUN_PIECES_MAX.count();
        let mut run = Run {
            range: start..start,
            pieces: Vec::new(),
            completions: Vec::new(),
            since_ns: u64::MAX,
        };
        while let Some(pending) = self.pending.get(&run.range.end) {
            let end = run.range.end + pending.data.len() as u64;
            let fits = (end - start) as usize <= bytes_max && run.pieces.len() < pieces_max;
            let differs = self.urgent.contains(&run.range.end) != is_urgent;
            let ends = !fits || differs || self.is_busy(&(run.range.end..end));
            if !run.pieces.is_empty() && ends {
                break;
            }
            let offset = run.range.end;
            let Some(pending) = self.pending.remove(&offset) else {
                break;
            };
            self.urgent.remove(&offset);
            run.range.end = end;
            let txg = pending
                .completions
                .last()
                .map_or(Txg(0), |completion| completion.group().txg());
            run.since_ns = run.since_ns.min(pending.since_ns);
            run.pieces.push((pending.data, txg));
            run.completions.push(pending.completions);
        }
        self.bytes -= (run.range.end - start) as usize;
        self.cursor = run.range.end;
        self.busy.push(Busy {
            range: run.range.clone(),
            pieces: run.pieces.iter().map(|piece| piece.0.clone()).collect(),
        });
        if self.pending.is_empty() {
            self.kicked = false;
        }
        Some(run)
    }

    /// Whether a thread should write now rather than wait for more to merge.
    fn wants_writing(&self, start_bytes: usize) -> bool {
        !self.pending.is_empty() && (self.kicked || self.closed || self.bytes >= start_bytes)
    }
}

impl Queue {
    pub(crate) fn new(handle: Arc<DeviceHandle>, config: QueueConfig) -> Arc<Self> {
        Arc::new(Self {
            handle,
            config,
            state: Mutex::new(&CLASS, State::default()),
            work: Condvar::new(),
            progress: Condvar::new(),
            count: AtomicUsize::new(0),
            threads: Mutex::new(&THREADS_CLASS, Vec::new()),
        })
    }

    /// Starts the threads, once. Without them (the system refuses) producers and waiters write.
    pub(crate) fn start(self: &Arc<Self>) {
        let mut threads = self.threads.lock();
        while threads.len() < self.config.threads {
            let queue = Arc::clone(self);
            // Whoever waits for a log to be durable waits for it.
            let start = thread::named("vdev-write", sys::thread::ORDINARY);
            match start.spawn(move || queue.work()) {
                Ok(thread) => threads.push(thread),
                Err(_) => break,
            }
        }
    }

    /// Adds a write at device offset `offset`. When the queue is full, the caller writes.
    pub(crate) fn push(
        self: &Arc<Self>,
        offset: u64,
        data: Buffer,
        completion: Arc<WriteCompletion>,
    ) {
        let len = data.len();
        let range = offset..offset + len as u64;
        let mut state = self.state.lock();
        loop {
            if state.closed {
                drop(state);
                let condition = self.handle.condition();
                let failure = Failure::Unavailable(condition.state, condition.aux);
                completion.report(&self.handle, Err(failure));
                return;
            }
            let replaces = state
                .pending
                .get(&offset)
                .is_some_and(|p| p.data.len() == len);
            let bytes_max = match completion.class() {
                IoClass::SyncWrite => self.config.bytes_max * 2,
                IoClass::SyncRead
                | IoClass::AsyncRead
                | IoClass::AsyncWrite
                | IoClass::Scan
                | IoClass::Trim => self.config.bytes_max,
            };
            let full = state.bytes + len > bytes_max && !state.pending.is_empty();
            if replaces || (!full && state.overlapping(range.clone()).next().is_none()) {
                break;
            }
            drop(state);
            let helped = self.help(Help::Any);
            state = self.state.lock();
            if !helped && !state.busy.is_empty() {
                state.waiters += 1;
                self.progress.wait(&mut state);
                state.waiters -= 1;
            }
        }
        self.insert(&mut state, offset, data, completion);
        if state.idle_threads > 0 && state.wants_writing(self.config.start_bytes) {
            self.work.notify_one();
        }
    }

    /// Adds a write, or replaces the pending one of the same range.
    fn insert(
        self: &Arc<Self>,
        state: &mut State,
        offset: u64,
        data: Buffer,
        completion: Arc<WriteCompletion>,
    ) {
        let group = completion.group();
        if state.last_group != group.id() {
            group.register(self);
            state.last_group = group.id();
        }
        // Looked at after registering: see `WriteGroup::wait`.
        state.kicked |= group.is_waited_for();
        if completion.class() == IoClass::SyncWrite {
            state.urgent.insert(offset);
        }
        let class = completion.class();
        match state.pending.entry(offset) {
            Entry::Occupied(mut old) => {
                old.get_mut().data = data;
                old.get_mut().completions.push(completion);
            }
            Entry::Vacant(place) => {
                state.bytes += data.len();
                place.insert(Pending {
                    data,
                    completions: vec![completion],
                    since_ns: monotonic_ns(),
                });
                self.handle.meters.class(class).pending.add(1);
                self.count.fetch_add(1, Ordering::Release);
                let bytes = i64::try_from(state.bytes).unwrap_or(i64::MAX);
                self.handle.meters.queued_bytes.set(bytes);
            }
        }
    }

    /// Has everything that is pending written without delay.
    pub(crate) fn kick(&self) {
        let mut state = self.state.lock();
        if !state.pending.is_empty() {
            state.kicked = true;
            self.work.notify_all();
        }
    }

    /// Writes one run on the caller's thread; false if there is none to be taken.
    pub(crate) fn help(&self, what: Help) -> bool {
        let Some(run) = self.state.lock().take_run(what, &self.handle.gate) else {
            return false;
        };
        self.handle.meters.producer_helps.increment();
        self.execute(run);
        true
    }

    /// Writes everything and waits until it is done.
    pub(crate) fn drain(&self) {
        loop {
            while self.help(Help::Any) {}
            let mut state = self.state.lock();
            if state.pending.is_empty() && state.busy.is_empty() {
                return;
            }
            if !state.busy.is_empty() {
                state.waiters += 1;
                self.progress.wait(&mut state);
                state.waiters -= 1;
            }
        }
    }

    /// Writes everything, ends the threads, and refuses further writes.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.work.notify_all();
        self.drain();
        let threads = std::mem::take(&mut *self.threads.lock());
        for thread in threads {
            let _ = thread.join();
        }
    }

    /// What is queued or being written of `range`, oldest first.
    pub(crate) fn newer_than_device(&self, range: Range<u64>) -> Vec<(u64, Buffer)> {
        if self.count.load(Ordering::Acquire) == 0 {
            return Vec::new();
        }
        let state = self.state.lock();
        let mut found = Vec::new();
        let overlaps = |b: &&Busy| b.range.start < range.end && range.start < b.range.end;
        for busy in state.busy.iter().filter(overlaps) {
            let mut offset = busy.range.start;
            for piece in &busy.pieces {
                let end = offset + piece.len() as u64;
                if offset < range.end && range.start < end {
                    found.push((offset, piece.clone()));
                }
                offset = end;
            }
        }
        found.extend(
            state
                .overlapping(range)
                .map(|(offset, p)| (offset, p.data.clone())),
        );
        found
    }

    /// A writing thread's life.
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if state.wants_writing(self.config.start_bytes)
                && let Some(run) = state.take_run(Help::Any, &self.handle.gate)
            {
                drop(state);
                self.execute(run);
                state = self.state.lock();
                continue;
            }
            if state.closed && state.pending.is_empty() {
                return;
            }
            state.idle_threads += 1;
            self.work.wait(&mut state);
            state.idle_threads -= 1;
        }
    }

    fn execute(&self, run: Run) {
        let class = run
            .completions
            .iter()
            .flatten()
            .next()
            .map_or(IoClass::AsyncWrite, |t| t.class());
        self.handle.meters.merged.add(run.pieces.len() as u64 - 1);
        let started_ns = monotonic_ns();
        self.started(&run, started_ns.saturating_sub(run.since_ns), class);
        let start = run.range.start;
        let results = match self.handle.write(start, &run.pieces, class) {
            Ok(()) => vec![Ok(()); run.pieces.len()],
            Err(failure) if run.pieces.len() == 1 => vec![Err(failure)],
            // One piece may have spoilt it for the others: each is tried on its own.
            Err(_) => {
                let mut offset = start;
                let mut each = Vec::new();
                for piece in &run.pieces {
                    each.push(
                        self.handle
                            .write(offset, std::slice::from_ref(piece), class),
                    );
                    offset += piece.0.len() as u64;
                }
                each
            }
        };
        let total_ns = monotonic_ns().saturating_sub(run.since_ns);
        self.handle.meters.class(class).total_ns.record(total_ns);
        for failure in results.iter().filter_map(|result| result.as_ref().err()) {
            self.handle.write_failed(failure);
        }
        // From now on the device answers, also to a reader who heard of this write's end. Told
        // before the range is free again: of two writes to one place, the group hears of the
        // older one first.
        self.landed(&run);
        for (result, completions) in results.into_iter().zip(&run.completions) {
            for completion in completions {
                completion.report(&self.handle, result.clone());
            }
        }
        self.finish(&run);
    }

    /// Counts a run that goes to the device; its pieces may be of other classes than the first.
    fn started(&self, run: &Run, waited_ns: u64, class: IoClass) {
        for completions in &run.completions {
            let queued_as = completions
                .first()
                .map_or(class, |completion| completion.class());
            self.handle.meters.class(queued_as).pending.add(-1);
        }
        self.handle
            .meters
            .class(class)
            .queue_wait_ns
            .record(waited_ns);
    }

    /// Serves no more reads from a run.
    fn landed(&self, run: &Run) {
        let mut state = self.state.lock();
        let mut busy = state.busy.iter_mut();
        if let Some(busy) = busy.find(|busy| busy.range.start == run.range.start) {
            busy.pieces = Vec::new();
        }
    }

    /// Forgets a run that is on the device.
    fn finish(&self, run: &Run) {
        let mut state = self.state.lock();
        state
            .busy
            .retain(|busy| busy.range.start != run.range.start);
        self.count.fetch_sub(run.pieces.len(), Ordering::Release);
        self.handle
            .meters
            .queued_bytes
            .set(i64::try_from(state.bytes).unwrap_or(i64::MAX));
        if state.waiters > 0 {
            self.progress.notify_all();
        }
        if state.closed {
            self.work.notify_all();
        } else if state.idle_threads > 0 && state.wants_writing(self.config.start_bytes) {
            self.work.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
