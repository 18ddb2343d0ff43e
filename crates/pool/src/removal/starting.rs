//! How a removal begins.

use base::VdevId;
use dmu::Tx;
use format::config::{directory, keys, vdev_zap};
use format::features;
use format::indirect::{NO_VDEV, Removing, removal_state};
use vdev::MappingBuilder;

use super::stored::{Stored, store};
use super::{Evacuation, Running};
use crate::error::{PoolError, Result};
use crate::import::removed;
use crate::pool::services::PoolServices;
use crate::sync::tasks::FirstPass;

impl Evacuation {
    /// Nothing is allocated on the vdev any more, in no txg that is under way.
    pub(super) fn begin(&self, pass: &FirstPass<'_>, id: VdevId) -> Result<Running> {
        let (services, tx) = (pass.services, pass.tx);
        let config = services.config.get();
        let top = config
            .top(id)
            .ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
        let with_counts = services.features.is_enabled(&features::OBSOLETE_COUNTS);
        let stored = Stored::create(&services.mos, tx, with_counts)?;
        services.change_feature(tx, &features::DEVICE_REMOVAL, 1)?;
        if with_counts {
            // The mapping's own, and that they are exact.
            services.change_feature(tx, &features::OBSOLETE_COUNTS, 2)?;
            pass.top_zap(id)?.add(tx, vdev_zap::PRECISE.as_bytes(), 1)?;
        }
        let space = pass.space.vdev(id);
        let last = removed::removing(&services.directory)?;
        let removing = Removing {
            state: removal_state::ACTIVE,
            vdev: id.0,
            last: last.map_or(NO_VDEV, |last| last.last),
            started_s: services.clock.now_s(),
            ended_s: 0,
            to_copy: space.map_or(0, |space| space.allocated_bytes()),
            copied: 0,
        };
        store(services, tx, &removing)?;
        let objects = (stored.mapping.entries().id().0, stored.births.id().0);
        services.config.change(|config| {
            if let Some(top) = config.top_mut(id) {
                top.list.set(keys::NON_ALLOCATING, 1_u64);
                top.list.set(keys::REMOVING, 1_u64);
                top.list.set(keys::INDIRECT_OBJECT, objects.0);
                top.list.set(keys::INDIRECT_BIRTHS, objects.1);
            }
        });
        move_directory(services, tx)?;
        let mapping = MappingBuilder::new(id, top.asize());
        self.allocator.obsolete.set_removing(Some((id, mapping)));
        let text = format!("{} vdev {id} {}", config.name(), top.path().unwrap_or("-"));
        let history = &services.history;
        history.internal(tx, "vdev remove started", &text, None, removing.started_s)?;
        Ok(Running {
            vdev: id,
            removing,
            stored,
            at: 0,
            is_copied: false,
            halt: None,
        })
    }
}

/// Writes all of the directory anew, elsewhere: it is read before any mapping is known. So is the configuration, which
/// is written anew in any case.
fn move_directory(services: &PoolServices, tx: &Tx) -> Result<()> {
    let object = services.mos.object(directory::OBJECT)?;
    let info = object.info();
    let size = u64::from(info.block_size);
    for block in 0..=info.max_block {
        let data = object.read_block(block)?;
        object.write(tx, block.saturating_mul(size), &data)?;
    }
    Ok(())
}
