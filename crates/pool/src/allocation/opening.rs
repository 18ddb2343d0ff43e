//! Opening the space maps: the geometry of every vdev, what each metaslab's map says, and the logs.

use std::sync::Arc;

use base::invariant::Findings;
use base::{ByteOrder, ObjectId, Txg};
use dmu::{Object, ObjectSet, Zap};
use format::config::{directory, keys, vdev_zap};
use format::features::{self};
use format::space_map::SpaceMapPhys;
use space::{ClassKind, MetaslabInfo, PoolSpace, SpaceStore, VdevGeometry, VdevSpace};

use crate::allocation::maps::{MapForms, MosSpaceStore, VdevMaps};
use crate::config::{METASLABS_MAX, VdevConfig};
use crate::error::{PoolError, Result};
use crate::mos::features::Features;

/// The pool's space and the store of its maps.
#[derive(Clone)]
pub(crate) struct OpenedSpace {
    pub(crate) space: Arc<PoolSpace>,
    pub(crate) maps: Arc<MosSpaceStore>,
}

/// What the features allow in maps.
pub(crate) fn forms(features: &Features) -> MapForms {
    MapForms {
        histogram: features.is_enabled(&features::SPACEMAP_HISTOGRAM),
    }
}

/// Opens the space of all top-level vdevs.
pub(crate) fn open(
    mos: &Arc<ObjectSet>,
    root: &Zap,
    config: &VdevConfig,
    features: &Features,
    findings: &Arc<Findings>,
) -> Result<OpenedSpace> {
    let maps = Arc::new(MosSpaceStore::new(Arc::clone(mos), forms(features)));
    let mut vdevs = Vec::with_capacity(config.children.len());
    for top in &config.children {
        vdevs.push(
            if top.is_hole() || top.is_indirect() || top.has_no_metaslabs() {
                None
            } else {
                let space = open_vdev(mos, top, &maps, findings)?;
                space.set_allocatable(!top.flag(keys::REMOVING));
                Some(space)
            },
        );
    }
    let logs = root
        .lookup(directory::LOG_SPACE_MAPS.as_bytes())?
        .filter(|id| *id != 0);
    // Logs are used when the feature is active; they are read whenever they are there.
    let logged = features.is_active(&features::LOG_SPACEMAP) && logs.is_some();
    let two_words = features.is_active(&features::SPACEMAP_V2);
    let allocators = space::allocators_of_machine();
    let space = PoolSpace::new(vdevs, allocators, logged, two_words);
    if let Some(id) = logs {
        let zap = Arc::new(Zap::open(&mos.object(ObjectId(id))?)?);
        let found = maps.set_logs(zap)?;
        for ((txg, log), newer) in found.iter().copied().zip((0..found.len()).rev()) {
            let contents = maps
                .read(log)
                .map_err(|error| PoolError::Space(error.to_string()))?;
            space.replay_log(txg, log, &contents.bytes, newer)?;
        }
    }
    Ok(OpenedSpace {
        space: Arc::new(space),
        maps,
    })
}

/// The geometry that a configuration gives a top-level vdev.
pub(crate) fn geometry(top: &VdevConfig, class: ClassKind) -> Result<VdevGeometry> {
    let layout = top.layout().ok_or_else(|| PoolError::UnsupportedVdev {
        kind: top.kind().to_owned(),
    })?;
    let ashift = layout.ashift();
    let geometry = VdevGeometry {
        vdev: top.id(),
        class,
        layout,
        metaslab_shift: top.metaslab_shift(),
        size: top.asize(),
    };
    let sound = format::label::ASHIFT_RANGE.contains(&ashift)
        && (ashift..=48).contains(&geometry.metaslab_shift)
        && geometry.size >> geometry.metaslab_shift <= METASLABS_MAX;
    if sound {
        Ok(geometry)
    } else {
        Err(PoolError::Damaged(format!(
            "vdev {} has metaslabs of 2^{} bytes",
            top.id(),
            geometry.metaslab_shift
        )))
    }
}

/// Opens the space of one top-level vdev.
pub(crate) fn open_vdev(
    mos: &ObjectSet,
    top: &VdevConfig,
    maps: &MosSpaceStore,
    findings: &Arc<Findings>,
) -> Result<VdevSpace> {
    let zap = top
        .object(keys::VDEV_ZAP_TOP)
        .map(|id| mos.object(id).and_then(|object| Zap::open(&object)))
        .transpose()?;
    let geometry = geometry(top, class_of(top, zap.as_ref())?)?;
    let Some(array) = top.object(keys::METASLAB_ARRAY) else {
        return Ok(VdevSpace::new(geometry, &[], findings));
    };
    let vdev_maps = VdevMaps::open(mos, array, zap)?;
    let count = geometry.metaslab_count();
    let objects = words(&vdev_maps.array, count)?;
    let txgs = match &vdev_maps.unflushed {
        Some(object) => words(object, count)?,
        None => vec![0; count],
    };
    let mut known = Vec::with_capacity(count);
    for (object, txg) in objects.into_iter().zip(txgs) {
        known.push(info(
            mos,
            ObjectId(object),
            Txg(txg),
            geometry.layout.ashift(),
        )?);
    }
    let kept = vdev_maps.kept.map(|id| kept_bytes(mos, id)).transpose()?;
    maps.set_vdev(top.id(), vdev_maps);
    let space = VdevSpace::new(geometry, &known, findings);
    space.add_kept(kept.unwrap_or(0));
    Ok(space)
}

/// How many bytes a map of what is kept for a checkpoint holds.
fn kept_bytes(mos: &ObjectSet, map: ObjectId) -> Result<i64> {
    let map = mos.object(map)?;
    let header = map.with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
    Ok(header.allocated.min(0).saturating_neg())
}

fn info(mos: &ObjectSet, object: ObjectId, unflushed: Txg, ashift: u32) -> Result<MetaslabInfo> {
    if object == ObjectId(0) {
        return Ok(MetaslabInfo {
            unflushed,
            ..MetaslabInfo::default()
        });
    }
    let map = mos.object(object)?;
    let header = map.with_bonus(|bonus| SpaceMapPhys::decode_padded(bonus, ByteOrder::NATIVE));
    let with_histogram = map.bonus().len() >= SpaceMapPhys::SIZE;
    Ok(MetaslabInfo {
        object,
        allocated: header.allocated,
        unflushed,
        longest: with_histogram.then(|| longest(&header, ashift)),
    })
}

/// What the longest free segment has at least, bytes, as the histogram of a map says.
fn longest(header: &SpaceMapPhys, ashift: u32) -> u64 {
    let buckets = header.histogram.iter().zip(ashift..);
    let filled = buckets.filter(|(count, _)| **count > 0);
    filled.last().map_or(0, |(_, shift)| 1 << shift)
}

/// The first `count` words of an array object; what is past its end is 0.
pub(crate) fn words(array: &Object, count: usize) -> Result<Vec<u64>> {
    let info = array.info();
    let there = info
        .max_block
        .saturating_add(1)
        .saturating_mul(info.block_size.into());
    let length = (count as u64).saturating_mul(8).min(there);
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
    array.read(0, &mut bytes)?;
    let mut words: Vec<u64> = bytes
        .chunks_exact(8)
        .map(|word| format::record::get_at(word, 0, ByteOrder::NATIVE))
        .collect();
    words.resize(count, 0);
    Ok(words)
}

/// What a top-level vdev's space is for.
pub(crate) fn class_of(top: &VdevConfig, zap: Option<&Zap>) -> Result<ClassKind> {
    if top.flag(keys::IS_LOG) {
        return Ok(ClassKind::Log);
    }
    let bias = match zap {
        Some(zap) => zap.lookup_value(vdev_zap::ALLOCATION_BIAS.as_bytes())?,
        None => None,
    };
    let bias = bias.map(|value| value.stored().to_vec());
    Ok(match bias.as_deref().map(|text| text.trim_ascii_end()) {
        Some(b"log\0" | b"log") => ClassKind::Log,
        Some(b"special\0" | b"special") => ClassKind::Special,
        Some(b"dedup\0" | b"dedup") => ClassKind::Dedup,
        _ => ClassKind::Normal,
    })
}
