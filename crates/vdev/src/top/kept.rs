//! Writes that no leaf of a vdev took, until they are written again: what was accepted is read from them meanwhile, for
//! the cache may let go of it at any time, and what the devices have at that place is older or never was anything.

use crate::tunables;
use crate::{BlockRange, FailedWrite, WriteGroup};
use base::lock::{LockClass, RwLock, rank};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use sys::Buffer;

static KEPT: LockClass = LockClass::new("vdev.kept_writes", rank::VDEV + 31);

/// The writes of a vdev that no leaf took.
pub(crate) struct KeptWrites {
    /// Whether there are any: every read and write looks at this alone as long as all is well.
    any: AtomicBool,
    writes: RwLock<Writes>,
}

#[derive(Default)]
struct Writes {
    /// By offset in the allocatable area.
    by_offset: BTreeMap<u64, Kept>,
    /// The longest of them, bytes.
    longest: u64,
    /// At so many, those without a group are dropped.
    drop_at: usize,
}

struct Kept {
    data: Buffer,
    /// Whose write it is: only this group writes it again.
    group: Weak<WriteGroup>,
}

/// What is kept of a range.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing: the leaves have it.
    Nothing,
    /// All of it.
    All(Buffer),
    /// A part, or more than one piece: neither the leaves nor one write have it.
    Part,
}

impl KeptWrites {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            any: AtomicBool::new(false),
            writes: RwLock::new(&KEPT, Writes::default()),
        })
    }

    /// Whether anything is kept.
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Keeps a write of `group`: the newest of its place.
    pub(crate) fn keep(&self, failed: &FailedWrite, group: &Arc<WriteGroup>) {
        let mut writes = self.writes.write();
        if writes.by_offset.len() >= writes.drop_at {
            writes
                .by_offset
                .retain(|_, kept| kept.group.strong_count() > 0);
            writes.drop_at = tunables::KEPT_WRITES_MIN
                .count()
                .max(writes.by_offset.len() * 2);
        }
        let kept = Kept {
            data: failed.data.clone(),
            group: Arc::downgrade(group),
        };
        writes.longest = writes.longest.max(failed.data.len() as u64);
        writes.by_offset.insert(failed.offset, kept);
        self.any.store(true, Ordering::Release);
    }

    /// The place was written well since.
    pub(crate) fn forget(&self, offset: u64) {
        let mut writes = self.writes.write();
        writes.by_offset.remove(&offset);
        if writes.by_offset.is_empty() {
            *writes = Writes::default();
            self.any.store(false, Ordering::Release);
        }
    }

    /// What is kept of `range`.
    pub(crate) fn find(&self, range: BlockRange) -> Found {
        if !self.any() {
            return Found::Nothing;
        }
        let writes = self.writes.read();
        let end = range.offset.saturating_add(range.len as u64);
        let from = range.offset.saturating_sub(writes.longest);
        let overlaps = |(offset, kept): &(&u64, &Kept)| {
            let kept_end = offset.saturating_add(kept.data.len() as u64);
            kept.group.strong_count() > 0 && kept_end > range.offset
        };
        let mut found = writes.by_offset.range(from..end).filter(overlaps);
        match (found.next(), found.next()) {
            (None, _) => Found::Nothing,
            (Some((offset, kept)), None)
                if *offset == range.offset && kept.data.len() >= range.len =>
            {
                Found::All(kept.data.slice(0..range.len))
            }
            (Some(_), _) => Found::Part,
        }
    }
}
