//! Which file systems of heads are open to be written: one a head. Who changes a head that is open changes it there,
//! and while one is being opened, nobody opens it beside.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use admin::{Failure, FailureKind};
use base::ObjectId;
use base::lock::{LockClass, Mutex, MutexGuard, rank};
use posix::FileSystem;

static HEADS: LockClass = LockClass::new("control.open_heads", rank::FRONT_END + 30);
static HEAD: LockClass = LockClass::new("control.open_head", rank::FRONT_END + 31);

type Place = Arc<Mutex<Weak<FileSystem>>>;

/// So many places are no reason to look for those that nobody has.
const CLEAN_MIN: usize = 64;

/// The file systems of a pool's heads that are open to be written.
pub(super) struct OpenHeads(Mutex<Places>);

struct Places {
    of: HashMap<ObjectId, Place>,
    /// With so many, those that nobody has are looked for.
    clean_at: usize,
}

impl OpenHeads {
    pub(super) fn new() -> Arc<Self> {
        let places = Places {
            of: HashMap::new(),
            clean_at: CLEAN_MIN,
        };
        Arc::new(Self(Mutex::new(&HEADS, places)))
    }

    fn place(&self, head: ObjectId) -> Place {
        let mut places = self.0.lock();
        if places.of.len() >= places.clean_at {
            // Those that nobody has, or asks for.
            let is_used =
                |place: &Place| Arc::strong_count(place) > 1 || place.lock().strong_count() > 0;
            places.of.retain(|_, place| is_used(place));
            places.clean_at = (2 * places.of.len()).max(CLEAN_MIN);
        }
        let new = || Arc::new(Mutex::new(&HEAD, Weak::new()));
        Arc::clone(places.of.entry(head).or_insert_with(new))
    }

    /// Opens a head, for whoever keeps it open.
    pub(super) fn open(
        &self,
        head: ObjectId,
        open: impl FnOnce() -> Result<Arc<FileSystem>, Failure>,
    ) -> Result<Arc<FileSystem>, Failure> {
        let place = self.place(head);
        let mut place = place.lock();
        if current(&place).is_some() {
            return Err(Failure::new(FailureKind::Busy, "dataset is busy"));
        }
        let files = open()?;
        *place = Arc::downgrade(&files);
        Ok(files)
    }

    /// Has `change` done to the file system of a head: the one that is open, or one that is open as long as that takes.
    pub(super) fn with<T>(
        &self,
        head: ObjectId,
        open: impl FnOnce() -> Result<Arc<FileSystem>, Failure>,
        change: impl Fn(&FileSystem) -> posix::Result<T>,
    ) -> Result<posix::Result<T>, Failure> {
        let place = self.place(head);
        let place = place.lock();
        if let Some(files) = current(&place) {
            let done = change(&files);
            // Unless it was unmounted meanwhile.
            if done.is_ok() || !files.has_ended() {
                return Ok(done);
            }
        }
        let files = open()?;
        let done = change(&files);
        Ok(files.unmount().and(done))
    }
}

fn current(place: &MutexGuard<'_, Weak<FileSystem>>) -> Option<Arc<FileSystem>> {
    place.upgrade().filter(|files| !files.has_ended())
}

impl std::fmt::Debug for OpenHeads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenHeads({})", self.0.lock().of.len())
    }
}

#[cfg(test)]
mod tests;
