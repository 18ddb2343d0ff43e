//! A disk of a history: simulated, with a file that has its labels, so that the pool finds it by its path. It can be
//! pulled out, come back as a power loss left it, and is left as at any moment of the history.

use device::{BlockDevice, DeviceError, DeviceKind, Operation};
use millpond_torture::test_pool::image;
use sim::{Fault, SimulatedDisk, SparseImage, Timeline};
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use sys::Errno;

/// Labels lie this near to either end.
const LABELS: u64 = 512 << 10;
/// What lies before this is not for blocks.
const DATA_START: u64 = 4 << 20;

/// What a disk was, from a moment on.
struct Generation {
    since: u64,
    disk: Arc<SimulatedDisk>,
}

struct State {
    generations: Vec<Generation>,
    file: Option<File>,
    /// From this moment on it is pulled out.
    away: Option<u64>,
    /// A flush failed, and nobody has been told that this is over.
    failed: bool,
}

/// A disk of a history.
pub(crate) struct Disk {
    number: usize,
    size: u64,
    seed: u64,
    folder: PathBuf,
    timeline: Timeline,
    state: Mutex<State>,
}

impl Disk {
    /// An empty disk in that folder.
    pub(crate) fn new(
        number: usize,
        (size, seed): (u64, u64),
        folder: &Path,
        timeline: &Timeline,
    ) -> Arc<Self> {
        let disk = Self {
            number,
            size,
            seed,
            folder: folder.to_owned(),
            timeline: timeline.clone(),
            state: Mutex::new(State {
                generations: Vec::new(),
                file: None,
                away: None,
                failed: false,
            }),
        };
        disk.begin(SparseImage::new());
        Arc::new(disk)
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn path(&self) -> PathBuf {
        image(&self.folder, &format!("disk{}", self.number))
    }

    fn current(&self) -> Arc<SimulatedDisk> {
        let state = self.state.lock().unwrap();
        Arc::clone(&state.generations.last().unwrap().disk)
    }

    /// From now on it is a disk with this content, and nothing that came before is remembered.
    fn begin(&self, content: SparseImage) {
        self.state.lock().unwrap().generations.clear();
        self.go_on_as(content);
    }

    fn go_on_as(&self, content: SparseImage) {
        let disk = SimulatedDisk::from_image(content.clone(), self.size, self.seed, &self.timeline);
        let mut state = self.state.lock().unwrap();
        state.generations.push(Generation {
            since: self.timeline.now(),
            disk: Arc::new(disk),
        });
        state.away = None;
        state.failed = false;
        let _ = std::fs::remove_file(self.path());
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true);
        let file = file.open(self.path()).unwrap();
        file.set_len(self.size).unwrap();
        for range in self.label_areas() {
            let mut bytes = vec![0; (range.end - range.start) as usize];
            content.read(range.start, &mut bytes);
            file.write_all_at(&bytes, range.start).unwrap();
        }
        state.file = Some(file);
    }

    const fn label_areas(&self) -> [Range<u64>; 2] {
        [0..LABELS, self.size - LABELS..self.size]
    }

    /// Nobody writes it any more: it goes on with what is on it.
    pub(crate) fn settle(&self) {
        self.begin(self.current().snapshot());
    }

    /// The power went at that moment.
    pub(crate) fn lose_power(&self, moment: u64, seed: u64) {
        self.begin(self.as_of(moment, seed));
    }

    /// What a power loss at that moment leaves.
    pub(crate) fn as_of(&self, moment: u64, seed: u64) -> SparseImage {
        let state = self.state.lock().unwrap();
        let mut generations = state.generations.iter().rev();
        let found = generations.find(|one| one.since <= moment);
        let found = found.unwrap_or(&state.generations[0]);
        found.disk.crash_at_moment(moment, seed).snapshot()
    }

    /// Writes what a power loss at that moment leaves to a file of another folder.
    pub(crate) fn copy_as_of(&self, moment: u64, seed: u64, folder: &Path) {
        let content = self.as_of(moment, seed);
        let copy = SimulatedDisk::from_image(content, self.size, seed, &Timeline::new());
        let path = self.path_in(folder);
        let _ = std::fs::remove_file(&path);
        copy.write_to_file(&path).unwrap();
    }

    /// Writes what is on it to a file of another folder.
    pub(crate) fn copy(&self, folder: &Path) {
        let path = self.path_in(folder);
        self.current().write_to_file(&path).unwrap();
    }

    /// Where a copy of it is in another folder.
    pub(crate) fn path_in(&self, folder: &Path) -> PathBuf {
        image(folder, &format!("disk{}", self.number))
    }

    /// Pulls it out. No file of it stays in the folder, by whatever name: an import would find it, and hold it.
    pub(crate) fn pull_out(&self) {
        let mut state = self.state.lock().unwrap();
        state.away = Some(self.timeline.now());
        state.file = None;
        std::fs::remove_file(self.path()).unwrap();
    }

    /// Since when it is pulled out.
    pub(crate) fn away_since(&self) -> Option<u64> {
        self.state.lock().unwrap().away
    }

    /// Whatever it had is gone.
    pub(crate) fn wipe(&self) {
        self.go_on_as(SparseImage::new());
    }

    /// Puts it back; it may have lost what it had not flushed.
    pub(crate) fn put_back(&self, loses: Option<u64>) {
        let now = self.timeline.now();
        let content = match loses {
            Some(seed) => self.current().crash(seed).snapshot(),
            None => self.current().snapshot(),
        };
        assert!(now <= self.timeline.now());
        self.go_on_as(content);
    }

    /// It is not there for the next import.
    pub(crate) fn leave_out(&self) {
        if self.away_since().is_none() {
            self.pull_out();
        }
    }

    pub(crate) fn inject(&self, fault: Fault) {
        self.current().inject(fault);
    }

    /// Where blocks lie.
    pub(crate) const fn data(&self) -> Range<u64> {
        DATA_START..self.size - LABELS
    }

    pub(crate) fn heal(&self) {
        self.current().heal();
    }

    /// Turns over bits where blocks lie.
    pub(crate) fn rot(&self, range: Range<u64>, count: usize, seed: u64) {
        self.current().rot(range, count, seed);
    }

    fn usable(&self, operation: Operation) -> Result<Arc<SimulatedDisk>, DeviceError> {
        let mut state = self.state.lock().unwrap();
        if state.failed {
            return Err(self.flush_failed());
        }
        if state.away.is_none() {
            return Ok(Arc::clone(&state.generations.last().unwrap().disk));
        }
        if operation == Operation::Flush {
            state.failed = true;
            return Err(self.flush_failed());
        }
        Err(DeviceError::Io {
            device: self.name(),
            operation,
            offset: 0,
            len: 0,
            error: Errno::IO,
        })
    }

    fn name(&self) -> Arc<str> {
        self.path().display().to_string().into()
    }

    fn flush_failed(&self) -> DeviceError {
        DeviceError::FlushFailed {
            device: self.name(),
            error: Errno::IO,
        }
    }

    /// What is written to labels is written to the file, too.
    fn show(&self, offset: u64, bytes: &[u8]) {
        let end = offset + bytes.len() as u64;
        let is_within = |area: &Range<u64>| offset < area.end && area.start < end;
        if self.label_areas().iter().any(is_within)
            && let Some(file) = &self.state.lock().unwrap().file
        {
            file.write_all_at(bytes, offset).unwrap();
        }
    }
}

/// A disk in its place.
pub(crate) struct Plug(pub(crate) Arc<Disk>);

impl BlockDevice for Plug {
    fn size(&self) -> u64 {
        self.0.size
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        self.0.usable(Operation::Read)?.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.0.usable(Operation::Write)?.write(offset, bytes)?;
        self.0.show(offset, bytes);
        Ok(())
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let disk = self.0.usable(Operation::Write)?;
        disk.write_vectored(offset, pieces)?;
        let bytes = pieces.concat();
        self.0.show(offset, &bytes);
        Ok(())
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.0.usable(Operation::Flush)?.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.0.usable(Operation::Discard)?.discard(offset, len)
    }

    fn is_writable(&self) -> bool {
        true
    }

    fn sector_size(&self) -> u32 {
        512
    }

    fn kind(&self) -> DeviceKind {
        DeviceKind::Memory
    }

    fn describe(&self) -> String {
        self.0.path().display().to_string()
    }

    fn failure(&self) -> Option<DeviceError> {
        let failed = self.0.state.lock().unwrap().failed;
        let own = failed.then(|| self.0.flush_failed());
        own.or_else(|| self.0.current().failure())
    }

    fn clear_failure(&self) {
        self.0.state.lock().unwrap().failed = false;
        self.0.current().clear_failure();
    }
}
