//! A rebuild's part in each txg: how it stands is stored.

use base::VdevId;
use dmu::{Tx, Zap};
use format::config::{keys, vdev_zap};
use format::features;
use format::rebuild::{Rebuild, RebuildState};

use super::control::{Change, Rebuilds};
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};

impl SyncTask for Rebuilds {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let (services, tx) = (pass.services, pass.tx);
        let (changes, progress) = self.take_unstored();
        for (vdev, change) in changes {
            services.store_rebuild_change(tx, vdev, change)?;
        }
        for (vdev, rebuild) in progress {
            if let Some(table) = services.rebuild_table(vdev)? {
                store(&table, tx, &rebuild)?;
            }
        }
        Ok(())
    }

    fn close(&self) {
        self.leave_all();
    }

    fn stay(&self) {
        self.stay_open();
    }
}

/// What is to be stored now: changes in their order, and how those stand that go on.
type Unstored = (Vec<(VdevId, Change)>, Vec<(VdevId, Rebuild)>);

impl Rebuilds {
    fn take_unstored(&self) -> Unstored {
        let mut control = self.control.lock();
        let changes = std::mem::take(&mut control.changes);
        let running = control.running.iter_mut();
        let progress = running.filter_map(|(vdev, running)| {
            let is_unstored = std::mem::take(&mut running.is_unstored);
            is_unstored.then(|| (*vdev, running.stored()))
        });
        let progress = progress.collect();
        (changes, progress)
    }
}

fn store(table: &Zap, tx: &Tx, rebuild: &Rebuild) -> Result<()> {
    let key = vdev_zap::REBUILD.as_bytes();
    Ok(table.update_value(tx, key, &rebuild.to_value())?)
}

impl PoolServices {
    /// The table of a top-level vdev; none if it has none, or is gone.
    fn rebuild_table(&self, vdev: VdevId) -> Result<Option<Zap>> {
        let top = |config: &crate::config::PoolConfig| {
            let top = config.top(vdev)?;
            top.object(keys::VDEV_ZAP_TOP)
        };
        let id = self.config.with(top);
        let table = id.map(|id| Ok::<_, PoolError>(Zap::open(&self.mos.object(id)?)?));
        table.transpose()
    }

    /// The last rebuild of a vdev, as it is stored.
    pub(super) fn stored_rebuild(&self, vdev: VdevId) -> Result<Option<Rebuild>> {
        let Some(table) = self.rebuild_table(vdev)? else {
            return Ok(None);
        };
        let value = table.lookup_value(vdev_zap::REBUILD.as_bytes())?;
        let rebuild = value.as_ref().map(Rebuild::from_value);
        rebuild
            .transpose()
            .map_err(PoolError::corrupt("table of a vdev"))
    }

    fn store_rebuild_change(&self, tx: &Tx, vdev: VdevId, change: Change) -> Result<()> {
        let Some(table) = self.rebuild_table(vdev)? else {
            return Ok(());
        };
        let was_active = self
            .stored_rebuild(vdev)?
            .is_some_and(|rebuild| rebuild.is_active());
        let (rebuild, is_news) = match change {
            Change::Begin(rebuild) => (rebuild, rebuild.offset == 0 || !was_active),
            Change::End(rebuild) => (rebuild, was_active),
        };
        // Of one that ended before, nothing more is to be said.
        if matches!(change, Change::End(_)) && !was_active {
            return Ok(());
        }
        store(&table, tx, &rebuild)?;
        let references = i64::from(rebuild.is_active()) - i64::from(was_active);
        if references != 0 {
            self.change_feature(tx, &features::DEVICE_REBUILD, references)?;
        }
        let (event, text) = match rebuild.state {
            RebuildState::Active => ("start", "started"),
            RebuildState::Complete => ("finish", "complete"),
            RebuildState::Cancelled | RebuildState::None | RebuildState::Other(_) => {
                ("abort", "canceled")
            }
        };
        if is_news {
            let top = self
                .config
                .with(|config| config.top(vdev).map(|top| top.guid()));
            let guid = top.unwrap_or_default();
            self.events.rebuild(event, guid);
            let text = format!("vdev_id={vdev} vdev_guid={guid} {text}");
            let now_s = self.clock.now_s();
            self.history.internal(tx, "rebuild", &text, None, now_s)?;
        }
        Ok(())
    }
}
