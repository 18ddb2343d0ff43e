//! Work on the free space of leaves: initializing and trimming.

use base::Guid;
use dmu::Zap;
use format::config::keys;

use super::Facts;
use crate::trim::control::TrimState;
use crate::trim::kind::{Kind, Names};

/// How a kind of work on a leaf stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Its state: the two kinds have the same ones.
    pub state: TrimState,
    /// Up to which byte of the allocatable area it is done.
    pub offset: u64,
    /// When it came to its state: seconds since 1970.
    pub time_s: u64,
}

/// Work on the free space of a leaf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LeafWork {
    /// Overwriting it once.
    pub initialize: Progress,
    /// Giving it back to the device.
    pub trim: Progress,
}

impl Facts<'_> {
    /// Work on a leaf; nothing if the pool has stored nothing about the leaf.
    #[must_use]
    pub fn leaf_work(&self, leaf: Guid) -> Option<LeafWork> {
        let config = self.pool.config();
        let leaves = config.root.leaves();
        let node = leaves.iter().find(|node| node.guid() == leaf)?;
        let table = self.stored.zap(node.object(keys::VDEV_ZAP_LEAF)?)?;
        // What is stored is of the last txg.
        let of = |kind: Kind| {
            let known = self.pool.leaf_work(kind, leaf).map(|work| Progress {
                state: work.state,
                offset: work.offset,
                time_s: work.time_s,
            });
            known.unwrap_or_else(|| stored(&table, &kind.names()))
        };
        Some(LeafWork {
            initialize: of(Kind::Initialize),
            trim: of(Kind::Trim),
        })
    }
}

fn stored(table: &Zap, names: &Names) -> Progress {
    let number = |name: &str| table.lookup(name.as_bytes()).ok().flatten().unwrap_or(0);
    let [state, offset, time_s] = names.map(number);
    Progress {
        state: TrimState::of(state),
        offset,
        time_s,
    }
}
