//! Making heads, and what ties a dataset to those that were cloned from it.

use std::sync::Arc;

use base::{Guid, ObjectId, Txg};
use dmu::{AllocateObject, Tx, Zap};
use format::dsl::DatasetPhys;
use format::zap::NormalizationFlags;
use format::{ObjectType, version};

use super::Dataset;
use crate::deadlist::Deadlist;
use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::mos::change_record;

/// What a dataset made in this txg says that it was created in: the pool's first txg counts as 1.
pub(crate) fn creation_txg(tx: &Tx) -> Txg {
    if tx.txg() == Txg::INITIAL {
        Txg(1)
    } else {
        tx.txg()
    }
}

/// A new head in a directory, which shows what `origin` shows.
pub(crate) fn create_head(
    dsl: &Dsl,
    tx: &Tx,
    directory: &Arc<Directory>,
    origin: Option<&Arc<Dataset>>,
) -> Result<Arc<Dataset>> {
    let mos = &dsl.mos;
    let services = &mos.services;
    let shape = AllocateObject {
        object_type: ObjectType::DSL_DATASET,
        bonus_type: ObjectType::DSL_DATASET,
        bonus_len: DatasetPhys::SIZE as u16,
        ..AllocateObject::default()
    };
    let object = mos.set.allocate(tx, &shape)?;
    let fold = NormalizationFlags::FOLD_UPPER;
    let snapshot_names = mos.new_zap(tx, ObjectType::DSL_SNAPSHOT_MAP, fold)?;
    let deadlist = match origin {
        Some(origin) => {
            let head = origin.directory().head()?;
            let head = head.ok_or_else(|| DslError::damaged(origin.id(), "it has no head"))?;
            let max = origin.phys()?.creation_txg;
            let keys = || origin.txgs_before();
            head.deadlist()?.empty_after(tx, max, keys)?
        }
        None => {
            // The first of all: the origin of everything. Its keys come with its snapshot. Or any, in a pool without.
            Deadlist::create(mos, tx)?
        }
    };
    let source = origin.map(|origin| origin.phys()).transpose()?;
    let copied = DatasetPhys::FLAG_INCONSISTENT | DatasetPhys::FLAG_CASE_INSENSITIVE;
    change_record(&object, tx, |phys: &mut DatasetPhys| {
        phys.directory = directory.id();
        phys.snapshot_names = snapshot_names.object().id();
        phys.creation_time = services.clock().now_s();
        phys.creation_txg = creation_txg(tx);
        phys.deadlist = deadlist.id();
        phys.fsid_guid = new_fsid(dsl);
        phys.guid = Guid(services.rng().nonzero_u64());
        if services.version() >= version::UNIQUE_ACCURATE {
            phys.flags = DatasetPhys::FLAG_UNIQUE_ACCURATE;
        }
        if let (Some(origin), Some(source)) = (origin, &source) {
            phys.previous_snapshot = origin.id();
            phys.previous_snapshot_txg = source.creation_txg;
            phys.referenced_bytes = source.referenced_bytes;
            phys.compressed_bytes = source.compressed_bytes;
            phys.uncompressed_bytes = source.uncompressed_bytes;
            phys.block_pointer = source.block_pointer;
            phys.flags |= source.flags & copied;
        }
    })?;
    if let Some(origin) = origin {
        adopt(dsl, tx, origin, directory, object.id())?;
    }
    directory.change(tx, |phys| phys.head_dataset = object.id())?;
    // A copy of what the object was before is nobody's.
    dsl.datasets.forget(object.id());
    let dataset = dsl.dataset_by_id(object.id())?;
    dataset.leave_memory_if_undone(tx);
    Ok(dataset)
}

/// A random identity of 56 bits.
pub(crate) fn new_fsid(dsl: &Dsl) -> u64 {
    dsl.services().rng().nonzero_u64() >> 8 | 1
}

/// Makes `head` in `directory` a successor of the snapshot `origin`.
fn adopt(
    dsl: &Dsl,
    tx: &Tx,
    origin: &Arc<Dataset>,
    directory: &Arc<Directory>,
    head: ObjectId,
) -> Result<()> {
    let mos = &dsl.mos;
    let known = mos.services.version();
    origin.change(tx, |phys| phys.child_count += 1)?;
    if known >= version::ORIGIN {
        next_clones(dsl, tx, origin)?.add_int(tx, head.0, head.0)?;
    }
    directory.change(tx, |phys| phys.origin = origin.id())?;
    if known >= version::DEADLISTS {
        directory_clones(dsl, tx, &origin.directory())?.add_int(tx, head.0, head.0)?;
    }
    Ok(())
}

/// The ZAP of a snapshot's successors in clones, made when it is not there.
pub(crate) fn next_clones(dsl: &Dsl, tx: &Tx, origin: &Arc<Dataset>) -> Result<Zap> {
    let id = origin.phys()?.next_clones;
    if id.0 != 0 {
        return dsl.mos.zap(id);
    }
    let zap = dsl.mos.new_zap(tx, ObjectType::NEXT_CLONES, 0)?;
    origin.change(tx, |phys| phys.next_clones = zap.object().id())?;
    Ok(zap)
}

/// The ZAP of the heads cloned from snapshots of a directory, made when it is not there.
pub(crate) fn directory_clones(dsl: &Dsl, tx: &Tx, directory: &Arc<Directory>) -> Result<Zap> {
    let id = directory.phys()?.clones;
    if id.0 != 0 {
        return dsl.mos.zap(id);
    }
    let zap = dsl.mos.new_zap(tx, ObjectType::DSL_CLONES, 0)?;
    directory.change(tx, |phys| phys.clones = zap.object().id())?;
    Ok(zap)
}
