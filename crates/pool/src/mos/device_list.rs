//! Lists of devices beside the vdevs, in memory, of hot spares or for a cache: what is in one, and whether the pool has
//! it stored.

use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectId};
use format::config::keys;
use std::sync::Arc;

use crate::config::VdevConfig;

static LIST: LockClass = LockClass::new("pool.device_list", rank::LAST - 31);

#[derive(Default)]
struct State {
    /// The object that stores the list.
    object: Option<ObjectId>,
    list: Vec<VdevConfig>,
    /// Changed since it was stored.
    store: bool,
}

/// Such a list of a pool. The pool stores it under its name in its directory: packed, as its configuration is, in a
/// list of lists of the same name.
pub(crate) struct DeviceList {
    name: &'static str,
    state: Mutex<State>,
}

impl DeviceList {
    /// An empty list of this name.
    pub(crate) fn new(name: &'static str) -> Arc<Self> {
        Arc::new(Self {
            name,
            state: Mutex::new(&LIST, State::default()),
        })
    }

    /// Its name.
    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// What the pool has stored, and where.
    pub(crate) fn set_stored(&self, object: ObjectId, list: Vec<VdevConfig>) {
        let mut state = self.state.lock();
        (state.object, state.list) = (Some(object), list);
    }

    /// The list as it is.
    pub(crate) fn list(&self) -> Vec<VdevConfig> {
        self.state.lock().list.clone()
    }

    /// The device of this guid.
    pub(crate) fn find(&self, guid: Guid) -> Option<VdevConfig> {
        let state = self.state.lock();
        let mut list = state.list.iter();
        list.find(|device| device.guid() == guid).cloned()
    }

    /// Adds to the list, which the next txg stores.
    pub(crate) fn add(&self, device: VdevConfig) {
        let mut state = self.state.lock();
        state.list.push(device);
        state.store = true;
    }

    /// Takes one from the list, which the txg that syncs or the next stores.
    pub(crate) fn remove(&self, guid: Guid) {
        let mut state = self.state.lock();
        state.list.retain(|device| device.guid() != guid);
        state.store = true;
    }

    /// One is elsewhere now.
    pub(crate) fn set_path(&self, guid: Guid, path: &str) {
        let mut state = self.state.lock();
        let mut list = state.list.iter_mut();
        if let Some(device) = list.find(|device| device.guid() == guid) {
            device.list.set(keys::PATH, path);
            state.store = true;
        }
    }

    /// What is to be stored, if anything is, and the object that has it.
    pub(crate) fn take_unstored(&self) -> Option<(Vec<VdevConfig>, Option<ObjectId>)> {
        let mut state = self.state.lock();
        std::mem::take(&mut state.store).then(|| (state.list.clone(), state.object))
    }

    /// The object that stores the list from now on.
    pub(crate) fn set_object(&self, object: ObjectId) {
        self.state.lock().object = Some(object);
    }
}
