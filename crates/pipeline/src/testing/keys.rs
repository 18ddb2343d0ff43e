//! An object set whose blocks are encrypted, and its key.

use std::sync::{Arc, Mutex};

use base::ObjectSetId;
use crypto::{StoredKeys, WrappedKeys, WrappingKey};

use super::Rig;
use crate::{Key, KeySource};

/// The object set that is encrypted.
pub(crate) const SET: ObjectSetId = ObjectSetId(54);

/// Some keys, wrapped with 32 bytes of 1.
const STORED: StoredKeys = StoredKeys {
    suite: 8,
    guid: 77,
    version: 1,
    wrapped: WrappedKeys {
        iv: [9; 12],
        mac: [
            151, 125, 122, 62, 129, 120, 225, 73, 17, 68, 85, 98, 66, 118, 130, 72,
        ],
        master: [
            196, 14, 37, 205, 202, 53, 0, 198, 119, 93, 64, 68, 162, 208, 139, 24, 137, 214, 108,
            233, 32, 138, 34, 241, 47, 65, 42, 82, 242, 74, 225, 226,
        ],
        hmac: [
            75, 100, 219, 251, 132, 208, 67, 31, 84, 45, 0, 34, 112, 232, 159, 100, 61, 222, 191,
            18, 202, 1, 153, 239, 108, 203, 70, 44, 182, 12, 216, 20, 75, 195, 249, 84, 79, 70, 38,
            126, 228, 0, 36, 164, 253, 142, 126, 181, 153, 222, 235, 244, 247, 185, 53, 249, 136,
            191, 28, 14, 31, 163, 60, 13,
        ],
    },
};

/// The key of one object set, as it is at the moment.
pub(crate) struct One(pub(crate) Mutex<Key>);

impl KeySource for One {
    fn key(&self, set: ObjectSetId) -> Key {
        if set == SET {
            self.0.lock().unwrap().clone()
        } else {
            Key::None
        }
    }
}

pub(crate) fn loaded() -> Key {
    let wrapping = WrappingKey::from_raw(&[1; 32]).unwrap();
    Key::Loaded(Arc::new(STORED.unwrap(&wrapping).unwrap()))
}

pub(crate) fn rig() -> (Rig, Arc<One>) {
    let rig = Rig::new();
    let keys = Arc::new(One(Mutex::new(loaded())));
    rig.pipeline.set_keys(keys.clone());
    (rig, keys)
}
