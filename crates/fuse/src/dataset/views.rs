//! The file systems that a mount shows: one live, and those snapshots that somebody looks at.

use crate::dataset::{SnapshotEntry, SnapshotSource};
use crate::node::SLOTS;
use crate::tree::Reply;
use crate::tunables;
use base::lock::{Condvar, LockClass, Mutex, RwLock, rank};
use posix::{Errno, FileSystem};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

static SUSPENDED_CLASS: LockClass = LockClass::new("fuse.suspended", rank::FRONT_END + 8);
static LIVE_CLASS: LockClass = LockClass::new("fuse.live", rank::FRONT_END + 10);
static OPEN_CLASS: LockClass = LockClass::new("fuse.open_snapshots", rank::FRONT_END + 12);
static SLOTS_CLASS: LockClass = LockClass::new("fuse.snapshot_slots", rank::FRONT_END + 14);

/// The live file system in one epoch. Whoever works on it holds a reference; so it is known when
/// nobody does.
pub(crate) struct Live {
    pub(crate) file_system: Arc<FileSystem>,
    pub(crate) epoch: u64,
}

/// The live file system's part of a mount's life.
enum State {
    /// There to be used.
    Serving(Arc<Live>),
    /// Its content is being replaced: who wants it waits.
    Suspended,
    /// The mount is gone.
    Ended,
}

/// A snapshot as a slot remembers it.
#[derive(Clone)]
struct Seen {
    guid: u64,
    object_set: u64,
    /// How it was called when it was looked at last.
    name: Vec<u8>,
    /// How many references to its nodes the kernel has. Whoever may give it more holds this.
    known: Arc<AtomicU64>,
    is_gone: bool,
}

impl Seen {
    /// Whether nobody can name a node of it any more.
    fn is_over(&self) -> bool {
        self.is_gone
            && Arc::strong_count(&self.known) == 1
            && self.known.load(Ordering::Acquire) == 0
    }
}

/// A snapshot's file system and where it is shown.
#[derive(Clone)]
pub(super) struct SnapshotView {
    pub(super) file_system: Arc<FileSystem>,
    pub(super) slot: u16,
    pub(super) object_set: u64,
    known: Arc<AtomicU64>,
}

impl SnapshotView {
    /// The kernel is told of one of its nodes, and will say when it forgets it.
    pub(super) fn count_lookup(&self) {
        self.known.fetch_add(1, Ordering::AcqRel);
    }
}

struct OpenSnapshot {
    file_system: Arc<FileSystem>,
    last_use: AtomicU64,
}

/// Which slot a snapshot has. A slot stays with its snapshot while that exists or the kernel holds
/// node ids, which name it; then another one may have it.
#[derive(Default)]
struct Slots {
    by_guid: HashMap<u64, u16>,
    by_slot: HashMap<u16, Seen>,
}

impl Slots {
    /// Gives the slots up that nobody can name, of those in `which`.
    fn give_up(&mut self, which: &[u16]) {
        for slot in which {
            if let Some(seen) = self.by_slot.get(slot).filter(|seen| seen.is_over()) {
                self.by_guid.remove(&seen.guid);
                self.by_slot.remove(slot);
            }
        }
    }

    fn gone(&self) -> Vec<u16> {
        let gone = self.by_slot.iter().filter(|(_, seen)| seen.is_gone);
        gone.map(|(slot, _)| *slot).collect()
    }
}

pub(super) struct Views {
    live: RwLock<State>,
    suspended: Mutex<bool>,
    resumed: Condvar,
    epoch: AtomicU64,
    snapshots: Arc<dyn SnapshotSource>,
    open: RwLock<HashMap<u16, OpenSnapshot>>,
    slots: Mutex<Slots>,
    uses: AtomicU64,
}

impl Views {
    pub(super) fn new(file_system: Arc<FileSystem>, snapshots: Arc<dyn SnapshotSource>) -> Self {
        let first = State::Serving(Arc::new(Live {
            file_system,
            epoch: 0,
        }));
        Self {
            live: RwLock::new(&LIVE_CLASS, first),
            suspended: Mutex::new(&SUSPENDED_CLASS, false),
            resumed: Condvar::new(),
            epoch: AtomicU64::new(0),
            snapshots,
            open: RwLock::new(&OPEN_CLASS, HashMap::new()),
            slots: Mutex::new(&SLOTS_CLASS, Slots::default()),
            uses: AtomicU64::new(0),
        }
    }

    /// The live file system; waits while it is being replaced.
    pub(super) fn live(&self) -> Reply<Arc<Live>> {
        loop {
            match &*self.live.read() {
                State::Serving(live) => return Ok(Arc::clone(live)),
                State::Ended => return Err(Errno::ESTALE),
                State::Suspended => {}
            }
            let mut suspended = self.suspended.lock();
            while *suspended {
                self.resumed.wait(&mut suspended);
            }
        }
    }

    /// Takes the live file system away; until [`Views::resume`], who wants it waits. The answer is
    /// not yet unused: operations under way and open files hold it.
    pub(super) fn suspend(&self) -> Option<Arc<Live>> {
        let mut suspended = self.suspended.lock();
        let mut state = self.live.write();
        if !matches!(*state, State::Serving(_)) {
            return None;
        }
        *suspended = true;
        match std::mem::replace(&mut *state, State::Suspended) {
            State::Serving(live) => Some(live),
            State::Suspended | State::Ended => None,
        }
    }

    /// Returns what [`Views::suspend`] took, in the same epoch, unless the mount has ended meanwhile.
    pub(super) fn put_back(&self, live: Arc<Live>) {
        let mut suspended = self.suspended.lock();
        let mut state = self.live.write();
        match &*state {
            State::Suspended => *state = State::Serving(live),
            State::Serving(_) | State::Ended => {}
        }
        drop(state);
        *suspended = false;
        drop(suspended);
        self.resumed.notify_all();
    }

    /// Begins an epoch with another file system; none: the mount has ended. Returns what was there.
    pub(super) fn resume(&self, file_system: Option<Arc<FileSystem>>) -> Option<Arc<Live>> {
        let next = match file_system {
            Some(file_system) => {
                let epoch = self.epoch.fetch_add(1, Ordering::Relaxed) + 1;
                State::Serving(Arc::new(Live { file_system, epoch }))
            }
            None => State::Ended,
        };
        let mut suspended = self.suspended.lock();
        let old = std::mem::replace(&mut *self.live.write(), next);
        *suspended = false;
        drop(suspended);
        self.resumed.notify_all();
        match old {
            State::Serving(live) => Some(live),
            State::Suspended | State::Ended => None,
        }
    }

    pub(super) fn snapshots(&self) -> &dyn SnapshotSource {
        &*self.snapshots
    }

    /// The slot of a snapshot, given to it at first sight: the same in every mount, unless two
    /// snapshots want the same one.
    pub(super) fn slot(&self, entry: &SnapshotEntry) -> Reply<u16> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.by_guid.get(&entry.guid).copied() {
            if let Some(seen) = slots.by_slot.get_mut(&slot) {
                // It may have been received again.
                seen.is_gone = false;
                seen.object_set = entry.object_set;
                seen.name.clone_from(&entry.name);
            }
            return Ok(slot);
        }
        let preferred = entry.guid % u64::from(SLOTS);
        let slot = (0..u64::from(SLOTS))
            .filter_map(|step| u16::try_from((preferred + step) % u64::from(SLOTS)).ok())
            .find(|slot| !slots.by_slot.contains_key(slot))
            .ok_or(Errno::ENOSPC)?;
        slots.by_guid.insert(entry.guid, slot);
        slots.by_slot.insert(
            slot,
            Seen {
                guid: entry.guid,
                object_set: entry.object_set,
                name: entry.name.clone(),
                known: Arc::default(),
                is_gone: false,
            },
        );
        Ok(slot)
    }

    /// The kernel has forgotten so many references to nodes of a slot.
    pub(super) fn forget(&self, slot: u16, lookups: u64) {
        let mut slots = self.slots.lock();
        let Some(seen) = slots.by_slot.get(&slot) else {
            return;
        };
        let fewer = |known: u64| Some(known.saturating_sub(lookups));
        let _before = seen
            .known
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, fewer);
        slots.give_up(&[slot]);
    }

    /// Only snapshots with these GUIDs exist: gives up the slots of others, as soon as the kernel knows no node of
    /// them. The names of those that it was told of and that are gone now.
    pub(super) fn note_present(&self, present: &HashSet<u64>) -> Vec<Vec<u8>> {
        let mut slots = self.slots.lock();
        let mut names = Vec::new();
        for seen in slots.by_slot.values_mut() {
            let is_gone = !present.contains(&seen.guid);
            if is_gone && !seen.is_gone {
                names.push(seen.name.clone());
            }
            seen.is_gone = is_gone;
        }
        let gone = slots.gone();
        slots.give_up(&gone);
        names
    }

    /// How many slots are taken.
    pub(super) fn slots_taken(&self) -> usize {
        self.slots.lock().by_slot.len()
    }

    /// The file system of the snapshot in a slot, opened if it is not.
    pub(super) fn snapshot(&self, slot: u16) -> Reply<SnapshotView> {
        let seen = self
            .slots
            .lock()
            .by_slot
            .get(&slot)
            .cloned()
            .ok_or(Errno::ESTALE)?;
        let file_system = self.open_snapshot(slot, seen.guid)?;
        Ok(SnapshotView {
            file_system,
            slot,
            object_set: seen.object_set,
            known: seen.known,
        })
    }

    fn open_snapshot(&self, slot: u16, guid: u64) -> Reply<Arc<FileSystem>> {
        let now = self.uses.fetch_add(1, Ordering::Relaxed);
        if let Some(open) = self.open.read().get(&slot) {
            open.last_use.store(now, Ordering::Relaxed);
            return Ok(Arc::clone(&open.file_system));
        }
        // Reads the disk: no lock is held. Two threads may both open it; one of them wins.
        let file_system = self.snapshots.open(guid)?;
        let opened = OpenSnapshot {
            file_system: Arc::clone(&file_system),
            last_use: AtomicU64::new(now),
        };
        let mut open = self.open.write();
        let winner = Arc::clone(&open.entry(slot).or_insert(opened).file_system);
        let evicted = if open.len() > tunables::SNAPSHOTS_MAX.count() {
            let oldest = open
                .iter()
                .filter(|(other, _)| **other != slot)
                .min_by_key(|(_, open)| open.last_use.load(Ordering::Relaxed))
                .map(|(other, _)| *other);
            oldest.and_then(|oldest| open.remove(&oldest))
        } else {
            None
        };
        drop(open);
        drop(evicted);
        Ok(winner)
    }

    /// Closes the open snapshots that `which` chooses by GUID; returns the slots chosen, open or
    /// not.
    pub(super) fn close_snapshots(&self, which: impl Fn(u64) -> bool) -> Vec<u16> {
        let chosen: Vec<u16> = {
            let slots = self.slots.lock();
            slots
                .by_slot
                .iter()
                .filter(|(_, seen)| which(seen.guid))
                .map(|(slot, _)| *slot)
                .collect()
        };
        let mut open = self.open.write();
        let closed: Vec<_> = chosen.iter().filter_map(|slot| open.remove(slot)).collect();
        drop(open);
        drop(closed);
        chosen
    }
}
