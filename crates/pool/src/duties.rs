//! What the pool itself writes in each pass of a sync: history, features, counts of space maps.

use std::sync::Arc;

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::Tx;
use dsl::PropertyValue;
use format::features::{self, Feature};

use crate::error::Result;
use crate::scan::ScanPhys;
use crate::services::PoolServices;

static PENDING: LockClass = LockClass::new("pool.duties", rank::LAST - 30);

/// Changes that wait for the next txg.
#[derive(Default)]
struct Pending {
    enable: Vec<&'static Feature>,
    scan: Option<ScanPhys>,
    properties: Vec<(String, PropertyValue)>,
}

/// The pool's own part of a sync.
pub(crate) struct Duties {
    services: Arc<PoolServices>,
    pending: Mutex<Pending>,
}

impl Duties {
    pub(crate) fn new(services: Arc<PoolServices>) -> Self {
        Self {
            services,
            pending: Mutex::new(&PENDING, Pending::default()),
        }
    }

    /// Enables features in the next txg.
    pub(crate) fn enable_next(&self, wanted: &[&'static Feature]) {
        self.pending.lock().enable.extend_from_slice(wanted);
    }

    /// Stores the state of the scan in the next txg.
    pub(crate) fn store_scan_next(&self, scan: ScanPhys) {
        self.pending.lock().scan = Some(scan);
    }

    /// Sets properties of the pool in the next txg.
    pub(crate) fn set_properties_next(&self, properties: Vec<(String, PropertyValue)>) {
        self.pending.lock().properties.extend(properties);
    }

    /// Before datasets are synced.
    pub(crate) fn before(&self, txg: Txg, pass: u32) -> Result<()> {
        if pass != 1 {
            return Ok(());
        }
        let tx = Tx::syncing(txg);
        let pending = std::mem::take(&mut *self.pending.lock());
        for feature in pending.enable {
            self.services.enable_feature(&tx, feature)?;
        }
        if let Some(scan) = pending.scan {
            scan.store(&self.services.directory, &tx)?;
        }
        for (name, value) in pending.properties {
            self.services.set_property(&tx, &name, &value)?;
            let text = match &value {
                PropertyValue::Number(number) => format!("{name}={number}"),
                PropertyValue::Text(text) => format!("{name}={text}"),
            };
            let now_s = self.services.clock.now_s();
            self.services
                .history
                .internal(&tx, "set", &text, None, now_s)?;
        }
        Ok(self.services.history.sync(&tx)?)
    }

    /// After the space maps were written: `maps_change` more maps carry a histogram.
    pub(crate) fn after(&self, txg: Txg, maps_change: i64) -> Result<()> {
        if maps_change != 0 {
            let tx = Tx::syncing(txg);
            let feature = &features::SPACEMAP_HISTOGRAM;
            self.services.change_feature(&tx, feature, maps_change)?;
        }
        Ok(())
    }
}
