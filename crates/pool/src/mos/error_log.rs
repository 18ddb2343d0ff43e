//! The persistent error log: blocks of which no copy can be read.
//!
//! What a scan finds goes to one table, what other reads meet to another; when a scan ends, its
//! table takes the place of the other one, so that what was repaired or deleted is forgotten. With
//! the feature `head_errlog` a table has one table per head, whose names carry the txg in which the
//! block was born; without it names begin with the object set. Numbers in names are hexadecimal.

mod tables;

use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};
use pipeline::ReadError;

use crate::events::Events;
use crate::mos::data_error::DataError;
use crate::tunables;

static PENDING: LockClass = LockClass::new("pool.error_log", rank::LAST - 32);

#[derive(Default)]
struct Pending {
    /// Whether a scan runs.
    scanning: bool,
    last: BTreeSet<DataError>,
    scrub: BTreeSet<DataError>,
    /// What was written again and can be read: it goes from both tables.
    healed: BTreeSet<DataError>,
}

/// What was met since the last txg.
pub(crate) struct ErrorLog {
    pending: Mutex<Pending>,
    /// Where they are told, once the pool has a name.
    events: OnceLock<Arc<Events>>,
}

impl ErrorLog {
    pub(crate) fn new() -> Self {
        Self {
            pending: Mutex::new(&PENDING, Pending::default()),
            events: OnceLock::new(),
        }
    }

    /// Tells what is met from now on.
    pub(crate) fn tell(&self, events: &Arc<Events>) {
        // There is one pool to a log.
        let _ = self.events.set(Arc::clone(events));
    }

    /// From now on errors belong to a scan, or no more.
    pub(crate) fn set_scanning(&self, scanning: bool) {
        self.pending.lock().scanning = scanning;
    }

    fn take(&self, scrub: bool) -> BTreeSet<DataError> {
        let mut pending = self.pending.lock();
        std::mem::take(if scrub {
            &mut pending.scrub
        } else {
            &mut pending.last
        })
    }

    fn take_healed(&self) -> BTreeSet<DataError> {
        std::mem::take(&mut self.pending.lock().healed)
    }

    fn pending(&self) -> BTreeSet<DataError> {
        let pending = self.pending.lock();
        pending.last.union(&pending.scrub).copied().collect()
    }

    fn healed(&self) -> BTreeSet<DataError> {
        self.pending.lock().healed.clone()
    }

    /// A block can be read again: it is no error any more, in whatever dataset it was met that `is_same` knows.
    pub(crate) fn note_healed(&self, block: &DataError, is_same: impl Fn(&DataError) -> bool) {
        let mut pending = self.pending.lock();
        pending.last.retain(|error| !is_same(error));
        pending.scrub.retain(|error| !is_same(error));
        // Of what is left out the next scrub finds that it can be read.
        if pending.healed.len() < tunables::ERRORS_PENDING_MAX.count() {
            pending.healed.insert(*block);
        }
    }
}

impl pipeline::ErrorLog for ErrorLog {
    fn record(&self, error: &ReadError) {
        let ReadError::Unreadable(unreadable) = error else {
            return;
        };
        let bookmark = unreadable.bookmark;
        let found = DataError {
            dataset: ObjectId(bookmark.object_set.0),
            object: bookmark.object,
            level: bookmark.level.into(),
            block: bookmark.block,
            birth: Some(unreadable.block.birth()),
        };
        if let Some(events) = self.events.get() {
            events.unreadable(&found);
        }
        let mut pending = self.pending.lock();
        let into = if pending.scanning {
            &mut pending.scrub
        } else {
            &mut pending.last
        };
        if into.len() < tunables::ERRORS_PENDING_MAX.count() {
            into.insert(found);
        }
    }
}
