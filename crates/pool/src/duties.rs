//! What the pool itself writes in each pass of a sync: history, features, counts of space maps.

use std::sync::Arc;

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use dmu::Tx;
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

    /// Whether the txg has something to write on account of this.
    pub(crate) fn has_work(&self) -> bool {
        let pending = self.pending.lock();
        let own = !pending.enable.is_empty() || pending.scan.is_some();
        own || self.services.history.has_pending()
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
