//! How a removal ends: the vdev is gone, or stays after all.

use std::ops::Range;
use std::sync::Arc;

use base::{Guid, ObjectId};
use format::config::{VdevType, keys, vdev_zap};
use format::features;
use format::indirect::{NO_VDEV, Removing, removal_state};
use format::nvlist::NvList;
use space::{ClassKind, Extent, VdevSpace};
use vdev::{Interior, InteriorKind, Node, Top};

use super::stored::store;
use super::{Evacuation, Halt, Running};
use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::import::removed;
use crate::sync::tasks::FirstPass;

impl Evacuation {
    /// Puts a vdev without devices in the place of one of which everything is copied.
    pub(super) fn complete(&self, pass: &FirstPass<'_>, running: &Running) -> Result<()> {
        let (services, tx, id) = (pass.services, pass.tx, running.vdev);
        let config = services.config.get();
        let old = config
            .top(id)
            .ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
        let leaves = pass.vdevs.top(id)?.leaves().to_vec();
        let new = indirect_config(old, running.removing.last);
        let births = removed::read_births(&running.stored.births)?;
        let partial = self.allocator.obsolete.take_removing();
        let partial = partial.filter(|(vdev, _)| *vdev == id);
        let (_, mapping) = partial.ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
        let top = indirect_top(&*pass.vdevs.top(id)?, old.guid());
        pass.vdevs.put_moved(&top, mapping.finish(births));
        forget(pass, old)?;
        services.config.change(|config| {
            if let Some(top) = config.top_mut(id) {
                *top = new.clone();
            }
        });
        let now_s = services.clock.now_s();
        let removing = Removing {
            state: removal_state::FINISHED,
            last: id.0,
            ended_s: now_s,
            ..running.removing
        };
        store(services, tx, &removing)?;
        self.changes.leave(leaves);
        services.events.vdev("vdev_remove_dev", old.guid());
        let text = format!("{} vdev {id}", config.name());
        let history = &services.history;
        Ok(history.internal(tx, "vdev remove completed", &text, None, now_s)?)
    }

    /// Whether all that is in use of the vdev is copied.
    pub(super) fn is_whole(&self, pass: &FirstPass<'_>, running: &Running) -> Result<bool> {
        let space = pass.space.vdev(running.vdev);
        let space = space.ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(running.vdev)))?;
        let used = in_use(pass, &space, u64::MAX)?;
        let mut ranges = used.ranges.into_iter();
        Ok(!used.is_partial && ranges.all(|range| self.allocator.obsolete.is_copied(&range)))
    }

    /// Returns what was copied; the vdev is used as before.
    pub(super) fn cancel(&self, pass: &FirstPass<'_>, running: &Running) -> Result<()> {
        let (services, tx, id) = (pass.services, pass.tx, running.vdev);
        let config = services.config.get();
        let top = config
            .top(id)
            .ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
        let space = pass.space.vdev(id);
        let space = space.ok_or(PoolError::Vdev(vdev::VdevError::NoSuchTop(id)))?;
        let partial = self.allocator.obsolete.take_removing();
        if let Some((_, mapping)) = partial {
            // What was freed meanwhile is freed there already. Copies of what nobody can say is in use stay allocated.
            for range in in_use(pass, &space, mapping.end())?.ranges {
                for part in mapping.mapped(range) {
                    pass.space.free(&Extent {
                        vdev: part.vdev,
                        range: part.offset..part.offset + part.len,
                    })?;
                }
            }
        }
        let mut counts = -i64::from(running.stored.mapping.has_counts());
        let zap = pass.top_zap(id)?;
        if zap.lookup(vdev_zap::PRECISE.as_bytes())?.is_some() {
            zap.remove(tx, vdev_zap::PRECISE.as_bytes())?;
            counts -= 1;
        }
        let key = vdev_zap::OBSOLETE_SPACE_MAP.as_bytes();
        if let Some(map) = zap.lookup(key)? {
            pass.maps.destroy_map(tx, ObjectId(map))?;
            zap.remove(tx, key)?;
            counts -= 1;
        }
        running.stored.destroy(&services.mos, tx)?;
        services.change_feature(tx, &features::DEVICE_REMOVAL, -1)?;
        services.change_feature(tx, &features::OBSOLETE_COUNTS, counts)?;
        services.config.change(|config| {
            if let Some(top) = config.top_mut(id) {
                for key in [
                    keys::NON_ALLOCATING,
                    keys::REMOVING,
                    keys::INDIRECT_OBJECT,
                    keys::INDIRECT_BIRTHS,
                ] {
                    top.list.remove(key);
                }
            }
        });
        space.set_allocatable(true);
        let now_s = services.clock.now_s();
        let removing = Removing {
            state: removal_state::CANCELLED,
            ended_s: now_s,
            ..running.removing
        };
        store(services, tx, &removing)?;
        let why = running.halt.map_or("", Halt::reason);
        let path = top.path().unwrap_or("-");
        let text = format!("{} vdev {id} {path}{why}", config.name());
        let history = &services.history;
        Ok(history.internal(tx, "vdev remove canceled", &text, None, now_s)?)
    }
}

/// What is in use of a vdev.
struct Used {
    ranges: Vec<Range<u64>>,
    /// Some of it is not known: a map cannot be read.
    is_partial: bool,
}

/// What is in use of a vdev before `end`.
fn in_use(pass: &FirstPass<'_>, space: &VdevSpace, end: u64) -> Result<Used> {
    let mut found = Used {
        ranges: Vec::new(),
        is_partial: false,
    };
    let shift = space.geometry().metaslab_shift;
    let mut index = 0;
    while (index as u64)
        .checked_shl(shift)
        .is_some_and(|start| start < end)
    {
        match space.in_use(index, pass.maps) {
            Ok(Some(used)) => found.ranges.extend(used.iter()),
            Ok(None) => break,
            Err(_) if space.is_unreadable(index, pass.maps)? => found.is_partial = true,
            Err(error) => return Err(error.into()),
        }
        index += 1;
    }
    Ok(found)
}

/// The configuration of a vdev that was removed, as OpenZFS writes it.
fn indirect_config(old: &VdevConfig, previous: u64) -> VdevConfig {
    let mut list = NvList::new();
    list.set(keys::TYPE, VdevType::Indirect.name())
        .set(keys::ID, old.id().0)
        .set(keys::GUID, old.guid().0)
        .set(keys::WHOLE_DISK, 0_u64)
        .set(keys::METASLAB_ARRAY, 0_u64);
    let kept = [
        keys::METASLAB_SHIFT,
        keys::ASHIFT,
        keys::ASIZE,
        keys::MIN_ALLOC,
        keys::IS_LOG,
        keys::NON_ALLOCATING,
        keys::INDIRECT_OBJECT,
        keys::INDIRECT_BIRTHS,
        keys::CREATE_TXG,
        keys::VDEV_ZAP_TOP,
    ];
    for key in kept {
        if let Some(value) = old.list.get(key) {
            list.set(key, value.clone());
        }
    }
    if previous != NO_VDEV {
        list.set(keys::PREVIOUS_INDIRECT, previous);
    }
    VdevConfig {
        list,
        children: Vec::new(),
    }
}

fn indirect_top(old: &Top, guid: Guid) -> Arc<Top> {
    let node = Node::Interior(Interior {
        guid,
        kind: InteriorKind::Indirect,
        children: Vec::new(),
    });
    Top::new(*old.config(), node)
}

/// Frees what the pool knows of the space of a vdev, and of its devices; its ZAP stays.
fn forget(pass: &FirstPass<'_>, old: &VdevConfig) -> Result<()> {
    let (services, tx, id) = (pass.services, pass.tx, old.id());
    let class = pass.space.vdev(id).map(|space| space.geometry().class);
    if matches!(class, Some(ClassKind::Special | ClassKind::Dedup)) {
        services.change_feature(tx, &features::ALLOCATION_CLASSES, -1)?;
    }
    pass.forget_space(id)?;
    let zap = pass.top_zap(id)?;
    let unflushed = vdev_zap::UNFLUSHED_TXGS.as_bytes();
    if let Some(array) = zap.lookup(unflushed)? {
        services.mos.free(tx, ObjectId(array))?;
        zap.remove(tx, unflushed)?;
    }
    let bias = vdev_zap::ALLOCATION_BIAS.as_bytes();
    if zap.lookup_value(bias)?.is_some() {
        zap.remove(tx, bias)?;
    }
    pass.free_leaves(old)?;
    match old.object(keys::METASLAB_ARRAY) {
        Some(array) => Ok(services.mos.free(tx, array)?),
        None => Ok(()),
    }
}
