//! A scan's part in each txg: its state is stored.

use base::ObjectId;
use dmu::{CreateZap, Tx, Zap};
use format::ObjectType;
use format::config::directory as names;

use super::control::{ScanChange, Scrub};
use crate::error::Result;
use crate::pool::services::PoolServices;
use crate::scan::phys::{self, FUNCTION_SCRUB, STATE_FINISHED, ScanPhys};
use crate::sync::tasks::{FirstPass, SyncTask};

impl SyncTask for Scrub {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        for change in self.take_changes() {
            pass.services.store_change(pass.tx, change)?;
        }
        Ok(())
    }

    fn close(&self) {
        Self::close(self);
    }

    fn stay(&self) {
        Self::stay(self);
    }
}

impl PoolServices {
    fn store_change(&self, tx: &Tx, change: ScanChange) -> Result<()> {
        let directory = &self.directory;
        let stored = phys::load(directory)?.unwrap_or_default();
        let now_s = self.clock.now_s();
        match change {
            ScanChange::Start(scan) => {
                // OpenZFS, which may go on with it, expects a queue.
                let options = CreateZap {
                    object_type: ObjectType::SCAN_QUEUE,
                    ..CreateZap::default()
                };
                self.free_scan_queue(tx, &stored)?;
                self.end_deferral(tx)?;
                let queue = Zap::create(&self.mos, tx, &options)?.object().id().0;
                phys::store(&ScanPhys { queue, ..scan }, directory, tx)?;
                self.events.scan(&scan, "start");
                let (function, min, max) = (scan.function, scan.txg_min, scan.txg_max);
                let text = format!("func={function} mintxg={min} maxtxg={max}");
                self.history
                    .internal(tx, "scan setup", &text, None, now_s)?;
            }
            ScanChange::Update => self.store_scan(tx)?,
            ScanChange::Defer(leaves) => self.defer(tx, &leaves)?,
            // It ends once: the errors that it found are all there is from then on.
            ScanChange::End(_) if !stored.is_running() => {}
            ScanChange::End(scan) => {
                self.rotate_errors(tx)?;
                self.free_scan_queue(tx, &stored)?;
                let ended = ScanPhys {
                    queue: 0,
                    bookmark: [0; 4],
                    ..scan
                };
                phys::store(&ended, directory, tx)?;
                let finished = scan.state == STATE_FINISHED;
                let (name, text) = if finished {
                    ("scan done", format!("errors={}", scan.errors))
                } else {
                    ("scan cancelled", format!("errors={}", scan.errors))
                };
                self.history.internal(tx, name, &text, None, now_s)?;
                if self.end_deferral(tx)? {
                    let name = "starting deferred resilver";
                    self.history.internal(tx, name, &text, None, now_s)?;
                }
                let what = if finished { "finish" } else { "abort" };
                self.events.scan(&scan, what);
                if finished && scan.function == FUNCTION_SCRUB && scan.txg_min == 0 {
                    let key = names::LAST_SCRUBBED_TXG.as_bytes();
                    directory.update(tx, key, scan.txg_max)?;
                }
            }
        }
        Ok(())
    }

    fn free_scan_queue(&self, tx: &Tx, stored: &ScanPhys) -> Result<()> {
        if stored.queue != 0 {
            self.mos.free(tx, ObjectId(stored.queue))?;
        }
        Ok(())
    }
}
