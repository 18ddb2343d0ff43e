//! The maps of what is kept for a checkpoint alone: one a vdev, in which each range is an entry that says "free".

use super::PoolSpace;
use crate::metaslab::{Changes, Pass};
use crate::range_set::RangeSet;
use crate::vdev_space::VdevSpace;
use crate::{MapAppend, SpaceError, SpaceStore};
use base::ObjectId;
use format::space_map::Encoder;

impl PoolSpace {
    /// Writes what came to be kept since the last pass.
    pub(super) fn sync_kept(&self, pass: Pass, store: &dyn SpaceStore) -> Result<(), SpaceError> {
        for vdev in self.vdevs() {
            let keeping = vdev.lists().lock().keeping.clone();
            if keeping.is_empty() {
                continue;
            }
            // No entry reaches from one metaslab into the next: each is freed in one piece.
            let changes = vdev.of(keeping).map(|metaslab| Changes {
                allocated: RangeSet::new(),
                freed: metaslab.take_kept(),
            });
            let changes: Vec<Changes> = changes.collect();
            write_kept(&vdev, &changes, pass, store)?;
        }
        Ok(())
    }
}

fn write_kept(
    vdev: &VdevSpace,
    changes: &[Changes],
    pass: Pass,
    store: &dyn SpaceStore,
) -> Result<(), SpaceError> {
    let failed = |object| {
        move |source| SpaceError::Store {
            object,
            txg: pass.txg,
            source,
        }
    };
    let geometry = vdev.geometry();
    let map = store.kept_map(geometry.vdev).map_err(failed(ObjectId(0)))?;
    let position = store.length(map).map_err(failed(map))?;
    let block_size = store.block_size(map).map_err(failed(map))?;
    let within = usize::try_from(position % block_size as u64).unwrap_or(0);
    let mut encoder = Encoder::new(geometry.layout.ashift(), pass.form, block_size, within);
    for change in changes {
        change.encode(&mut encoder, 0, 0, pass);
    }
    let growth: i64 = changes.iter().map(Changes::growth).sum();
    let append = MapAppend {
        bytes: &encoder.finish(),
        allocated_change: growth,
        histogram: None,
    };
    store.append(map, &append).map_err(failed(map))?;
    vdev.add_kept(-growth);
    Ok(())
}
