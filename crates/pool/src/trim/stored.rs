//! A trim's part in each txg: how it stands is stored.

use base::Guid;
use dmu::Zap;
use format::config::{keys, vdev_zap};

use super::control::{LeafTrim, Trim, TrimState};
use crate::error::Result;
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};

impl SyncTask for Trim {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let (services, tx) = (pass.services, pass.tx);
        for (leaf, trim, states) in self.take_unstored() {
            let Some((table, path)) = services.leaf_table(leaf)? else {
                continue;
            };
            for (name, value) in [
                (vdev_zap::TRIM_OFFSET, trim.offset),
                (vdev_zap::TRIM_TIME, trim.time_s),
                (vdev_zap::TRIM_RATE, trim.rate),
                (vdev_zap::TRIM_PARTIAL, trim.used_only.into()),
                (vdev_zap::TRIM_SECURE, trim.secure.into()),
                (vdev_zap::TRIM_STATE, trim.state as u64),
            ] {
                table.update(tx, name.as_bytes(), value)?;
            }
            for state in states {
                let text = format!("vdev={path} {}", state.event());
                let now_s = services.clock.now_s();
                services.history.internal(tx, "trim", &text, None, now_s)?;
            }
        }
        Ok(())
    }

    fn close(&self) {
        self.leave();
    }

    fn stay(&self) {
        Self::stay(self);
    }
}

impl PoolServices {
    /// The ZAP of a leaf, with its path.
    fn leaf_table(&self, leaf: Guid) -> Result<Option<(Zap, String)>> {
        let found = self.config.with(|config| {
            let leaves = config.root.leaves();
            let node = leaves.into_iter().find(|node| node.guid() == leaf)?;
            let path = node.path().unwrap_or_default().to_owned();
            Some((node.object(keys::VDEV_ZAP_LEAF)?, path))
        });
        let Some((id, path)) = found else {
            return Ok(None);
        };
        Ok(Some((Zap::open(&self.mos.object(id)?)?, path)))
    }

    /// The trim of a leaf as it is stored.
    pub(super) fn stored_trim(&self, leaf: Guid) -> Result<Option<LeafTrim>> {
        let Some((table, _)) = self.leaf_table(leaf)? else {
            return Ok(None);
        };
        let number = |name: &str| table.lookup(name.as_bytes());
        let Some(state) = number(vdev_zap::TRIM_STATE)? else {
            return Ok(None);
        };
        Ok(Some(LeafTrim {
            state: TrimState::of(state),
            offset: number(vdev_zap::TRIM_OFFSET)?.unwrap_or(0),
            time_s: number(vdev_zap::TRIM_TIME)?.unwrap_or(0),
            rate: number(vdev_zap::TRIM_RATE)?.unwrap_or(0),
            used_only: number(vdev_zap::TRIM_PARTIAL)? == Some(1),
            secure: number(vdev_zap::TRIM_SECURE)? == Some(1),
        }))
    }
}
