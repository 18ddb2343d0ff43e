//! What was listed lately: who loads some of it from disk will want the rest.
//!
//! A listing alone reads nothing ahead, nor does a file that nobody listed: what is listed is noted, and
//! when a second file of one listing had to be loaded, the dnodes of all of it are read ahead. Only those who
//! load a file look here, and none waits for another: who finds a listing in use does without.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};

use crate::tunables;

static LISTING: LockClass = LockClass::new("posix.listing", rank::POSIX + 48);

/// How many listings are remembered.
const LISTINGS: usize = 8;
/// So many of a listing must have been loaded before the rest is read ahead: one is looked at after many a listing.
const LOADS: u32 = 2;

/// A range without numbers.
const NONE: (u64, u64) = (1, 0);

#[derive(Default)]
struct Entries {
    directory: ObjectId,
    objects: Vec<ObjectId>,
    is_sorted: bool,
    loads: u32,
}

/// The entries of a directory that were listed and not looked at yet.
struct Listing {
    /// The lowest and the highest number among them, for those who look whether theirs may be here; [`NONE`] when there
    /// are none.
    lowest: AtomicU64,
    highest: AtomicU64,
    entries: Mutex<Entries>,
}

/// The listings of a file system.
pub(crate) struct Listings {
    places: Box<[Listing]>,
}

impl Listing {
    fn show(&self, range: (u64, u64)) {
        self.lowest.store(range.0, Ordering::Relaxed);
        self.highest.store(range.1, Ordering::Relaxed);
    }

    /// An entry is about to be loaded, if it is one: the rest, when it is wanted.
    fn load(&self, id: ObjectId) -> Option<Vec<ObjectId>> {
        let mut entries = self.entries.try_lock()?;
        if !entries.is_sorted {
            entries.objects.sort_unstable();
            entries.is_sorted = true;
        }
        entries.objects.binary_search(&id).ok()?;
        entries.loads += 1;
        if entries.loads < LOADS {
            return None;
        }
        let objects = std::mem::take(&mut entries.objects);
        // What is listed of this directory from now on has to be asked for again.
        entries.loads = 0;
        self.show(NONE);
        Some(objects)
    }

    fn may_have(&self, id: ObjectId) -> bool {
        let range = self.lowest.load(Ordering::Relaxed)..=self.highest.load(Ordering::Relaxed);
        range.contains(&id.0)
    }
}

impl Listings {
    pub(crate) fn new() -> Self {
        let listing = || Listing {
            lowest: AtomicU64::new(NONE.0),
            highest: AtomicU64::new(NONE.1),
            entries: Mutex::new(&LISTING, Entries::default()),
        };
        Self {
            places: (0..LISTINGS).map(|_| listing()).collect(),
        }
    }

    /// Notes entries of a directory that are being listed; `first`: those at its beginning.
    pub(crate) fn note(
        &self,
        directory: ObjectId,
        first: bool,
        objects: impl Iterator<Item = ObjectId>,
    ) {
        let room = tunables::LISTED_MAX.count();
        let own = directory.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let Some(place) = self.places.get(own as usize % LISTINGS) else {
            return;
        };
        let Some(mut entries) = place.entries.try_lock() else {
            return;
        };
        let mut range = (
            place.lowest.load(Ordering::Relaxed),
            place.highest.load(Ordering::Relaxed),
        );
        if first || entries.directory != directory {
            entries.directory = directory;
            entries.objects.clear();
            entries.loads = 0;
        }
        if entries.objects.is_empty() {
            range = (u64::MAX, 0);
        }
        let room = room.saturating_sub(entries.objects.len());
        for id in objects.take(room) {
            range = (range.0.min(id.0), range.1.max(id.0));
            entries.objects.push(id);
        }
        entries.is_sorted = false;
        place.show(if entries.objects.is_empty() {
            NONE
        } else {
            range
        });
    }

    /// A file is about to be loaded: what to read ahead now.
    pub(crate) fn loading(&self, id: ObjectId) -> Option<Vec<ObjectId>> {
        self.places
            .iter()
            .filter(|place| place.may_have(id))
            .find_map(|place| place.load(id))
    }
}
