//! How trims stand, and what is said to their thread.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::lock::{Condvar, LockClass, Mutex, rank};
use base::thread::JoinHandle;
use base::{Guid, VdevId};

use super::kind::Kind;

static CONTROL: LockClass = LockClass::new("pool.trim", rank::LAST - 32);
static THREAD: LockClass = LockClass::new("pool.trim_thread", rank::POOL + 16);

/// How a trim of a leaf stands. The numbers are those on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrimState {
    /// There never was one.
    #[default]
    None = 0,
    /// Under way.
    Active = 1,
    /// Given up.
    Cancelled = 2,
    /// Stopped for now.
    Suspended = 3,
    /// Done.
    Complete = 4,
}

impl TrimState {
    /// By its number.
    pub(crate) const fn of(number: u64) -> Self {
        match number {
            1 => Self::Active,
            2 => Self::Cancelled,
            3 => Self::Suspended,
            4 => Self::Complete,
            _ => Self::None,
        }
    }
}

/// The trim of a leaf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeafTrim {
    /// How it stands.
    pub state: TrimState,
    /// Up to which byte of the allocatable area it is done.
    pub offset: u64,
    /// When it came to its state: seconds since 1970.
    pub time_s: u64,
    /// Bytes a second at most; 0: any number.
    pub rate: u64,
    /// Whether metaslabs that were never used are passed over.
    pub used_only: bool,
    /// Whether what was there must be gone for good: nothing here can do that.
    pub secure: bool,
}

pub(super) struct Known {
    pub(super) trim: LeafTrim,
    pub(super) top: VdevId,
    /// When the rate allows the next range, on the monotonic clock.
    pub(super) due_ns: u64,
    /// Its leaf takes nothing for now.
    pub(super) is_away: bool,
}

#[derive(Default)]
pub(super) struct Control {
    pub(super) leaves: BTreeMap<Guid, Known>,
    /// Leaves of which something is to be stored, with the states that they had since: a quick trim may begin and end
    /// in one txg.
    pub(super) unstored: BTreeMap<Guid, Vec<TrimState>>,
    /// Whether what becomes free is trimmed.
    pub(super) auto: bool,
    /// The pool closes: trims stay as stored.
    pub(super) leaves_pool: bool,
    /// The vdev that a range is taken of.
    pub(super) busy: Option<VdevId>,
    /// Vdevs that are about to go.
    pub(super) barred: BTreeSet<VdevId>,
}

/// The trims of a pool that is open for writing, or what initializes its free space.
pub(crate) struct Trim {
    pub(super) kind: Kind,
    pub(super) control: Mutex<Control>,
    pub(super) changed: Condvar,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
}

impl Trim {
    pub(crate) fn new(kind: Kind) -> Arc<Self> {
        Arc::new(Self {
            kind,
            control: Mutex::new(&CONTROL, Control::default()),
            changed: Condvar::new(),
            thread: Mutex::new(&THREAD, None),
        })
    }

    /// Ends the thread; what is stored stays.
    pub(crate) fn leave(&self) {
        self.control.lock().leaves_pool = true;
        self.changed.notify_all();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread
            && !thread.is_current()
        {
            // A thread that panicked has left as well.
            let _ = thread.join();
        }
    }

    /// The pool stays open after all: trims can be started again.
    pub(crate) fn stay(&self) {
        self.control.lock().leaves_pool = false;
    }

    /// Takes nothing more of a vdev, and waits until nothing is under way there; or goes on.
    pub(crate) fn bar(&self, top: VdevId, barred: bool) {
        let mut control = self.control.lock();
        if !barred {
            control.barred.remove(&top);
            return;
        }
        control.barred.insert(top);
        while control.busy == Some(top) {
            self.changed.wait(&mut control);
        }
        let control = &mut *control;
        control.leaves.retain(|_, known| known.top != top);
        let leaves = &control.leaves;
        control.unstored.retain(|leaf, _| leaves.contains_key(leaf));
    }

    /// Whether nothing is taken of a vdev.
    #[cfg(test)]
    pub(crate) fn is_barred(&self, top: VdevId) -> bool {
        self.control.lock().barred.contains(&top)
    }

    /// A leaf is gone.
    pub(crate) fn forget(&self, leaf: Guid) {
        let mut control = self.control.lock();
        control.leaves.remove(&leaf);
        control.unstored.remove(&leaf);
    }

    /// How the trim of a leaf stands, if there ever was one.
    pub(super) fn of(&self, leaf: Guid) -> Option<LeafTrim> {
        let control = self.control.lock();
        control.leaves.get(&leaf).map(|known| known.trim)
    }

    pub(super) fn is_under_way(&self, leaf: Guid) -> bool {
        if self.thread.lock().is_none() {
            return false;
        }
        let control = self.control.lock();
        let active = |known: &Known| known.trim.state == TrimState::Active && !known.is_away;
        control.leaves.get(&leaf).is_some_and(active)
    }

    /// Changes the state of a leaf's trim; it is stored with the next txg.
    pub(super) fn change(control: &mut Control, leaf: Guid, trim: LeafTrim, top: VdevId) {
        let known = Known {
            trim,
            top,
            due_ns: 0,
            is_away: false,
        };
        control.leaves.insert(leaf, known);
        control.unstored.entry(leaf).or_default().push(trim.state);
    }

    /// What is to be stored now, with the states that came since.
    pub(super) fn take_unstored(&self) -> Vec<(Guid, LeafTrim, Vec<TrimState>)> {
        let mut control = self.control.lock();
        let unstored = std::mem::take(&mut control.unstored);
        let trim = |(leaf, states)| {
            let known = control.leaves.get(&leaf)?;
            Some((leaf, known.trim, states))
        };
        unstored.into_iter().filter_map(trim).collect()
    }
}
