//! How rebuilds stand, and what is said to their threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::JoinHandle;
use base::{Guid, VdevId};
use format::rebuild::Rebuild;

static CONTROL: LockClass = LockClass::new("pool.rebuild", rank::LAST - 36);
static THREADS: LockClass = LockClass::new("pool.rebuild_threads", rank::POOL + 18);

/// A change of what is stored of a rebuild.
#[derive(Clone, Copy, Debug)]
pub(super) enum Change {
    /// It begins, or goes on after an import.
    Begin(Rebuild),
    /// It has ended, or was given up.
    End(Rebuild),
}

/// The number of a rebuild without a thread.
const LEFT: u64 = 0;

/// A rebuild that is under way.
pub(super) struct Running {
    /// Which one: changes with every one that begins. [`LEFT`]: its thread has ended, or ends.
    pub(super) number: u64,
    /// How it stands: its offset is that up to which all is written.
    pub(super) rebuild: Rebuild,
    /// The devices that it is for.
    pub(super) targets: Vec<Guid>,
    /// How long it had run before this import, milliseconds, and when it went on, on the monotonic clock.
    pub(super) before_ms: u64,
    pub(super) since_ns: u64,
    /// Something could not be copied, or was lost: an import begins anew.
    pub(super) is_lacking: bool,
    /// Something of it is to be stored.
    pub(super) is_unstored: bool,
}

#[derive(Default)]
pub(super) struct Control {
    pub(super) running: BTreeMap<VdevId, Running>,
    /// Those that are over, by number, as they stood, while what follows them is not under way yet.
    ending: BTreeMap<(VdevId, u64), Rebuild>,
    /// What the next txg stores, in order.
    pub(super) changes: Vec<(VdevId, Change)>,
    count: u64,
    /// The pool closes: what runs stays as it is stored.
    is_closed: bool,
    /// Somebody starts rebuilds: others who would wait for the outcome.
    is_starting: bool,
}

/// The rebuilds of a pool that is open for writing.
pub(crate) struct Rebuilds {
    pub(super) control: Mutex<Control>,
    changed: Condvar,
    /// By vdev and number; those of rebuilds that are over may be finishing.
    threads: Mutex<BTreeMap<(VdevId, u64), JoinHandle<()>>>,
}

/// While it lives, nobody else starts rebuilds.
pub(super) struct Starting<'a>(&'a Rebuilds);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.control.lock().is_starting = false;
        self.0.changed.notify_all();
    }
}

/// While it lives, a rebuild that is over is shown as under way, so that who waits for it meets what follows.
pub(super) struct Ending<'a> {
    rebuilds: &'a Rebuilds,
    key: (VdevId, u64),
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.rebuilds.control.lock().ending.remove(&self.key);
    }
}

impl Rebuilds {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            control: Mutex::new(&CONTROL, Control::default()),
            changed: Condvar::new(),
            threads: Mutex::new(&THREADS, BTreeMap::new()),
        })
    }

    /// One after the other, for between the look whether a rebuild runs and its start is a txg.
    pub(super) fn starting(&self) -> Starting<'_> {
        let mut control = self.control.lock();
        while control.is_starting {
            self.changed.wait(&mut control);
        }
        control.is_starting = true;
        Starting(self)
    }

    /// The same for the thread of a rebuild, which ends it: none if it is not to go on. Who starts others may wait for
    /// the end of that very thread ([`Rebuilds::leave`]).
    pub(super) fn starting_of(&self, vdev: VdevId, number: u64) -> Option<Starting<'_>> {
        let mut control = self.control.lock();
        loop {
            let running = control.running.get(&vdev);
            running.filter(|running| running.number == number)?;
            if !control.is_starting {
                control.is_starting = true;
                return Some(Starting(self));
            }
            self.changed.wait(&mut control);
        }
    }

    /// Whether one is under way.
    pub(crate) fn is_any(&self) -> bool {
        !self.control.lock().running.is_empty()
    }

    /// How the rebuild of a vdev stands, if it is under way, or nothing follows it yet.
    pub(crate) fn of(&self, vdev: VdevId) -> Option<Rebuild> {
        let control = self.control.lock();
        let Some(running) = control.running.get(&vdev) else {
            let mut ending = control.ending.iter();
            return ending
                .find(|((of, _), _)| *of == vdev)
                .map(|(_, rebuild)| *rebuild);
        };
        Some(Rebuild {
            taken_ms: running.taken_ms(),
            ..running.rebuild
        })
    }

    /// The devices that the rebuild of a vdev is for, if it has a thread.
    pub(super) fn targets(&self, vdev: VdevId) -> Option<Vec<Guid>> {
        let control = self.control.lock();
        let running = control.running.get(&vdev)?;
        (running.number != LEFT).then(|| running.targets.clone())
    }

    /// Begins one, or goes on with one: its number. None when the pool closes.
    pub(super) fn begin(&self, vdev: VdevId, rebuild: Rebuild, targets: Vec<Guid>) -> Option<u64> {
        let mut control = self.control.lock();
        if control.is_closed {
            return None;
        }
        control.count += 1;
        let number = control.count;
        let running = Running {
            number,
            rebuild,
            targets,
            before_ms: rebuild.taken_ms,
            since_ns: base::clock::monotonic_ns(),
            is_lacking: false,
            is_unstored: false,
        };
        control.running.insert(vdev, running);
        control.changes.push((vdev, Change::Begin(rebuild)));
        Some(number)
    }

    pub(super) fn set_thread(&self, vdev: VdevId, number: u64, thread: JoinHandle<()>) {
        self.threads.lock().insert((vdev, number), thread);
    }

    /// A thread is at its end: nobody needs to wait for it.
    pub(super) fn forget_thread(&self, vdev: VdevId, number: u64) {
        drop(self.threads.lock().remove(&(vdev, number)));
    }

    /// Stores the end of one that is not under way here.
    pub(super) fn end_next(&self, vdev: VdevId, rebuild: Rebuild) {
        let mut control = self.control.lock();
        control.changes.push((vdev, Change::End(rebuild)));
    }

    /// Ends the thread of a vdev's rebuild, which begins anew then, or stays as it is stored. The thread of one that is
    /// over is not waited for: it looks what else is to be started, for which it waits for whoever calls this.
    pub(super) fn leave(&self, vdev: VdevId) {
        let number = {
            let mut control = self.control.lock();
            let running = control.running.get_mut(&vdev);
            running.map(|running| std::mem::replace(&mut running.number, LEFT))
        };
        self.changed.notify_all();
        let Some(number) = number else { return };
        let thread = self.threads.lock().remove(&(vdev, number));
        join(thread);
    }

    /// Ends all threads, for the pool closes.
    pub(super) fn leave_all(&self) {
        {
            let mut control = self.control.lock();
            control.is_closed = true;
            let running = control.running.values_mut();
            running.for_each(|one| one.number = LEFT);
        }
        self.changed.notify_all();
        let threads = std::mem::take(&mut *self.threads.lock());
        threads.into_values().for_each(|thread| join(Some(thread)));
    }

    /// The pool stays open.
    pub(super) fn stay_open(&self) {
        self.control.lock().is_closed = false;
    }

    /// Whether a thread is to go on.
    pub(super) fn goes_on(&self, vdev: VdevId, number: u64) -> bool {
        let control = self.control.lock();
        let running = control.running.get(&vdev);
        running.is_some_and(|running| running.number == number)
    }

    /// A thread can do nothing for so long, unless something changes.
    pub(super) fn pause(&self, vdev: VdevId, number: u64, pause: Duration) {
        let mut control = self.control.lock();
        let running = control.running.get(&vdev);
        if running.is_some_and(|running| running.number == number) {
            self.changed.wait_for(&mut control, pause);
        }
    }

    /// Changes how one stands that goes on; whether it does.
    pub(super) fn update(
        &self,
        vdev: VdevId,
        number: u64,
        change: impl FnOnce(&mut Running),
    ) -> bool {
        let mut control = self.control.lock();
        let running = control.running.get_mut(&vdev);
        let Some(running) = running.filter(|running| running.number == number) else {
            return false;
        };
        change(running);
        running.is_unstored = true;
        true
    }

    /// One that goes on is over; how it stood, and what is to be dropped when what follows it is under way.
    pub(super) fn take(&self, vdev: VdevId, number: u64) -> Option<(Running, Ending<'_>)> {
        let mut control = self.control.lock();
        let running = control.running.get(&vdev);
        running.filter(|running| running.number == number)?;
        let running = control.running.remove(&vdev)?;
        let key = (vdev, number);
        let rebuild = Rebuild {
            taken_ms: running.taken_ms(),
            ..running.rebuild
        };
        control.ending.insert(key, rebuild);
        let ending = Ending {
            rebuilds: self,
            key,
        };
        Some((running, ending))
    }
}

impl Running {
    fn taken_ms(&self) -> u64 {
        let now_ns = base::clock::monotonic_ns();
        let since_ms = now_ns.saturating_sub(self.since_ns) / 1_000_000;
        self.before_ms.saturating_add(since_ms)
    }

    /// What is to be stored of it.
    pub(super) fn stored(&self) -> Rebuild {
        Rebuild {
            offset: if self.is_lacking {
                0
            } else {
                self.rebuild.offset
            },
            taken_ms: self.taken_ms(),
            ..self.rebuild
        }
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    if let Some(thread) = thread
        && !thread.is_current()
    {
        // A thread that panicked has left as well.
        let _ = thread.join();
    }
}
