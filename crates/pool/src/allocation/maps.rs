//! Space maps as objects of the pool's own object set.
//!
//! The set of maps of a vdev is its metaslab array; with log space maps there is besides an array of the txgs from
//! which on each metaslab's changes are in the logs, and a ZAP of the logs themselves by txg.

use crate::config::VdevConfig;
use crate::error::{PoolError, Result};
use crate::vdevs::objects::new_unflushed;
use base::lock::{LockClass, Mutex, rank};
use base::{ByteOrder, ObjectId, Txg, VdevId};
use dmu::{AllocateObject, DmuError, Object, ObjectSet, Tx, Zap};
use format::ObjectType;
use format::config::{keys, vdev_zap};
use format::space_map::SpaceMapPhys;
use space::{MapAppend, MapContents, SpaceStore, StoreError};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

static MAPS: LockClass = LockClass::new("pool.space_maps", rank::DMU - 5);

/// Space map objects have small indirect blocks.
const INDIRECT_SHIFT: u8 = 14;
/// A log is written in one txg and read whole.
const BLOCK_SIZE_LOG: u32 = 128 << 10;
/// Each time a metaslab is flushed, a few entries are added and the last block of its map is written again, three
/// times over: so these blocks are small, with log space maps as without.
const BLOCK_SIZE_MAP: u32 = 16 << 10;
/// A map of what is kept is written at its end, and emptied from there, a block at a time.
const BLOCK_SIZE_KEPT: u32 = 128 << 10;
/// The blocks of a space map of missed txgs are small.
pub(crate) const BLOCK_SIZE_MISSED: u32 = 4 << 10;
/// No map that we could write is longer; a header that says so is damaged.
const MAP_BYTES_MAX: u64 = 4 << 30;

/// The arrays of one top-level vdev.
#[derive(Clone)]
pub(crate) struct VdevMaps {
    /// A space map object for each metaslab.
    pub(crate) array: Arc<Object>,
    /// For each metaslab the txg from which on its changes are in the logs; made when it is first needed.
    pub(crate) unflushed: Option<Arc<Object>>,
    /// The map of what is kept for a checkpoint alone, if there is one.
    pub(crate) kept: Option<ObjectId>,
    /// The vdev's ZAP.
    pub(crate) zap: Option<Zap>,
}

impl VdevMaps {
    /// Opens the arrays of a vdev.
    pub(crate) fn open(mos: &ObjectSet, array: ObjectId, zap: Option<Zap>) -> Result<Self> {
        let named = |key: &str| match &zap {
            Some(zap) => zap.lookup(key.as_bytes()),
            None => Ok(None),
        };
        let kept = named(vdev_zap::CHECKPOINT_SPACE_MAP)?;
        let unflushed = named(vdev_zap::UNFLUSHED_TXGS)?.map(|id| mos.object(ObjectId(id)));
        Ok(Self {
            array: mos.object(array)?,
            unflushed: unflushed.transpose()?,
            kept: kept.filter(|id| *id != 0).map(ObjectId),
            zap,
        })
    }

    /// Opens those of a vdev that was just made: it has them all.
    pub(crate) fn of_new(mos: &ObjectSet, top: &VdevConfig) -> Result<Self> {
        let named = |key: &str| {
            let id = top.object(key);
            id.ok_or_else(|| PoolError::Damaged(format!("vdev {} has no {key}", top.id())))
        };
        let zap = Zap::open(&mos.object(named(keys::VDEV_ZAP_TOP)?)?)?;
        Self::open(mos, named(keys::METASLAB_ARRAY)?, Some(zap))
    }
}

/// The end of a map.
pub(crate) struct MapEnd {
    /// Where it begins.
    pub(crate) start: u64,
    /// Its words.
    pub(crate) bytes: Vec<u8>,
}

/// Which forms the pool's features allow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapForms {
    /// Maps carry a histogram.
    pub(crate) histogram: bool,
}

/// A space map's header does not fit its object.
#[derive(Debug, thiserror::Error)]
#[error("space map {object}: its header says {length} bytes")]
pub(crate) struct MapTooLong {
    object: ObjectId,
    length: u64,
}

/// A vdev has no metaslab array, or the pool no ZAP of logs, where one is needed.
#[derive(Debug, thiserror::Error)]
#[error("vdev {vdev}: the pool has no {what}")]
pub(crate) struct MissingMaps {
    vdev: VdevId,
    what: &'static str,
}

/// Keeps space maps in the pool's own object set.
pub(crate) struct MosSpaceStore {
    objects: Arc<ObjectSet>,
    forms: MapForms,
    state: Mutex<State>,
    /// The txg that syncs: all writing belongs to it.
    txg: AtomicU64,
    /// By how much the number of maps with a histogram has changed since it was last asked for.
    maps_change: AtomicI64,
}

#[derive(Default)]
struct State {
    vdevs: BTreeMap<VdevId, VdevMaps>,
    logs_zap: Option<Arc<Zap>>,
    logs: BTreeMap<Txg, ObjectId>,
}

impl MosSpaceStore {
    /// A store in `objects`, which as yet knows no vdev.
    pub(crate) fn new(objects: Arc<ObjectSet>, forms: MapForms) -> Self {
        Self {
            objects,
            forms,
            state: Mutex::new(&MAPS, State::default()),
            txg: AtomicU64::new(0),
            maps_change: AtomicI64::new(0),
        }
    }

    /// Makes a vdev's arrays known.
    pub(crate) fn set_vdev(&self, vdev: VdevId, maps: VdevMaps) {
        self.state.lock().vdevs.insert(vdev, maps);
    }

    /// Forgets a vdev that is no more.
    pub(crate) fn remove_vdev(&self, vdev: VdevId) {
        self.state.lock().vdevs.remove(&vdev);
    }

    /// Makes the logs known: the ZAP, and the logs that are in it, ascending by txg.
    pub(crate) fn set_logs(&self, zap: Arc<Zap>) -> Result<Vec<(Txg, ObjectId)>, DmuError> {
        let mut logs = BTreeMap::new();
        for entry in zap.entries()? {
            let key = std::str::from_utf8(&entry.name).ok();
            let txg = key.and_then(|key| u64::from_str_radix(key, 16).ok());
            if let Some(txg) = txg {
                logs.insert(Txg(txg), ObjectId(entry.value));
            }
        }
        let found = logs.iter().map(|(txg, object)| (*txg, *object)).collect();
        let mut state = self.state.lock();
        state.logs_zap = Some(zap);
        state.logs = logs;
        Ok(found)
    }

    /// Begins the sync of a txg.
    pub(crate) fn begin(&self, txg: Txg) {
        self.txg.store(txg.0, Ordering::Relaxed);
    }

    /// The txg that syncs, or was the last to.
    pub(crate) fn syncing(&self) -> Txg {
        Txg(self.txg.load(Ordering::Relaxed))
    }

    /// By how much the number of maps with a histogram changed since the last call: the pool counts them as uses of
    /// the feature.
    pub(crate) fn take_maps_change(&self) -> i64 {
        self.maps_change.swap(0, Ordering::Relaxed)
    }

    fn tx(&self) -> Tx {
        Tx::syncing(self.syncing())
    }

    fn header(&self, object: &Object) -> Result<SpaceMapPhys, StoreError> {
        let header =
            object.with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
        let info = object.info();
        let capacity = (info.max_block + 1).saturating_mul(info.block_size.into());
        if header.length > capacity.min(MAP_BYTES_MAX) {
            return Err(Box::new(MapTooLong {
                object: object.id(),
                length: header.length,
            }));
        }
        Ok(header)
    }

    /// Replaces what is in a small space map, which is made if there is none; answers which it is.
    pub(crate) fn rewrite(
        &self,
        known: Option<ObjectId>,
        bytes: &[u8],
        allocated: i64,
    ) -> Result<ObjectId, DmuError> {
        let tx = self.tx();
        let object = match known {
            Some(id) => self.objects.object(id)?,
            None => self.new_map(&tx, BLOCK_SIZE_MISSED)?,
        };
        object.free_range(&tx, 0, u64::MAX)?;
        if !bytes.is_empty() {
            object.write(&tx, 0, bytes)?;
        }
        let mut header =
            object.with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
        (header.length, header.allocated) = (bytes.len() as u64, allocated);
        object.modify_bonus(&tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))?;
        Ok(object.id())
    }

    fn new_map(&self, tx: &Tx, block_size: u32) -> Result<Arc<Object>, DmuError> {
        let histogram = self.forms.histogram;
        let bonus_len = if histogram {
            SpaceMapPhys::SIZE
        } else {
            SpaceMapPhys::SIZE_PLAIN
        };
        let shape = AllocateObject {
            object_type: ObjectType::SPACE_MAP,
            block_size,
            indirect_shift: INDIRECT_SHIFT,
            bonus_type: ObjectType::SPACE_MAP_HEADER,
            bonus_len: u16::try_from(bonus_len).unwrap_or(u16::MAX),
            slots: 1,
        };
        let object = self.objects.allocate(tx, &shape)?;
        let id = object.id().0;
        object.modify_bonus(tx, |bonus| {
            let header = SpaceMapPhys {
                object: id,
                length: 0,
                allocated: 0,
                histogram: [0; 32],
            };
            header.encode(bonus, ByteOrder::NATIVE);
        })?;
        if histogram {
            self.maps_change.fetch_add(1, Ordering::Relaxed);
        }
        Ok(object)
    }

    /// Frees a space map.
    pub(crate) fn destroy_map(&self, tx: &Tx, object: ObjectId) -> Result<(), DmuError> {
        let with_histogram = self.objects.object(object)?.bonus().len() >= SpaceMapPhys::SIZE;
        self.objects.free(tx, object)?;
        if with_histogram {
            self.maps_change.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The map of what a vdev keeps for a checkpoint alone, if there is one.
    pub(crate) fn known_kept(&self, vdev: VdevId) -> Option<ObjectId> {
        self.state.lock().vdevs.get(&vdev)?.kept
    }

    /// The map of what of a removed vdev nothing refers to any more, by the vdev's table; made if there is none, which
    /// is said as well.
    pub(crate) fn obsolete_map(&self, zap: &Zap) -> Result<(ObjectId, bool), DmuError> {
        let key = vdev_zap::OBSOLETE_SPACE_MAP.as_bytes();
        if let Some(known) = zap.lookup(key)?.filter(|id| *id != 0) {
            return Ok((ObjectId(known), false));
        }
        let tx = self.tx();
        let map = self.new_map(&tx, BLOCK_SIZE_KEPT)?.id();
        zap.add(&tx, key, map.0)?;
        Ok((map, true))
    }

    /// The header of a map.
    pub(crate) fn phys(&self, map: ObjectId) -> Result<SpaceMapPhys> {
        let object = self.objects.object(map)?;
        let header = self.header(&object);
        header.map_err(|error| PoolError::Damaged(error.to_string()))
    }

    /// Bytes of a block of a map.
    pub(crate) fn block_bytes(&self, map: ObjectId) -> Result<u64> {
        Ok(self.objects.object(map)?.block_size().into())
    }

    /// What a map has from `start` on, up to so many bytes.
    pub(crate) fn part(&self, map: ObjectId, start: u64, bytes: u64) -> Result<Vec<u8>> {
        let left = self.phys(map)?.length.saturating_sub(start).min(bytes);
        let mut read = vec![0; usize::try_from(left).unwrap_or(usize::MAX)];
        self.objects.object(map)?.read(start, &mut read)?;
        Ok(read)
    }

    /// The last block of a map, as far as it is filled.
    pub(crate) fn end_of(&self, map: ObjectId) -> Result<MapEnd, StoreError> {
        let object = self.objects.object(map)?;
        let length = self.header(&object)?.length;
        let block_size = u64::from(object.block_size());
        let start = length.saturating_sub(1) / block_size * block_size;
        let mut bytes = vec![0; usize::try_from(length - start)?];
        object.read(start, &mut bytes)?;
        Ok(MapEnd { start, bytes })
    }

    /// Cuts a map off at `length`, behind which it freed so many bytes.
    pub(crate) fn cut(
        &self,
        tx: &Tx,
        map: ObjectId,
        length: u64,
        freed: i64,
    ) -> Result<(), DmuError> {
        let object = self.objects.object(map)?;
        object.free_range(tx, length, u64::MAX - length)?;
        let mut header =
            object.with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
        header.length = length;
        header.allocated = header.allocated.saturating_add(freed);
        object.modify_bonus(tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))
    }

    /// Frees the map of what a vdev keeps.
    pub(crate) fn drop_kept(&self, tx: &Tx, vdev: VdevId) -> Result<(), DmuError> {
        let found = self.state.lock().vdevs.get(&vdev).cloned();
        let Some(mut maps) = found else { return Ok(()) };
        if let Some(map) = maps.kept.take() {
            self.destroy_map(tx, map)?;
        }
        if let Some(zap) = &maps.zap {
            zap.remove(tx, vdev_zap::CHECKPOINT_SPACE_MAP.as_bytes())?;
        }
        self.set_vdev(vdev, maps);
        Ok(())
    }

    fn maps(&self, vdev: VdevId) -> Result<VdevMaps, StoreError> {
        let found = self.state.lock().vdevs.get(&vdev).cloned();
        found.ok_or_else(|| {
            Box::new(MissingMaps {
                vdev,
                what: "metaslab array",
            }) as StoreError
        })
    }
}

/// Writes one number of an array object.
fn put(array: &Arc<Object>, tx: &Tx, index: usize, value: u64) -> Result<(), DmuError> {
    array.write(tx, index as u64 * 8, &value.to_ne_bytes())
}

impl SpaceStore for MosSpaceStore {
    fn is_damage(&self, error: &StoreError) -> bool {
        let error = error.downcast_ref::<DmuError>();
        error.is_some_and(DmuError::is_damage)
    }

    fn read(&self, object: ObjectId) -> Result<MapContents, StoreError> {
        let object = self.objects.object(object)?;
        let header = self.header(&object)?;
        let mut bytes = vec![0; usize::try_from(header.length)?];
        object.read(0, &mut bytes)?;
        Ok(MapContents {
            bytes,
            allocated: header.allocated,
        })
    }

    fn length(&self, object: ObjectId) -> Result<u64, StoreError> {
        Ok(self.header(&*self.objects.object(object)?)?.length)
    }

    fn create(&self, vdev: VdevId, metaslab: usize) -> Result<ObjectId, StoreError> {
        let maps = self.maps(vdev)?;
        let tx = self.tx();
        let object = self.new_map(&tx, BLOCK_SIZE_MAP)?.id();
        put(&maps.array, &tx, metaslab, object.0)?;
        Ok(object)
    }

    fn kept_map(&self, vdev: VdevId) -> Result<ObjectId, StoreError> {
        let mut maps = self.maps(vdev)?;
        if let Some(known) = maps.kept {
            return Ok(known);
        }
        let Some(zap) = &maps.zap else {
            let what = "table of its own";
            return Err(Box::new(MissingMaps { vdev, what }));
        };
        let tx = self.tx();
        let map = self.new_map(&tx, BLOCK_SIZE_KEPT)?.id();
        zap.add(&tx, vdev_zap::CHECKPOINT_SPACE_MAP.as_bytes(), map.0)?;
        maps.kept = Some(map);
        self.set_vdev(vdev, maps);
        Ok(map)
    }

    fn append(&self, object: ObjectId, append: &MapAppend<'_>) -> Result<(), StoreError> {
        let object = self.objects.object(object)?;
        let mut header = self.header(&object)?;
        let tx = self.tx();
        object.write(&tx, header.length, append.bytes)?;
        header.length += append.bytes.len() as u64;
        header.allocated += append.allocated_change;
        if let Some(histogram) = append.histogram {
            header.histogram = histogram;
        }
        object.modify_bonus(&tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))?;
        Ok(())
    }

    fn clear(&self, object: ObjectId) -> Result<(), StoreError> {
        let object = self.objects.object(object)?;
        let mut header = self.header(&object)?;
        let tx = self.tx();
        object.free_range(&tx, 0, u64::MAX)?;
        (header.length, header.allocated) = (0, 0);
        object.modify_bonus(&tx, |bonus| header.encode(bonus, ByteOrder::NATIVE))?;
        Ok(())
    }

    fn set_unflushed(&self, vdev: VdevId, metaslab: usize, txg: Txg) -> Result<(), StoreError> {
        let mut maps = self.maps(vdev)?;
        let array = match (maps.unflushed.take(), &maps.zap) {
            (Some(array), _) => array,
            // OpenZFS makes it with the first use of the vdev.
            (None, Some(zap)) => {
                let array = new_unflushed(&self.objects, &self.tx(), zap)?;
                maps.unflushed = Some(Arc::clone(&array));
                self.set_vdev(vdev, maps);
                array
            }
            (None, None) => {
                let what = "array of unflushed txgs";
                return Err(Box::new(MissingMaps { vdev, what }));
            }
        };
        Ok(put(&array, &self.tx(), metaslab, txg.0)?)
    }

    fn log(&self, txg: Txg) -> Result<ObjectId, StoreError> {
        let (known, zap) = {
            let state = self.state.lock();
            (state.logs.get(&txg).copied(), state.logs_zap.clone())
        };
        if let Some(log) = known {
            return Ok(log);
        }
        let missing = || {
            Box::new(MissingMaps {
                vdev: VdevId(0),
                what: "table of space map logs",
            })
        };
        let zap = zap.ok_or_else(missing)?;
        let tx = self.tx();
        let log = self.new_map(&tx, BLOCK_SIZE_LOG)?.id();
        zap.add_int(&tx, txg.0, log.0)?;
        self.state.lock().logs.insert(txg, log);
        Ok(log)
    }

    fn trim_logs(&self, before: Txg) -> Result<(), StoreError> {
        let (old, zap) = {
            let state = self.state.lock();
            let old: Vec<_> = state
                .logs
                .range(..before)
                .map(|(txg, log)| (*txg, *log))
                .collect();
            (old, state.logs_zap.clone())
        };
        let Some(zap) = zap else { return Ok(()) };
        let tx = self.tx();
        for (txg, log) in old {
            self.destroy_map(&tx, log)?;
            zap.remove_int(&tx, txg.0)?;
            self.state.lock().logs.remove(&txg);
        }
        Ok(())
    }

    fn block_size(&self, object: ObjectId) -> Result<usize, StoreError> {
        Ok(self.objects.object(object)?.block_size() as usize)
    }
}
