//! The list of hot spares, in memory: what is in it, and whether the pool has it stored.

use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectId};
use format::config::keys;
use std::sync::Arc;

use crate::config::VdevConfig;

static SPARES: LockClass = LockClass::new("pool.spares", rank::LAST - 31);

#[derive(Default)]
struct State {
    /// The object that stores the list.
    object: Option<ObjectId>,
    list: Vec<VdevConfig>,
    /// Changed since it was stored.
    store: bool,
}

/// The spares of a pool.
pub(crate) struct Spares(Mutex<State>);

impl Spares {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&SPARES, State::default())))
    }

    /// What the pool has stored, and where.
    pub(crate) fn set_stored(&self, object: ObjectId, list: Vec<VdevConfig>) {
        let mut state = self.0.lock();
        (state.object, state.list) = (Some(object), list);
    }

    /// The list as it is.
    pub(crate) fn list(&self) -> Vec<VdevConfig> {
        self.0.lock().list.clone()
    }

    /// The spare of this guid.
    pub(crate) fn find(&self, guid: Guid) -> Option<VdevConfig> {
        let state = self.0.lock();
        let mut list = state.list.iter();
        list.find(|spare| spare.guid() == guid).cloned()
    }

    /// Adds to the list, which the next txg stores.
    pub(crate) fn add(&self, spare: VdevConfig) {
        let mut state = self.0.lock();
        state.list.push(spare);
        state.store = true;
    }

    /// Takes one from the list, which the txg that syncs or the next stores.
    pub(crate) fn remove(&self, guid: Guid) {
        let mut state = self.0.lock();
        state.list.retain(|spare| spare.guid() != guid);
        state.store = true;
    }

    /// One is elsewhere now.
    pub(crate) fn set_path(&self, guid: Guid, path: &str) {
        let mut state = self.0.lock();
        let mut list = state.list.iter_mut();
        if let Some(spare) = list.find(|spare| spare.guid() == guid) {
            spare.list.set(keys::PATH, path);
            state.store = true;
        }
    }

    /// What is to be stored, if anything is, and the object that has it.
    pub(crate) fn take_unstored(&self) -> Option<(Vec<VdevConfig>, Option<ObjectId>)> {
        let mut state = self.0.lock();
        std::mem::take(&mut state.store).then(|| (state.list.clone(), state.object))
    }

    /// The object that stores the list from now on.
    pub(crate) fn set_object(&self, object: ObjectId) {
        self.0.lock().object = Some(object);
    }
}
