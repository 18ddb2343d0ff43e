//! Effective values that were looked up before.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base::lock::{LockClass, Mutex, rank};

use super::effective::Effective;
use crate::policy::StoragePolicy;

static EFFECTIVE: LockClass = LockClass::new("dsl.effective", rank::DSL + 35);

/// A name, and whether its lookup goes on above.
pub(super) type Key = (Cow<'static, str>, bool);

/// Effective values of names.
type Effectives = BTreeMap<Key, Effective>;

/// Effective values of one directory or dataset, valid under one stamp.
pub(crate) struct EffectiveCache {
    inner: Mutex<(u64, Effectives, Option<StoragePolicy>)>,
}

impl EffectiveCache {
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::new(&EFFECTIVE, (0, BTreeMap::new(), None)),
        }
    }

    pub(super) fn get(&self, stamp: u64, key: &Key) -> Option<Effective> {
        let inner = self.inner.lock();
        if inner.0 == stamp {
            inner.1.get(key).cloned()
        } else {
            None
        }
    }

    pub(super) fn put(&self, stamp: u64, key: Key, value: &Effective) {
        /// More different names than there are properties: user properties that nobody has.
        const NAMES_MAX: usize = 512;
        let mut inner = self.inner.lock();
        if inner.0 != stamp || inner.1.len() > NAMES_MAX {
            *inner = (stamp, BTreeMap::new(), None);
        }
        inner.1.insert(key, value.clone());
    }

    pub(super) fn policy(&self, stamp: u64) -> Option<StoragePolicy> {
        let inner = self.inner.lock();
        if inner.0 == stamp { inner.2 } else { None }
    }

    pub(super) fn put_policy(&self, stamp: u64, policy: StoragePolicy) {
        let mut inner = self.inner.lock();
        if inner.0 == stamp {
            inner.2 = Some(policy);
        }
    }
}
