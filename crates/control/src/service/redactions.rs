//! Which redaction lists somebody is making.

use std::collections::BTreeSet;

use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};

/// Lists that are being made, by their objects. Held with nothing beside it.
static GROWING: LockClass = LockClass::new("control.redactions", rank::FRONT_END + 42);

/// The redaction lists that somebody is making.
pub(super) struct Redactions(Mutex<BTreeSet<ObjectId>>);

impl Redactions {
    pub(super) fn new() -> Self {
        Self(Mutex::new(&GROWING, BTreeSet::new()))
    }

    /// Notes a list until what is returned goes; nothing if somebody else is making it.
    pub(super) fn enter(&self, list: ObjectId) -> Option<Making<'_>> {
        let is_new = self.0.lock().insert(list);
        is_new.then_some(Making { all: self, list })
    }
}

/// A list that nobody else makes meanwhile.
pub(super) struct Making<'a> {
    all: &'a Redactions,
    list: ObjectId,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        self.all.0.lock().remove(&self.list);
    }
}
