//! What the pool itself writes in each pass of a sync: history, features, counts of space maps.

use std::sync::Arc;

use base::lock::{LockClass, Mutex, rank};
use base::{Guid, ObjectId, Txg};
use dmu::{CreateZap, Tx, Zap};
use dsl::PropertyValue;
use format::ObjectType;
use format::config::directory as names;
use format::features::{self, Feature};

use crate::error::Result;
use crate::pool::services::PoolServices;
use crate::scan::phys::{FUNCTION_SCRUB, STATE_FINISHED, ScanPhys};

static PENDING: LockClass = LockClass::new("pool.sync_tasks", rank::LAST - 30);

/// A change of the stored state of the scan.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScanChange {
    /// It begins.
    Start(ScanPhys),
    /// It goes on, or is paused: its place is stored.
    Update,
    /// It has finished or was cancelled.
    End(ScanPhys),
}

/// Changes that wait for the next txg.
#[derive(Default)]
struct Pending {
    enable: Vec<&'static Feature>,
    scan: Vec<ScanChange>,
    properties: Vec<(String, PropertyValue)>,
    vdev_properties: Vec<VdevProperty>,
}

/// A property of a vdev that changes; without a value it goes.
pub(crate) type VdevProperty = (Guid, String, Option<PropertyValue>);

/// The pool's own part of a sync.
pub(crate) struct SyncTasks {
    services: Arc<PoolServices>,
    pending: Mutex<Pending>,
}

impl SyncTasks {
    pub(crate) fn new(services: Arc<PoolServices>) -> Self {
        Self {
            services,
            pending: Mutex::new(&PENDING, Pending::default()),
        }
    }

    /// What it works on.
    pub(crate) const fn services(&self) -> &Arc<PoolServices> {
        &self.services
    }

    /// Enables features in the next txg.
    pub(crate) fn enable_next(&self, wanted: &[&'static Feature]) {
        self.pending.lock().enable.extend_from_slice(wanted);
    }

    /// Stores the state of the scan in the next txg.
    pub(crate) fn change_scan_next(&self, change: ScanChange) {
        self.pending.lock().scan.push(change);
    }

    /// Sets properties of the pool in the next txg.
    pub(crate) fn set_properties_next(&self, properties: Vec<(String, PropertyValue)>) {
        self.pending.lock().properties.extend(properties);
    }

    /// Sets properties of vdevs in the next txg.
    pub(crate) fn set_vdev_properties_next(&self, properties: Vec<VdevProperty>) {
        self.pending.lock().vdev_properties.extend(properties);
    }

    /// Has a txg write an uberblock in which nothing changes: it would not. In syncing context.
    pub(crate) fn touch(&self, txg: Txg) -> Result<()> {
        // A word that every pool has, stored again as it is.
        let directory = &self.services.directory;
        let key = names::CONFIG.as_bytes();
        if let Some(object) = directory.lookup(key)? {
            directory.update(&Tx::syncing(txg), key, object)?;
        }
        Ok(())
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
        for change in pending.scan {
            self.change_scan(&tx, change)?;
        }
        self.services.store_errors(&tx)?;
        self.services.store_trims(&tx)?;
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
        for (vdev, name, value) in pending.vdev_properties {
            self.services
                .set_vdev_property(&tx, vdev, &name, value.as_ref())?;
            let value = value.map(|value| value.to_string()).unwrap_or_default();
            let text = format!("vdev_guid={}: {name}={value}", vdev.0);
            let now_s = self.services.clock.now_s();
            self.services
                .history
                .internal(&tx, "vdev set", &text, None, now_s)?;
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

    fn change_scan(&self, tx: &Tx, change: ScanChange) -> Result<()> {
        let services = &self.services;
        let directory = &services.directory;
        let stored = ScanPhys::load(directory)?.unwrap_or_default();
        let now_s = services.clock.now_s();
        match change {
            ScanChange::Start(scan) => {
                // OpenZFS, which may go on with it, expects a queue.
                let options = CreateZap {
                    object_type: ObjectType::SCAN_QUEUE,
                    ..CreateZap::default()
                };
                self.free_queue(tx, &stored)?;
                let queue = Zap::create(&services.mos, tx, &options)?.object().id().0;
                ScanPhys { queue, ..scan }.store(directory, tx)?;
                services.events.scan(&scan, "start");
                let (function, min, max) = (scan.function, scan.txg_min, scan.txg_max);
                let text = format!("func={function} mintxg={min} maxtxg={max}");
                services
                    .history
                    .internal(tx, "scan setup", &text, None, now_s)?;
            }
            ScanChange::Update => services.store_scan(tx)?,
            ScanChange::End(scan) => {
                services.rotate_errors(tx)?;
                self.free_queue(tx, &stored)?;
                let ended = ScanPhys {
                    queue: 0,
                    bookmark: [0; 4],
                    ..scan
                };
                ended.store(directory, tx)?;
                let finished = scan.state == STATE_FINISHED;
                let (name, text) = if finished {
                    ("scan done", format!("errors={}", scan.errors))
                } else {
                    ("scan cancelled", format!("errors={}", scan.errors))
                };
                services.history.internal(tx, name, &text, None, now_s)?;
                let what = if finished { "finish" } else { "abort" };
                services.events.scan(&scan, what);
                if finished && scan.function == FUNCTION_SCRUB && scan.txg_min == 0 {
                    let key = names::LAST_SCRUBBED_TXG.as_bytes();
                    directory.update(tx, key, scan.txg_max)?;
                }
            }
        }
        Ok(())
    }

    fn free_queue(&self, tx: &Tx, stored: &ScanPhys) -> Result<()> {
        if stored.queue != 0 {
            self.services.mos.free(tx, ObjectId(stored.queue))?;
        }
        Ok(())
    }
}
