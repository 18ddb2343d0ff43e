//! A trim's part in each txg: how it stands is stored.

use base::Guid;
use dmu::Zap;
use format::config::{keys, vdev_zap};

use super::control::{LeafTrim, Trim, TrimState};
use super::kind::Kind;
use crate::error::{PoolError, Result};
use crate::pool::services::PoolServices;
use crate::sync::tasks::{FirstPass, SyncTask};

impl SyncTask for Trim {
    fn sync(&self, pass: &FirstPass<'_>) -> Result<()> {
        let (services, tx) = (pass.services, pass.tx);
        for (leaf, trim, states) in self.take_unstored() {
            let Some((table, path)) = services.leaf_table(leaf)? else {
                continue;
            };
            let [state, offset, time] = self.kind.names();
            let mut values = vec![(offset, trim.offset), (time, trim.time_s)];
            if self.kind == Kind::Trim {
                values.extend([
                    (vdev_zap::TRIM_RATE, trim.rate),
                    (vdev_zap::TRIM_PARTIAL, trim.used_only.into()),
                    (vdev_zap::TRIM_SECURE, trim.secure.into()),
                ]);
            }
            values.push((state, trim.state as u64));
            for (name, value) in values {
                table.update(tx, name.as_bytes(), value)?;
            }
            for state in states {
                let (name, text) = self.kind.history(state);
                let text = format!("vdev={path}{text}");
                let now_s = services.clock.now_s();
                services.history.internal(tx, name, &text, None, now_s)?;
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

    /// Work on the free space of a leaf as it is stored.
    pub(super) fn stored_work(&self, kind: Kind, leaf: Guid) -> Result<Option<LeafTrim>> {
        let Some((table, _)) = self.leaf_table(leaf)? else {
            return Ok(None);
        };
        let number = |name: &str| table.lookup(name.as_bytes());
        let number_of_trims = |name: &str| match kind {
            Kind::Trim => Ok::<_, PoolError>(number(name)?.unwrap_or(0)),
            Kind::Initialize => Ok(0),
        };
        let [state, offset, time] = kind.names();
        let Some(state) = number(state)? else {
            return Ok(None);
        };
        Ok(Some(LeafTrim {
            state: TrimState::of(state),
            offset: number(offset)?.unwrap_or(0),
            time_s: number(time)?.unwrap_or(0),
            rate: number_of_trims(vdev_zap::TRIM_RATE)?,
            used_only: number_of_trims(vdev_zap::TRIM_PARTIAL)? == 1,
            secure: number_of_trims(vdev_zap::TRIM_SECURE)? == 1,
        }))
    }
}
