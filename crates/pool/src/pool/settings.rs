//! Changes of settings that wait for the next txg: features to be enabled, properties.

use std::sync::Arc;

use base::Guid;
use base::lock::{LockClass, Mutex, rank};
use dsl::PropertyValue;
use format::features::Feature;

use crate::error::Result;
use crate::sync::tasks::{FirstPass, SyncTask};

static ENABLE: LockClass = LockClass::new("pool.features_to_enable", rank::LAST - 30);
static PENDING: LockClass = LockClass::new("pool.settings", rank::LAST - 30);

/// The features that the next txg enables.
pub(crate) struct FeaturesToEnable(Mutex<Vec<&'static Feature>>);

impl FeaturesToEnable {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(&ENABLE, Vec::new())))
    }

    /// Enables features in the next txg.
    pub(crate) fn enable_next(&self, wanted: &[&'static Feature]) {
        self.0.lock().extend_from_slice(wanted);
    }
}

impl SyncTask for FeaturesToEnable {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let waiting = std::mem::take(&mut *self.0.lock());
        if !waiting.is_empty() {
            pass.services.ensure_salt(pass.tx)?;
        }
        for feature in waiting {
            pass.services.enable_feature(pass.tx, feature)?;
        }
        Ok(())
    }
}

/// A property of a vdev that changes; without a value it goes.
pub(crate) type VdevProperty = (Guid, String, Option<PropertyValue>);

#[derive(Default)]
struct Pending {
    properties: Vec<(String, PropertyValue)>,
    vdev_properties: Vec<VdevProperty>,
}

/// Properties that the next txg sets.
pub(crate) struct Settings {
    pending: Mutex<Pending>,
}

impl Settings {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            pending: Mutex::new(&PENDING, Pending::default()),
        })
    }

    /// Sets properties of the pool in the next txg.
    pub(crate) fn set_properties_next(&self, properties: Vec<(String, PropertyValue)>) {
        self.pending.lock().properties.extend(properties);
    }

    /// Sets properties of vdevs in the next txg.
    pub(crate) fn set_vdev_properties_next(&self, properties: Vec<VdevProperty>) {
        self.pending.lock().vdev_properties.extend(properties);
    }
}

impl SyncTask for Settings {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let (services, tx) = (pass.services, pass.tx);
        let note = |name: &str, text: &str| {
            let now_s = services.clock.now_s();
            services.history.internal(tx, name, text, None, now_s)
        };
        let pending = std::mem::take(&mut *self.pending.lock());
        for (name, value) in pending.properties {
            services.set_property(tx, &name, &value)?;
            let text = match &value {
                PropertyValue::Number(number) => format!("{name}={number}"),
                PropertyValue::Text(text) => format!("{name}={text}"),
            };
            note("set", &text)?;
        }
        for (vdev, name, value) in pending.vdev_properties {
            services.set_vdev_property(tx, vdev, &name, value.as_ref())?;
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            note("vdev set", &format!("vdev_guid={}: {name}={value}", vdev.0))?;
        }
        Ok(())
    }
}
