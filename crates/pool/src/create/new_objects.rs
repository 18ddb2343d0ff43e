//! What a new pool's own object set holds besides datasets: the pool directory, features, history, configuration,
//! the ZAPs of the vdevs, the metaslab arrays and the table of space map logs.
//!
//! Source: the notes on a freshly created pool, compared with pools made by OpenZFS.

use crate::config::VdevConfig;
use crate::error::Result;
use crate::pool::status::VdevRole;
use crate::vdevs::objects::VdevObjects;
use base::ByteOrder;
use dmu::{AllocateObject, CreateZap, Object, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::bpobj::BpobjPhys;
use format::config::{directory, keys};
use format::features::{self, Feature};
use format::history::HistoryPhys;
use format::uberblock::VERSION_FEATURES;
use format::version;
use format::zap::Value;
use std::sync::Arc;

const HISTORY_BLOCK_SIZE: u32 = 128 << 10;
const HISTORY_RING_MIN: u64 = 128 << 10;
const HISTORY_RING_MAX: u64 = 1 << 30;
const CONFIG_BLOCK_SIZE: u32 = 16 << 10;
const DEFERRED_BLOCK_SIZE: u32 = 16 << 10;
/// The value of a dnode's compression override that says "off".
const COMPRESSION_OFF: u8 = 2;

/// What is to be made.
pub(crate) struct NewPool<'a> {
    /// The pool's own object set, empty.
    pub(crate) objects: &'a Arc<ObjectSet>,
    /// Its first transaction.
    pub(crate) tx: &'a Tx,
    /// The pool's version.
    pub(crate) version: u64,
    /// The features to be enabled, each after those it depends on.
    pub(crate) features: &'a [&'static Feature],
    /// Secret of salted checksums.
    pub(crate) salt: [u8; 32],
    /// Bytes that the pool can hold: the history's ring is a thousandth of it.
    pub(crate) capacity_bytes: u64,
}

impl NewPool<'_> {
    /// Makes the pool directory; datasets are made in between by the layer below.
    pub(crate) fn directory(&self) -> Result<Zap> {
        let shape = CreateZap {
            object_type: ObjectType::OBJECT_DIRECTORY,
            id: Some(directory::OBJECT),
            ..CreateZap::default()
        };
        Ok(Zap::create(self.objects, self.tx, &shape)?)
    }

    /// Makes everything else, and notes in `root` the objects of each vdev.
    pub(crate) fn fill(&self, pool: &Zap, root: &mut VdevConfig, roles: &[VdevRole]) -> Result<()> {
        let classed = roles.iter().filter(|role| role.has_feature()).count() as u64;
        if self.version >= VERSION_FEATURES {
            let tops = root.children.iter();
            let of_layouts: Vec<_> = tops.filter_map(VdevConfig::feature).collect();
            self.feature_tables(pool, (classed, &of_layouts))?;
        }
        if self.version >= version::HISTORY {
            let history = new_history(self.objects, self.tx, self.capacity_bytes)?;
            pool.add(self.tx, directory::HISTORY.as_bytes(), history.id().0)?;
        }
        let config = self.packed_list()?;
        pool.add(self.tx, directory::CONFIG.as_bytes(), config.id().0)?;
        pool.add(
            self.tx,
            directory::CREATION_VERSION.as_bytes(),
            self.version,
        )?;
        if self.version >= version::DEFLATE {
            pool.add(self.tx, directory::DEFLATE.as_bytes(), 1)?;
        }
        let deferred = self.deferred_frees()?;
        pool.add(self.tx, directory::SYNC_BPLIST.as_bytes(), deferred.id().0)?;
        let salt = Value::bytes(&self.salt);
        pool.add_value(self.tx, directory::CHECKSUM_SALT.as_bytes(), &salt)?;
        self.vdev_zaps(pool, root, roles)?;
        if self.has(&features::LOG_SPACEMAP) {
            let logs = self.metadata_zap()?;
            pool.add(
                self.tx,
                directory::LOG_SPACE_MAPS.as_bytes(),
                logs.object().id().0,
            )?;
        }
        Ok(())
    }

    fn has(&self, feature: &Feature) -> bool {
        self.features.iter().any(|known| known.guid == feature.guid)
    }

    fn metadata_zap(&self) -> Result<Zap> {
        let shape = CreateZap {
            object_type: ObjectType::OTN_ZAP_METADATA,
            ..CreateZap::default()
        };
        Ok(Zap::create(self.objects, self.tx, &shape)?)
    }

    fn feature_tables(&self, pool: &Zap, (classed, of_layouts): (u64, &[&Feature])) -> Result<()> {
        let for_read = self.metadata_zap()?;
        let for_write = self.metadata_zap()?;
        let descriptions = self.metadata_zap()?;
        let tables = [
            (directory::FEATURES_FOR_READ, &for_read),
            (directory::FEATURES_FOR_WRITE, &for_write),
            (directory::FEATURE_DESCRIPTIONS, &descriptions),
        ];
        for (key, table) in tables {
            pool.add(self.tx, key.as_bytes(), table.object().id().0)?;
        }
        // Without the feature nobody would know the table.
        let enabled = self
            .has(&features::ENABLED_TXG)
            .then(|| self.metadata_zap());
        let enabled = enabled.transpose()?;
        if let Some(table) = &enabled {
            let key = directory::FEATURE_ENABLED_TXG.as_bytes();
            pool.add(self.tx, key, table.object().id().0)?;
        }
        let dated = if self.has(&features::ENABLED_TXG) {
            self.features.len() as u64
        } else {
            0
        };
        for feature in self.features {
            let guid = feature.guid.as_bytes();
            let table = if feature.read_only_compatible {
                &for_write
            } else {
                &for_read
            };
            let of_layouts = of_layouts.iter().filter(|one| one.guid == feature.guid);
            let count = if feature.guid == features::ALLOCATION_CLASSES.guid {
                classed
            } else {
                self.first_count(feature, dated) + of_layouts.count() as u64
            };
            table.add(self.tx, guid, count)?;
            let mut text = feature.description.as_bytes().to_vec();
            text.push(0);
            descriptions.add_value(self.tx, guid, &Value::bytes(&text))?;
            if let Some(enabled) = &enabled {
                enabled.add(self.tx, guid, self.tx.txg().0)?;
            }
        }
        Ok(())
    }

    /// How many things use the feature in the new pool, as far as they are made here.
    fn first_count(&self, feature: &Feature, dated: u64) -> u64 {
        let is = |known: &Feature| known.guid == feature.guid;
        if is(&features::ENABLED_TXG) {
            return dated;
        }
        let used = feature.flags.active_when_enabled
            || is(&features::LOG_SPACEMAP)
            || is(&features::VDEV_ZAPS_V2);
        u64::from(used)
    }

    fn packed_list(&self) -> Result<Arc<Object>> {
        Ok(self.objects.allocate(
            self.tx,
            &AllocateObject {
                object_type: ObjectType::PACKED_NVLIST,
                block_size: CONFIG_BLOCK_SIZE,
                bonus_type: ObjectType::PACKED_NVLIST_SIZE,
                bonus_len: 8,
                ..AllocateObject::default()
            },
        )?)
    }

    /// The list of frees that wait for the next txg: in pools without space map logs.
    fn deferred_frees(&self) -> Result<Arc<Object>> {
        let object = self.objects.allocate(
            self.tx,
            &AllocateObject {
                object_type: ObjectType::BPOBJ,
                block_size: DEFERRED_BLOCK_SIZE,
                bonus_type: ObjectType::BPOBJ_HEADER,
                bonus_len: size_u16(BpobjPhys::size_in(self.version)),
                ..AllocateObject::default()
            },
        )?;
        object.set_overrides(self.tx, 0, COMPRESSION_OFF)?;
        Ok(object)
    }

    fn vdev_zaps(&self, pool: &Zap, root: &mut VdevConfig, roles: &[VdevRole]) -> Result<()> {
        let map = self.metadata_zap()?;
        let vdevs = VdevObjects {
            objects: self.objects,
            tx: self.tx,
            logged: self.has(&features::LOG_SPACEMAP),
        };
        pool.add(
            self.tx,
            directory::VDEV_ZAP_MAP.as_bytes(),
            map.object().id().0,
        )?;
        if self.has(&features::VDEV_ZAPS_V2) {
            vdevs.zap(&map, root, keys::VDEV_ZAP_ROOT)?;
        }
        for (top, role) in root.children.iter_mut().zip(roles) {
            vdevs.top(&map, top, *role)?;
        }
        Ok(())
    }
}

/// The object of the history of a pool that can hold so many bytes.
pub(crate) fn new_history(
    objects: &Arc<ObjectSet>,
    tx: &Tx,
    capacity_bytes: u64,
) -> dmu::Result<Arc<Object>> {
    let shape = AllocateObject {
        object_type: ObjectType::HISTORY,
        block_size: HISTORY_BLOCK_SIZE,
        bonus_type: ObjectType::HISTORY_OFFSETS,
        bonus_len: size_u16(HistoryPhys::SIZE),
        ..AllocateObject::default()
    };
    let object = objects.allocate(tx, &shape)?;
    let header = HistoryPhys {
        create_length: 0,
        ring_size: (capacity_bytes / 1000).clamp(HISTORY_RING_MIN, HISTORY_RING_MAX),
        begin: 0,
        end: 0,
        records_lost: 0,
    };
    object.modify_bonus(tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))?;
    Ok(object)
}

fn size_u16(size: usize) -> u16 {
    u16::try_from(size).unwrap_or(u16::MAX)
}

/// Puts the features of a new pool in an order in which each follows those it depends on.
pub(crate) fn in_dependency_order(wanted: &[&'static Feature]) -> Vec<&'static Feature> {
    let mut ordered: Vec<&'static Feature> = Vec::with_capacity(wanted.len());
    fn add(feature: &'static Feature, ordered: &mut Vec<&'static Feature>) {
        if ordered.iter().any(|known| known.guid == feature.guid) {
            return;
        }
        for needed in feature.depends_on {
            add(needed, ordered);
        }
        ordered.push(feature);
    }
    for feature in wanted {
        add(feature, &mut ordered);
    }
    ordered
}
