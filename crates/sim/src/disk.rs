//! The simulated disk.

use crate::crash::{Fate, Fates};
use crate::{Fault, FaultKind, SparseImage};
use base::random::{Rng, SeededRng};
use device::{BlockDevice, DeviceError, DeviceKind, FileDevice, Operation};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use sys::{Buffer, BufferMut, Errno};

/// The common order of events on several disks of one pool.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    next: Arc<AtomicU64>,
}

impl Timeline {
    /// A timeline at moment 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many events there were: a crash at moment `n` is before the `n`-th event (from 0).
    #[must_use]
    pub fn now(&self) -> u64 {
        self.next.load(Ordering::SeqCst)
    }

    fn tick(&self) -> u64 {
        self.next.fetch_add(1, Ordering::SeqCst)
    }
}

/// What discarded bytes read as: what was there is gone for certain, and it is not zero either.
pub(crate) const DISCARDED: u8 = 0xD5;

/// Something that happened to a disk.
#[derive(Clone, Debug)]
pub enum Event {
    /// A write that returned well (whatever became of it).
    Write {
        /// Where.
        offset: u64,
        /// What.
        data: Buffer,
    },
    /// A flush that returned well.
    Flush,
    /// A flush that failed.
    FlushFailed,
    /// Space was discarded.
    Discard {
        /// Where.
        offset: u64,
        /// How much.
        len: u64,
    },
}

struct Logged {
    moment: u64,
    event: Event,
    /// A later flush does not make it durable: a flush that failed has forgotten it.
    orphaned: bool,
}

struct State {
    /// What reads see.
    visible: SparseImage,
    /// What is on the medium for certain.
    durable: SparseImage,
    log: Vec<Logged>,
    /// Where in the log `durable` stands.
    durable_through: usize,
    /// `durable` as it was after each good flush: (log length then, content).
    checkpoints: Vec<(usize, SparseImage)>,
    faults: Vec<Fault>,
    failed: bool,
    writable: bool,
    /// Flushes wait.
    held: bool,
}

/// A disk in memory that records what happens to it. Clones are the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
}

struct Shared {
    name: Arc<str>,
    seed: u64,
    size: u64,
    sector_size: u32,
    timeline: Timeline,
    state: Mutex<State>,
    freed: Condvar,
}

impl SimulatedDisk {
    /// A disk of zeros.
    #[must_use]
    pub fn new(size: u64, seed: u64) -> Self {
        Self::on_timeline(size, seed, &Timeline::new())
    }

    /// A disk of zeros that shares the order of events with others.
    #[must_use]
    pub fn on_timeline(size: u64, seed: u64, timeline: &Timeline) -> Self {
        Self::from_image(SparseImage::new(), size, seed, timeline)
    }

    /// A disk with that content, all of it durable.
    #[must_use]
    pub fn from_image(image: SparseImage, size: u64, seed: u64, timeline: &Timeline) -> Self {
        let state = State {
            visible: image.clone(),
            durable: image.clone(),
            log: Vec::new(),
            durable_through: 0,
            checkpoints: vec![(0, image)],
            faults: Vec::new(),
            failed: false,
            writable: true,
            held: false,
        };
        Self {
            shared: Arc::new(Shared {
                name: format!("simulated disk {seed:#x}").into(),
                seed,
                size,
                sector_size: 512,
                timeline: timeline.clone(),
                state: Mutex::new(state),
                freed: Condvar::new(),
            }),
        }
    }

    /// A disk with the content of a file.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn from_file(path: &Path, seed: u64) -> Result<Self, DeviceError> {
        const STEP: usize = 1 << 20;
        let file = FileDevice::open(path, device::Access::ReadOnly)?;
        let mut image = SparseImage::new();
        let mut buffer = BufferMut::zeroed(STEP);
        for offset in (0..file.size()).step_by(STEP) {
            let len = (file.size() - offset).min(STEP as u64) as usize;
            file.read(offset, &mut buffer[..len])?;
            for (index, piece) in buffer[..len].chunks(4096).enumerate() {
                if piece.iter().any(|byte| *byte != 0) {
                    image.write(offset + index as u64 * 4096, piece);
                }
            }
        }
        Ok(Self::from_image(image, file.size(), seed, &Timeline::new()))
    }

    /// Writes what reads see to a new, sparse file, so that other tools can look at it.
    ///
    /// # Errors
    /// If the file cannot be made.
    pub fn write_to_file(&self, path: &Path) -> Result<(), DeviceError> {
        let image = self.snapshot();
        let file = FileDevice::create(path, self.shared.size)?;
        // A misdirected write may reach beyond the end.
        let within = |(offset, _): &(u64, &[u8])| *offset < self.shared.size;
        for (offset, bytes) in image.stretches().filter(within) {
            let len = (self.shared.size - offset).min(bytes.len() as u64) as usize;
            file.write(offset, &bytes[..len])?;
        }
        file.flush()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere in a test leaves the disk as it was: every change is one step.
        self.shared
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// What reads see now.
    #[must_use]
    pub fn snapshot(&self) -> SparseImage {
        self.state().visible.clone()
    }

    /// How many events are in the log: crash points are 0 to this.
    #[must_use]
    pub fn log_len(&self) -> usize {
        self.state().log.len()
    }

    /// The event `index` of the log.
    #[must_use]
    pub fn event(&self, index: usize) -> Option<Event> {
        self.state()
            .log
            .get(index)
            .map(|logged| logged.event.clone())
    }

    /// Takes what reads see as durable and begins the log anew.
    pub fn forget_log(&self) {
        let mut state = self.state();
        state.durable = state.visible.clone();
        state.durable_through = 0;
        state.log.clear();
        state.checkpoints = vec![(0, state.visible.clone())];
    }

    /// The disk after a power loss just before event `index` of its log.
    #[must_use]
    pub fn crash_at(&self, index: usize, seed: u64) -> Self {
        let state = self.state();
        let index = index.min(state.log.len());
        let (from, _) = last_checkpoint(&state, index);
        let uncovered = state.log[from..index].iter().filter(|l| is_write(&l.event));
        let fates = Fates::new(seed ^ self.shared.seed.rotate_left(32), uncovered.count());
        drop(state);
        let mut nth = 0;
        self.crash_with(index, seed, &mut |offset, data| {
            let fate = fates.of(
                nth,
                sectors(&self.range(offset, data.len()), self.sector()).count(),
            );
            nth += 1;
            fate
        })
    }

    /// The disk after a power loss at that moment of its timeline.
    #[must_use]
    pub fn crash_at_moment(&self, moment: u64, seed: u64) -> Self {
        let index = self
            .state()
            .log
            .partition_point(|logged| logged.moment < moment);
        self.crash_at(index, seed)
    }

    /// The disk after a power loss just before event `index`, where `fate` decides about each
    /// write (offset, bytes) that no good flush covered, in their order.
    #[must_use]
    pub fn crash_with(
        &self,
        index: usize,
        seed: u64,
        fate: &mut dyn FnMut(u64, &[u8]) -> Fate,
    ) -> Self {
        let state = self.state();
        let index = index.min(state.log.len());
        let (from, image) = last_checkpoint(&state, index);
        let mut image = image.clone();
        for logged in &state.log[from..index] {
            match &logged.event {
                Event::Write { offset, data } => {
                    let fate = fate(*offset, data);
                    self.apply(&mut image, *offset, data, &fate);
                }
                // Needs no flush: the worst for who relied on what was there.
                Event::Discard { offset, len } => image.fill(*offset, *len, DISCARDED),
                Event::Flush | Event::FlushFailed => {}
            }
        }
        drop(state);
        Self::from_image(image, self.shared.size, seed, &Timeline::new())
    }

    /// The disk after a power loss now.
    #[must_use]
    pub fn crash(&self, seed: u64) -> Self {
        self.crash_at(usize::MAX, seed)
    }

    /// Adds a fault.
    pub fn inject(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Ends all faults. What they did stays done.
    pub fn heal(&self) {
        self.state().faults.clear();
    }

    /// Rot: turns over one bit in each of `count` places of `range`, by `seed`. Returns the places.
    pub fn rot(&self, range: Range<u64>, count: usize, seed: u64) -> Vec<u64> {
        let rng = SeededRng::new(seed);
        let mut state = self.state();
        let mut places = Vec::new();
        for _ in 0..count {
            let place = range.start + rng.below(range.end.saturating_sub(range.start));
            let bit = 1u8 << rng.below(8);
            let mut byte = [0];
            let State {
                visible, durable, ..
            } = &mut *state;
            for image in [visible, durable] {
                image.read(place, &mut byte);
                image.write(place, &[byte[0] ^ bit]);
            }
            places.push(place);
        }
        // Rot is on the medium at once, and no later crash undoes it.
        let durable = state.durable.clone();
        if let Some(last) = state.checkpoints.last_mut() {
            last.1 = durable;
        }
        places
    }

    /// Makes the disk refuse writes, or take them again.
    pub fn set_writable(&self, writable: bool) {
        self.state().writable = writable;
    }

    /// Holds flushes up, or lets them go on.
    pub fn hold_flushes(&self, held: bool) {
        self.state().held = held;
        self.shared.freed.notify_all();
    }

    fn sector(&self) -> u64 {
        u64::from(self.shared.sector_size)
    }

    const fn range(&self, offset: u64, len: usize) -> Range<u64> {
        offset..offset + len as u64
    }

    fn apply(&self, image: &mut SparseImage, offset: u64, data: &[u8], fate: &Fate) {
        match fate {
            Fate::Kept => image.write(offset, data),
            Fate::Lost => {}
            Fate::Torn(kept) => {
                let range = self.range(offset, data.len());
                for (sector, kept) in sectors(&range, self.sector()).zip(kept) {
                    if *kept {
                        let from = (sector.start - offset) as usize;
                        let to = (sector.end - offset) as usize;
                        image.write(sector.start, &data[from..to]);
                    }
                }
            }
        }
    }

    fn io_error(&self, operation: Operation, range: &Range<u64>, error: Errno) -> DeviceError {
        DeviceError::Io {
            device: Arc::clone(&self.shared.name),
            operation,
            offset: range.start,
            len: range.end - range.start,
            error,
        }
    }

    fn flush_error(&self) -> DeviceError {
        DeviceError::FlushFailed {
            device: Arc::clone(&self.shared.name),
            error: Errno::IO,
        }
    }

    fn check(
        &self,
        operation: Operation,
        offset: u64,
        len: u64,
    ) -> Result<Range<u64>, DeviceError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.shared.size => Ok(offset..end),
            _ => Err(DeviceError::OutOfRange {
                device: Arc::clone(&self.shared.name),
                operation,
                offset,
                len,
                size: self.shared.size,
            }),
        }
    }

    fn write_whole(&self, offset: u64, data: Buffer) -> Result<(), DeviceError> {
        let range = self.check(Operation::Write, offset, data.len() as u64)?;
        let mut state = self.state();
        if !state.writable {
            let device = Arc::clone(&self.shared.name);
            return Err(DeviceError::ReadOnly { device });
        }
        if state.failed {
            return Err(self.flush_error());
        }
        let (mut offset, mut data) = (offset, data);
        let mut struck = None;
        for fault in &mut state.faults {
            let read_or_flush = matches!(
                fault.kind,
                FaultKind::ReadError | FaultKind::RottenRead | FaultKind::FlushError
            );
            if !read_or_flush && fault.strikes(&range) {
                struck = Some(fault.kind.clone());
                break;
            }
        }
        match struck {
            Some(FaultKind::HostFull) => {
                let device = Arc::clone(&self.shared.name);
                return Err(DeviceError::HostFull { device });
            }
            Some(FaultKind::WriteError) => {
                return Err(self.io_error(Operation::Write, &range, Errno::IO));
            }
            Some(FaultKind::Gone) => {
                return Err(self.io_error(Operation::Write, &range, Errno::NXIO));
            }
            Some(FaultKind::LostWrite) => return Ok(()),
            Some(FaultKind::MisdirectedWrite(by)) => {
                let end = self.shared.size - data.len() as u64;
                offset = offset.saturating_add(by).min(end);
            }
            Some(FaultKind::ShortWrite(len)) => data = data.slice(0..len.min(data.len())),
            _ => {}
        }
        state.visible.write(offset, &data);
        self.log(&mut state, Event::Write { offset, data });
        Ok(())
    }

    fn log(&self, state: &mut State, event: Event) {
        state.log.push(Logged {
            moment: self.shared.timeline.tick(),
            event,
            orphaned: false,
        });
    }

    /// Brings what is certain up to date at a good flush.
    fn settle(&self, state: &mut State) {
        let through = state.log.len();
        let tail = &state.log[state.durable_through..through];
        if !tail.iter().any(|logged| logged.orphaned) && state.visible_follows_durable() {
            state.durable = state.visible.clone();
        } else {
            let fates = Fates::new(self.shared.seed ^ through as u64, tail.len());
            let mut durable = std::mem::take(&mut state.durable);
            for (index, logged) in tail.iter().enumerate() {
                match &logged.event {
                    Event::Write { offset, data } if logged.orphaned => {
                        let range = self.range(*offset, data.len());
                        let fate = fates.of(index, sectors(&range, self.sector()).count());
                        self.apply(&mut durable, *offset, data, &fate);
                    }
                    Event::Write { offset, data } => durable.write(*offset, data),
                    Event::Discard { offset, len } => durable.fill(*offset, *len, DISCARDED),
                    Event::Flush | Event::FlushFailed => {}
                }
            }
            state.durable = durable;
        }
        state.durable_through = through;
        let durable = state.durable.clone();
        state.checkpoints.push((through, durable));
    }
}

impl State {
    /// Whether no write was ever lost by a failed flush: then what is seen is what is written.
    fn visible_follows_durable(&self) -> bool {
        !self.log.iter().any(|logged| logged.orphaned)
    }
}

fn is_write(event: &Event) -> bool {
    matches!(event, Event::Write { .. })
}

/// The last certain content at or before event `index`, and the event where it stands.
fn last_checkpoint(state: &State, index: usize) -> (usize, &SparseImage) {
    let after = state.checkpoints.partition_point(|(at, _)| *at <= index);
    let (at, image) = &state.checkpoints[after.max(1) - 1];
    (*at, image)
}

/// The parts of `range` in each sector that it touches.
fn sectors(range: &Range<u64>, sector: u64) -> impl Iterator<Item = Range<u64>> + use<> {
    let (start, end) = (range.start, range.end);
    let last = if start == end {
        start / sector
    } else {
        end.div_ceil(sector)
    };
    (start / sector..last).map(move |n| (n * sector).max(start)..((n + 1) * sector).min(end))
}

impl BlockDevice for SimulatedDisk {
    fn size(&self) -> u64 {
        self.shared.size
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        let range = self.check(Operation::Read, offset, bytes.len() as u64)?;
        let mut state = self.state();
        let strikes = |f: &mut Fault| f.kind == FaultKind::ReadError && f.strikes(&range);
        if state.faults.iter_mut().any(strikes) {
            return Err(self.io_error(Operation::Read, &range, Errno::IO));
        }
        state.visible.read(offset, bytes);
        for fault in &mut state.faults {
            if fault.kind == FaultKind::RottenRead && fault.strikes(&range) {
                let (from, to) = (
                    fault.range.start.max(range.start),
                    fault.range.end.min(range.end),
                );
                let rotten = &mut bytes[(from - offset) as usize..(to - offset) as usize];
                rotten.iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.write_whole(offset, Buffer::from_slice(bytes))
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        self.write_whole(offset, Buffer::from_slice(&pieces.concat()))
    }

    fn flush(&self) -> Result<(), DeviceError> {
        let free = self
            .shared
            .freed
            .wait_while(self.state(), |state| state.held);
        let mut state = free.unwrap_or_else(PoisonError::into_inner);
        let everything = 0..u64::MAX;
        let strikes = |f: &mut Fault| f.kind == FaultKind::FlushError && f.strikes(&everything);
        if state.failed || state.faults.iter_mut().any(strikes) {
            state.failed = true;
            let from = state.durable_through;
            state.log[from..]
                .iter_mut()
                .for_each(|logged| logged.orphaned = true);
            self.log(&mut state, Event::FlushFailed);
            return Err(self.flush_error());
        }
        self.log(&mut state, Event::Flush);
        self.settle(&mut state);
        Ok(())
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.check(Operation::Discard, offset, len)?;
        let mut state = self.state();
        state.visible.fill(offset, len, DISCARDED);
        self.log(&mut state, Event::Discard { offset, len });
        Ok(())
    }

    fn is_writable(&self) -> bool {
        self.state().writable
    }

    fn sector_size(&self) -> u32 {
        self.shared.sector_size
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Memory
    }

    fn describe(&self) -> String {
        self.shared.name.to_string()
    }

    fn failure(&self) -> Option<DeviceError> {
        self.state().failed.then(|| self.flush_error())
    }

    fn clear_failure(&self) {
        self.state().failed = false;
    }
}

#[cfg(test)]
mod tests;
