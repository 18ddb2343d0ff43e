//! Sequential rebuilds of top-level vdevs.

use base::Guid;
use format::config::{keys, vdev_zap};
use format::rebuild::{Rebuild, RebuildState};

use super::Facts;
use crate::config::VdevConfig;

/// The last rebuild of a top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildFacts {
    /// The vdev.
    pub vdev: Guid,
    /// What it is called.
    pub name: String,
    /// How it stands.
    pub rebuild: Rebuild,
}

impl Facts<'_> {
    /// The last rebuild of each vdev that there ever was one of.
    #[must_use]
    pub fn rebuilds(&self) -> Vec<RebuildFacts> {
        let config = self.pool.config();
        let tops = config.root.children.iter();
        tops.filter_map(|top| self.rebuild_of(top)).collect()
    }

    fn rebuild_of(&self, top: &VdevConfig) -> Option<RebuildFacts> {
        let stored = || {
            let table = self.stored.zap(top.object(keys::VDEV_ZAP_TOP)?)?;
            let value = table.lookup_value(vdev_zap::REBUILD.as_bytes()).ok()??;
            Rebuild::from_value(&value).ok()
        };
        // What is stored is of the last txg.
        let writer = self.pool.writer.as_ref();
        let running = writer.and_then(|writer| writer.rebuilds.of(top.id()));
        let rebuild = running.or_else(stored)?;
        let name = match top.path() {
            Some(path) => path.to_owned(),
            None => format!("{}-{}", top.shown_kind(), top.id()),
        };
        let facts = RebuildFacts {
            vdev: top.guid(),
            name,
            rebuild,
        };
        (rebuild.state != RebuildState::None).then_some(facts)
    }
}
