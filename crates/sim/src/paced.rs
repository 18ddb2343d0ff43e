//! Disks in virtual time under real threads: an operation takes as long as the model says, on a
//! clock that stands still while any thread of the process runs. What threads do costs nothing, what
//! devices do costs exactly what it costs, and a loaded machine changes neither.

use crate::{DeviceModel, DeviceWork, VirtualDevice, VirtualOperation};
use device::{BlockDevice, DeviceError, DeviceKind};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Between two looks whether all threads sleep.
const LOOK: Duration = Duration::from_micros(200);

/// A clock that moves when all threads of the process wait.
#[derive(Debug)]
pub struct VirtualClock {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug)]
struct State {
    now_ns: u64,
    /// Operations take no time before and after the run.
    running: bool,
    next_id: u64,
    devices: Vec<VirtualDevice>,
    /// Flushes by number, and when they end.
    flushes: BTreeMap<u64, u64>,
    /// Operations that have ended, until their threads have seen it.
    ended: HashSet<u64>,
}

impl VirtualClock {
    /// A clock for one device of this model.
    #[must_use]
    pub fn new(model: DeviceModel) -> Arc<Self> {
        Self::of_several(model, 1)
    }

    /// A clock for so many devices of this model, each of which works by itself.
    #[must_use]
    pub fn of_several(model: DeviceModel, count: usize) -> Arc<Self> {
        let state = State {
            now_ns: 0,
            running: false,
            next_id: 0,
            devices: (0..count).map(|_| VirtualDevice::new(model)).collect(),
            flushes: BTreeMap::new(),
            ended: HashSet::new(),
        };
        Arc::new(Self {
            state: Mutex::new(state),
            moved: Condvar::new(),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Nanoseconds since the clock was made.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.state().now_ns
    }

    /// What the first device did while operations took time.
    #[must_use]
    pub fn work(&self) -> DeviceWork {
        self.state().devices[0].work()
    }

    /// Whether operations take time now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state().running
    }

    /// Moves the clock, on the calling thread, until `over` says so; threads that wait for an
    /// operation then go on at once.
    pub fn run(&self, over: impl Fn() -> bool) {
        self.state().running = true;
        while !over() {
            let before = switches();
            std::thread::sleep(LOOK);
            let after = switches();
            if before.is_some() && before == after {
                self.step();
            }
        }
        self.state().running = false;
        self.moved.notify_all();
    }

    /// To the end of the next operation.
    fn step(&self) {
        let mut state = self.state();
        let flush_end = state.flushes.values().min().copied();
        let ends = state
            .devices
            .iter()
            .filter_map(|device| device.next_end_ns());
        let Some(next_ns) = ends.chain(flush_end).min() else {
            return;
        };
        state.now_ns = next_ns;
        let mut ended = Vec::new();
        for device in &mut state.devices {
            while device.next_end_ns() == Some(next_ns) {
                ended.extend(device.take_ended().map(|(_, operation)| operation.id));
            }
        }
        state.ended.extend(ended);
        let due: Vec<u64> = state
            .flushes
            .iter()
            .filter(|(_, end_ns)| **end_ns == next_ns)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            state.flushes.remove(&id);
            state.ended.insert(id);
        }
        drop(state);
        self.moved.notify_all();
    }

    fn wait(&self, begin: impl FnOnce(&mut State, u64)) {
        let mut state = self.state();
        if !state.running {
            return;
        }
        let id = state.next_id;
        state.next_id += 1;
        begin(&mut state, id);
        while state.running && !state.ended.remove(&id) {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn transfer(&self, device: usize, offset: u64, len: usize) {
        let len = len as u64;
        self.wait(|state, id| {
            let now_ns = state.now_ns;
            let operation = VirtualOperation { id, offset, len };
            state.devices[device].submit(now_ns, operation);
        });
    }

    fn flush(&self, flush_ns: u64) {
        self.wait(|state, id| {
            let end_ns = state.now_ns + flush_ns;
            state.flushes.insert(id, end_ns);
        });
    }
}

/// How often each other thread of the process has slept; nothing when one of them is awake.
fn switches() -> Option<BTreeMap<String, u64>> {
    let own = std::fs::read_link("/proc/thread-self").ok()?;
    let own = own.file_name()?.to_str()?.to_owned();
    let mut found = BTreeMap::new();
    for thread in std::fs::read_dir("/proc/self/task").ok()? {
        let thread = thread.ok()?;
        let name = thread.file_name().into_string().ok()?;
        if name == own {
            continue;
        }
        // A thread that has just ended is no news.
        let Ok(status) = std::fs::read_to_string(thread.path().join("status")) else {
            continue;
        };
        let field = |key: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(key))?;
            Some(line.trim())
        };
        if !field("State:")?.starts_with('S') {
            return None;
        }
        found.insert(name, field("voluntary_ctxt_switches:")?.parse().ok()?);
    }
    Some(found)
}

/// A disk whose operations take the time of a [`VirtualClock`]; writes and flushes only, for reads come
/// from a cache, unless [`PacedDisk::with_reads`] says otherwise.
pub struct PacedDisk {
    inner: Arc<dyn BlockDevice>,
    clock: Arc<VirtualClock>,
    flush_ns: u64,
    reads: bool,
    /// Which of the clock's devices it is.
    device: usize,
}

impl PacedDisk {
    /// `inner` with the clock's model, and flushes of that length.
    #[must_use]
    pub fn new(inner: Arc<dyn BlockDevice>, clock: &Arc<VirtualClock>, flush_ns: u64) -> Self {
        Self {
            inner,
            clock: Arc::clone(clock),
            flush_ns,
            reads: false,
            device: 0,
        }
    }

    /// The same as another one of the clock's devices.
    #[must_use]
    pub fn on_device(self, device: usize) -> Self {
        Self { device, ..self }
    }

    /// The same with reads that take time.
    #[must_use]
    pub fn with_reads(self) -> Self {
        Self {
            reads: true,
            ..self
        }
    }
}

impl BlockDevice for PacedDisk {
    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<(), DeviceError> {
        if self.reads {
            self.clock.transfer(self.device, offset, bytes.len());
        }
        self.inner.read(offset, bytes)
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        self.clock.transfer(self.device, offset, bytes.len());
        self.inner.write(offset, bytes)
    }

    fn write_vectored(&self, offset: u64, pieces: &[&[u8]]) -> Result<(), DeviceError> {
        let len = pieces.iter().map(|piece| piece.len()).sum();
        self.clock.transfer(self.device, offset, len);
        self.inner.write_vectored(offset, pieces)
    }

    fn flush(&self) -> Result<(), DeviceError> {
        self.clock.flush(self.flush_ns);
        self.inner.flush()
    }

    fn discard(&self, offset: u64, len: u64) -> Result<(), DeviceError> {
        self.inner.discard(offset, len)
    }

    fn is_writable(&self) -> bool {
        self.inner.is_writable()
    }

    fn sector_size(&self) -> u32 {
        self.inner.sector_size()
    }

    fn kind(&self) -> DeviceKind {
        self.inner.kind()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn failure(&self) -> Option<DeviceError> {
        self.inner.failure()
    }

    fn clear_failure(&self) {
        self.inner.clear_failure();
    }
}

#[cfg(test)]
mod tests;
