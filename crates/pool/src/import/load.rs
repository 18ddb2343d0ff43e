//! Loading a pool's own object set: from labels to the MOS directory, configuration and features.
//!
//! The steps: the newest uberblock on any device; the configuration in the labels beside it; the
//! object set that it points to; the configuration stored there, which replaces the labels' one;
//! the features. Nothing is written.

use std::collections::BTreeMap;

use base::{ByteOrder, Guid, ObjectId, Txg};
use codec::Salt;
use dmu::{ObjectSet, Zap};
use format::config::{VdevType, directory, keys};
use format::nvlist::decode_xdr;
use format::{ObjectSetKind, Uberblock, version};
use vdev::TxgRanges;

use crate::assembly::{Blocks, Foundation, WithObjects};
use crate::config::{PoolConfig, VdevConfig};
use crate::error::{PoolError, Result};
use crate::expansion;
use crate::import::discover::{self, FoundPool, unknown_label_features};
use crate::import::removed;
use crate::mos::features::Features;
use crate::vdevs::devices::{Devices, OpenedTree, Purpose, open_tree};
use crate::vdevs::dtl;

/// No configuration object is longer.
const CONFIG_SIZE_MAX: u64 = 64 << 20;

/// How to load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadOptions {
    /// What for.
    pub(crate) purpose: Purpose,
    /// Uberblocks of later txgs do not count.
    pub(crate) txg_max: Option<Txg>,
    /// The state to load, whatever the labels say.
    pub(crate) state: Option<Uberblock>,
    /// Bytes that the block cache may hold.
    pub(crate) cache_bytes: usize,
    /// Whether log vdevs may be missing.
    pub(crate) without_logs: bool,
}

/// A pool's own object set and what it tells of the pool.
pub(crate) struct Loaded {
    pub(crate) uberblock: Uberblock,
    pub(crate) config: PoolConfig,
    pub(crate) config_object: ObjectId,
    /// The txgs that the pool has stored as missed, by leaf.
    pub(crate) missed: BTreeMap<Guid, TxgRanges>,
    pub(crate) objects: WithObjects,
    pub(crate) directory: Zap,
    pub(crate) features: Features,
}

/// Loads the newest state of a pool that is not newer than the options allow.
pub(crate) fn load(pool: Guid, devices: &mut Devices, options: &LoadOptions) -> Result<Loaded> {
    let stored = find_stored(pool, devices, options)?;
    load_stored(stored, devices, options)
}

/// An uberblock, and the configuration that the pool has stored as of it.
pub(crate) type StoredConfig = (Uberblock, PoolConfig);

/// The first part of loading: from the labels to the configuration that the pool itself has.
pub(crate) fn find_stored(
    pool: Guid,
    devices: &mut Devices,
    options: &LoadOptions,
) -> Result<StoredConfig> {
    let found = discover::assemble(devices.found());
    let found = found.into_iter().find(|found| found.guid == pool);
    let found = found.ok_or_else(|| PoolError::NoSuchPool {
        wanted: pool.to_string(),
    })?;
    let uberblock = match options.state {
        Some(state) => state,
        None => choose(&found, options.txg_max)?,
    };
    if !uberblock.version_is_known() {
        return Err(PoolError::UnsupportedVersion {
            version: uberblock.version,
        });
    }
    check_label_features(&found, &uberblock)?;
    let is_other = |newest: &Uberblock| newest.reflow_info != uberblock.reflow_info;
    if options.state.is_none() && found.newest_uberblock().is_some_and(is_other) {
        // What it looks for may have been overwritten by what moved since.
        let reason = "a RAID-Z has been expanded since".to_owned();
        return Err(PoolError::Invalid { reason });
    }
    let labels = Stage::open(&found.config, devices, &uberblock, options)?;
    let config = labels.stored_config()?;
    check_is_made(&found, &config)?;
    // The stored configuration is the truth; labels only led to it, and may name other devices.
    let newest = found.newest_uberblock().map_or(Txg(0), |newest| newest.txg);
    devices.open_stored(&config.root, newest)?;
    Ok((uberblock, config))
}

/// The second part: what the stored configuration leads to.
pub(crate) fn load_stored(
    (uberblock, config): StoredConfig,
    devices: &Devices,
    options: &LoadOptions,
) -> Result<Loaded> {
    let stage = Stage::open(&config, devices, &uberblock, options)?;
    check_complete(&config, &stage.tree, &uberblock, options)?;
    stage.finish(config, uberblock, options.purpose)
}

/// Refuses what a crash left of `zpool split`: labels of the new pool, and the state of the old one below them.
fn check_is_made(found: &FoundPool, stored: &PoolConfig) -> Result<()> {
    let split = found.config.list.u64(keys::SPLIT_GUID);
    if split.is_none() || stored.guid() == found.guid {
        return Ok(());
    }
    Err(PoolError::Invalid {
        reason: format!(
            "it was to be split from '{}', which was not finished: its devices belong to no pool, and \
             may be attached to that one again with '-f'",
            stored.name()
        ),
    })
}

/// The newest uberblock within the limit.
fn choose(found: &FoundPool, txg_max: Option<Txg>) -> Result<Uberblock> {
    let candidates = found
        .devices
        .iter()
        .filter_map(|device| device.labels.best_uberblock(txg_max));
    let best = candidates
        .map(|candidate| candidate.uberblock)
        .max_by(Uberblock::compare_age);
    best.ok_or_else(|| PoolError::NoUberblock {
        reason: "no label holds one".to_owned(),
    })
}

/// Refuses features that a reader must know before it reads anything.
fn check_label_features(found: &FoundPool, uberblock: &Uberblock) -> Result<()> {
    let holds = |device: &&crate::import::discover::FoundDevice| {
        let best = device.labels.best_uberblock(Some(uberblock.txg));
        best.is_some_and(|best| best.uberblock.txg == uberblock.txg)
    };
    let config = found
        .devices
        .iter()
        .find(holds)
        .and_then(|device| device.labels.best_config(Some(uberblock.txg)));
    let features = config.map_or_else(Vec::new, |label| unknown_label_features(&label.config));
    if features.is_empty() {
        return Ok(());
    }
    Err(PoolError::UnsupportedFeatures {
        features,
        readable: false,
    })
}

/// Refuses a pool of which top-level vdevs are missing.
fn check_complete(
    config: &PoolConfig,
    tree: &OpenedTree,
    uberblock: &Uberblock,
    options: &LoadOptions,
) -> Result<()> {
    if let Some((_, kind)) = tree.unsupported.first() {
        return Err(PoolError::UnsupportedVdev { kind: kind.clone() });
    }
    let log = |id: u64| {
        let index = usize::try_from(id).ok();
        let top = index.and_then(|index| config.root.children.get(index));
        top.filter(|top| top.flag(keys::IS_LOG))
    };
    let is_log = |id: u64| log(id).is_some();
    // What is out of use by the operator's word is not missed.
    let is_out = |top: &VdevConfig| {
        let mut leaves = top.leaves().into_iter();
        leaves.all(|leaf| leaf.stored_state().is_some())
    };
    let forgiven = |id: u64| log(id).is_some_and(|top| options.without_logs || is_out(top));
    let unusable = tree.unusable.iter().filter(|(id, _)| !forgiven(id.0));
    if unusable.clone().count() > 0 && unusable.clone().all(|(id, _)| is_log(id.0)) {
        let tops = config.root.children.iter().zip(0_u64..);
        let lost = tops.filter(|(_, id)| unusable.clone().any(|(lost, _)| lost.0 == *id));
        let leaves = lost.flat_map(|(top, _)| top.leaves());
        let paths = leaves.filter_map(|leaf| leaf.path().map(ToOwned::to_owned));
        return Err(PoolError::MissingLogs {
            paths: paths.collect(),
        });
    }
    let missing: Vec<u64> = unusable.clone().map(|(id, _)| id.0).collect();
    if let Some((_, reason)) = unusable.clone().next() {
        return Err(PoolError::MissingDevices {
            vdevs: missing,
            reason: reason.clone(),
        });
    }
    if config.root.guid_sum() != uberblock.guid_sum && !options.without_logs {
        return Err(PoolError::MissingDevices {
            vdevs: Vec::new(),
            reason: "the devices' guids do not add up to the uberblock's".to_owned(),
        });
    }
    Ok(())
}

/// A tree of vdevs with the object set that its uberblock points to.
struct Stage {
    tree: OpenedTree,
    objects: WithObjects,
    directory: Zap,
}

impl Stage {
    fn open(
        config: &PoolConfig,
        devices: &Devices,
        uberblock: &Uberblock,
        options: &LoadOptions,
    ) -> Result<Self> {
        check_sectors(&config.root)?;
        let tree = open_tree(&config.root, devices);
        let reflow = uberblock.reflow();
        let reflow = reflow.map_err(PoolError::corrupt("uberblock"))?;
        tree.vdevs.set_moved(expansion::moved(reflow));
        // What they missed is in the pool that is read from them.
        dtl::leaves(&tree.vdevs)
            .iter()
            .for_each(|leaf| leaf.await_missing());
        let blocks = Blocks {
            cache_bytes: options.cache_bytes,
            writable: options.purpose == Purpose::Writing,
        };
        let foundation = Foundation::new(config, &tree.vdevs, blocks);
        let opened = ObjectSet::open(foundation.own_objects(), &uberblock.root);
        let mos = opened.map_err(|error| explain(error, &tree))?;
        if mos.kind() != ObjectSetKind::Meta {
            return Err(PoolError::Damaged(
                "the root object set is not the pool's own".to_owned(),
            ));
        }
        let directory = mos
            .object(directory::OBJECT)
            .and_then(|object| Zap::open(&object))
            .map_err(|error| explain(error, &tree))?;
        Ok(Self {
            tree,
            objects: foundation.with_objects(mos),
            directory,
        })
    }

    /// The configuration object.
    fn config_object(&self) -> Result<ObjectId> {
        let id = self.directory.lookup(directory::CONFIG.as_bytes())?;
        let id = id.filter(|id| *id != 0).map(ObjectId);
        id.ok_or_else(|| PoolError::Damaged("it has no configuration object".to_owned()))
    }

    /// The configuration that the pool itself stores.
    fn stored_config(&self) -> Result<PoolConfig> {
        let explained = |error: PoolError| {
            if let PoolError::Object(error) = error {
                return explain(error, &self.tree);
            }
            error
        };
        let bytes = read_packed(&self.objects.mos, self.config_object()?).map_err(explained)?;
        let list = decode_xdr(&bytes).map_err(PoolError::corrupt("pool configuration"))?;
        PoolConfig::from_list(&list)
    }

    fn finish(self, config: PoolConfig, uberblock: Uberblock, purpose: Purpose) -> Result<Loaded> {
        let config_object = self.config_object()?;
        // Before anything is read that may lie on a removed vdev.
        let mos = &self.objects.mos;
        removed::load(mos, &self.directory, &config.root, &self.tree.vdevs)?;
        let features = Features::open(&self.objects.mos, &self.directory)?;
        let foundation = &self.objects.foundation;
        // A pool that was made without goes on without, whatever its version is now.
        let deflates = self.directory.lookup(directory::DEFLATE.as_bytes())?;
        foundation.store.set_deflates(deflates.is_some());
        let slim = uberblock.version >= version::SLIM_LOGS;
        foundation.pipeline.set_slim_logs(slim);
        let pipeline = &foundation.pipeline;
        pipeline.set_hole_birth(features.is_active(&format::features::HOLE_BIRTH));
        // Who first needed one has counted it: nothing is counted, or counted down, any more.
        let has_long = features.is_active(&format::features::DYNAMIC_GANG_HEADER);
        pipeline.set_long_gang_headers(has_long);
        if let Some(salt) = self.salt()? {
            self.objects.foundation.pipeline.set_salt(salt);
        }
        if let Err(error) = dtl::load(&self.objects.mos, &config, &self.tree.vdevs)
            && purpose.is_strict()
        {
            return Err(error);
        }
        let missed = dtl::leaves(&self.tree.vdevs)
            .into_iter()
            .map(|leaf| (leaf.guid(), leaf.missing()))
            .collect();
        Ok(Loaded {
            uberblock,
            missed,
            config,
            config_object,
            objects: self.objects,
            directory: self.directory,
            features,
        })
    }

    fn salt(&self) -> Result<Option<Salt>> {
        let value = self
            .directory
            .lookup_value(directory::CHECKSUM_SALT.as_bytes())?;
        let bytes = value.and_then(|value| <[u8; 32]>::try_from(value.stored()).ok());
        Ok(bytes.map(Salt))
    }
}

/// Refuses a configuration with sectors of a size that no vdev has: everything is reckoned from it.
fn check_sectors(root: &VdevConfig) -> Result<()> {
    // Of those that nobody here knows something is read all the same.
    let has_sectors = |top: &&VdevConfig| top.vdev_type().is_none_or(VdevType::has_sectors);
    let mut tops = root.children.iter().filter(has_sectors);
    let wrong = tops.find(|top| !format::label::ASHIFT_RANGE.contains(&top.ashift()));
    wrong.map_or(Ok(()), |top| {
        Err(PoolError::Damaged(format!(
            "vdev {} has an invalid ashift: {}; it must be 9 to 16",
            top.id(),
            top.ashift()
        )))
    })
}

/// An error of the first reads, with the cause that the user can do something about.
fn explain(error: dmu::DmuError, tree: &OpenedTree) -> PoolError {
    if let Some((_, kind)) = tree.unsupported.first() {
        return PoolError::UnsupportedVdev { kind: kind.clone() };
    }
    if let Some((_, reason)) = tree.unusable.first() {
        return PoolError::MissingDevices {
            vdevs: tree.unusable.iter().map(|(id, _)| id.0).collect(),
            reason: reason.clone(),
        };
    }
    PoolError::NoUberblock {
        reason: error.to_string(),
    }
}

/// The bytes of a packed list object.
pub(crate) fn read_packed(mos: &ObjectSet, id: ObjectId) -> Result<Vec<u8>> {
    let object = mos.object(id)?;
    let length =
        object.with_bonus(|bonus| format::record::get_at::<u64>(bonus, 0, ByteOrder::NATIVE));
    if length > CONFIG_SIZE_MAX {
        return Err(PoolError::Damaged(format!(
            "object {id} says that it packs {length} bytes"
        )));
    }
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    object.read(0, &mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
