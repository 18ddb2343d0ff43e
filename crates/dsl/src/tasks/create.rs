//! Creating file systems, volumes and clones.

use std::sync::Arc;

use base::{Guid, ObjectId, Txg};
use dmu::{AllocateObject, ObjectSet, Tx};
use format::dsl::{DatasetPhys, DirectoryPhys, key};
use format::intent_log::LogHeader;
use format::zap::NormalizationFlags;
use format::{ObjectSetKind, ObjectSetPhys, ObjectType, features};

use super::limits::{Counted, check_limits, count_from_now};
use super::{change_count, new_zap, split_path};
use crate::dataset::{Dataset, DatasetFeature};
use crate::deadlist::Deadlist;
use crate::delegation::grant_to_creator;
use crate::directory::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::livelist;
use crate::mos::{Mos, change_record};
use crate::name::DEPTH_MAX;
use crate::property::{PropertyValue, set_local};
use crate::services::{HistoryEvent, SpaceClass};
use crate::task::{Task, TaskContext};

/// Fills a new object set: what a file system or volume needs to be one.
pub type Populate = Box<dyn FnOnce(&Arc<ObjectSet>, &Tx) -> Result<(), String> + Send>;

/// Creates a file system or volume.
pub struct CreateDataset {
    /// Its path.
    pub path: String,
    /// What it is.
    pub kind: ObjectSetKind,
    /// Local properties.
    pub properties: Vec<(String, PropertyValue)>,
    /// Names of its snapshots match without regard to case.
    pub case_insensitive: bool,
    /// Fills it.
    pub populate: Option<Populate>,
}

impl Task for CreateDataset {
    type Output = Arc<Dataset>;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        check_new(context, &self.path)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let (dsl, tx) = (context.dsl, context.tx);
        let (parent, component) = split_path(&self.path)?;
        let parent = dsl.directory(parent)?;
        let directory = create_directory(dsl, tx, parent.id(), component)?;
        let origin = dsl
            .origin_snapshot()?
            .map(|id| dsl.dataset_by_id(id))
            .transpose()?;
        let dataset = create_head(dsl, tx, &directory, origin.as_ref())?;
        if self.case_insensitive {
            dataset.change(tx, |phys| phys.flags |= DatasetPhys::FLAG_CASE_INSENSITIVE)?;
        }
        for (name, value) in &self.properties {
            set_local(dsl, tx, &dataset, name, value)?;
        }
        settle(context, &dataset, &parent)?;
        dsl.new_stamp();
        let populate = self.populate.take();
        fill(context, &dataset, self.kind, populate)?;
        context.record(&HistoryEvent {
            name: "create",
            dataset: &self.path,
            dataset_id: dataset.id(),
            text: " ",
        })?;
        Ok(dataset)
    }
}

/// Makes the object set of a new head, fills it and writes it.
pub(crate) fn fill(
    context: &TaskContext<'_>,
    dataset: &Arc<Dataset>,
    kind: ObjectSetKind,
    populate: Option<Populate>,
) -> Result<()> {
    let (dsl, tx) = (context.dsl, context.tx);
    let object_set = ObjectSet::create(dataset.open_options(true), kind, tx)?;
    if kind == ObjectSetKind::FileSystem {
        let services = dsl.services();
        let mut flags = ObjectSetPhys::FLAG_USER_ACCOUNTING;
        if services.is_enabled(&features::USEROBJ_ACCOUNTING) {
            flags |= ObjectSetPhys::FLAG_USER_OBJECT_ACCOUNTING;
            dataset.activate(tx, DatasetFeature::UserObjectAccounting)?;
        }
        if services.is_enabled(&features::PROJECT_QUOTA) {
            flags |= ObjectSetPhys::FLAG_PROJECT_QUOTA;
            dataset.activate(tx, DatasetFeature::ProjectQuota)?;
        }
        object_set.set_flags(tx, flags);
    }
    dataset.enter_new(&object_set);
    if let Some(populate) = populate {
        populate(&object_set, tx).map_err(|reason| DslError::Populate { reason })?;
    }
    dataset.sync_in(tx, context.pass)?;
    Ok(())
}

/// What a new head is to those above it: counted, and its creator's as far as they grant that.
fn settle(context: &TaskContext<'_>, head: &Arc<Dataset>, parent: &Arc<Directory>) -> Result<()> {
    let (dsl, tx, directory) = (context.dsl, context.tx, head.directory());
    count_from_now(dsl, tx, &directory)?;
    grant_to_creator(dsl, tx, &directory, context.actor.user)?;
    change_count(tx, parent, key::FILESYSTEM_COUNT, 1)
}

/// Checks that a path is free and may be created.
fn check_new(context: &TaskContext<'_>, path: &str) -> Result<()> {
    let dsl = context.dsl;
    let (parent, component) = split_path(path)?;
    let parent = dsl.directory(parent)?;
    if parent.child(component)?.is_some() {
        return Err(DslError::exists(path));
    }
    if parent.depth() + 2 > DEPTH_MAX {
        let problem = crate::name::NameProblem::TooDeep;
        return Err(DslError::BadName {
            name: path.to_owned(),
            problem,
        });
    }
    check_limits(context.actor, Counted::FileSystems, [&parent].into_iter())
}

/// Clones a snapshot.
pub struct Clone {
    /// The snapshot.
    pub origin: String,
    /// The path of the clone.
    pub path: String,
    /// Local properties.
    pub properties: Vec<(String, PropertyValue)>,
}

impl Task for Clone {
    type Output = Arc<Dataset>;

    fn space(&self) -> SpaceClass {
        SpaceClass::Normal
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        let origin = context.dsl.dataset(&self.origin)?;
        if !origin.is_snapshot() {
            return Err(DslError::NotSnapshot {
                name: self.origin.clone(),
            });
        }
        if origin.is_encrypted()? {
            let what = "encryption";
            return Err(DslError::Unsupported {
                name: self.origin.clone(),
                what,
            });
        }
        if origin.phys()?.creation_txg >= context.tx.txg() {
            let name = self.origin.clone();
            return Err(DslError::Again { name });
        }
        origin.check_root()?;
        check_new(context, &self.path)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let (dsl, tx) = (context.dsl, context.tx);
        let (parent, component) = split_path(&self.path)?;
        let parent = dsl.directory(parent)?;
        let origin = dsl.dataset(&self.origin)?;
        let dataset = create_clone(context, &parent, component, &origin)?;
        for (name, value) in &self.properties {
            set_local(dsl, tx, &dataset, name, value)?;
        }
        settle(context, &dataset, &parent)?;
        context.record(&HistoryEvent {
            name: "clone",
            dataset: &self.path,
            dataset_id: dataset.id(),
            text: &format!("origin={} ({})", origin.name()?, origin.id()),
        })?;
        Ok(dataset)
    }
}

/// Makes a clone of a snapshot under a directory.
pub(super) fn create_clone(
    context: &TaskContext<'_>,
    parent: &Arc<Directory>,
    component: &str,
    origin: &Arc<Dataset>,
) -> Result<Arc<Dataset>> {
    let (dsl, tx) = (context.dsl, context.tx);
    let directory = create_directory(dsl, tx, parent.id(), component)?;
    let dataset = create_head(dsl, tx, &directory, Some(origin))?;
    for feature in origin.features()? {
        dataset.activate(tx, feature)?;
    }
    if dsl.services().is_enabled(&features::LIVELIST) {
        livelist::create(&directory, tx)?;
    }
    clear_intent_log(context, &dataset)?;
    Ok(dataset)
}

/// A head that shows what a snapshot showed has no intent log: the anchor in the shared root block
/// is not its own.
pub(super) fn clear_intent_log(context: &TaskContext<'_>, dataset: &Arc<Dataset>) -> Result<()> {
    if dataset.phys()?.block_pointer.is_hole() {
        return Ok(());
    }
    let object_set = dataset.object_set()?;
    if object_set.intent_log_header() != LogHeader::EMPTY {
        object_set.set_intent_log_header(context.tx, LogHeader::EMPTY);
        dataset.sync_in(context.tx, context.pass)?;
    }
    Ok(())
}

/// A new directory under `parent`.
pub(crate) fn create_directory(
    dsl: &Dsl,
    tx: &Tx,
    parent: ObjectId,
    component: &str,
) -> Result<Arc<Directory>> {
    let id = directory_object(&dsl.mos, tx, parent)?;
    let map = dsl.directory_by_id(parent)?.child_map()?;
    map.add(tx, component.as_bytes(), id.0)?;
    let directory = dsl.directory_by_id(id)?;
    let made = Arc::clone(&directory);
    tx.on_undo(move || made.dsl.directories.forget(made.id()));
    Ok(directory)
}

/// The objects of a new directory under `parent` (0: the root of a new pool), which does not know
/// it yet.
pub(crate) fn directory_object(mos: &Mos, tx: &Tx, parent: ObjectId) -> Result<ObjectId> {
    let shape = AllocateObject {
        object_type: ObjectType::DSL_DIRECTORY,
        bonus_type: ObjectType::DSL_DIRECTORY,
        bonus_len: DirectoryPhys::SIZE as u16,
        ..AllocateObject::default()
    };
    let object = mos.set.allocate(tx, &shape)?;
    let properties = new_zap(mos, tx, ObjectType::DSL_PROPERTIES, 0)?;
    let child_map = new_zap(mos, tx, ObjectType::DSL_DIRECTORY_CHILD_MAP, 0)?;
    let breakdown = mos.services.version() >= VERSION_USED_BREAKDOWN;
    change_record(&object, tx, |phys: &mut DirectoryPhys| {
        phys.creation_time = mos.services.clock().now_s();
        phys.parent = parent;
        phys.properties = properties.object().id();
        phys.child_map = child_map.object().id();
        phys.flags = if breakdown {
            DirectoryPhys::FLAG_USED_BREAKDOWN
        } else {
            0
        };
    })?;
    Ok(object.id())
}

/// What a dataset made in this txg says that it was created in: the pool's first txg counts as 1.
pub(super) fn creation_txg(tx: &Tx) -> Txg {
    if tx.txg() == Txg::INITIAL {
        Txg(1)
    } else {
        tx.txg()
    }
}

const VERSION_USED_BREAKDOWN: u64 = 13;
const VERSION_NEXT_CLONES: u64 = 11;
const VERSION_DIRECTORY_CLONES: u64 = 26;

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
    let snapshot_names = new_zap(mos, tx, ObjectType::DSL_SNAPSHOT_MAP, fold)?;
    let deadlist = match origin {
        Some(origin) => {
            let head = origin.directory().head()?;
            let head = head.ok_or_else(|| DslError::damaged(origin.id(), "it has no head"))?;
            head.deadlist()?
                .clone_keys(tx, origin.phys()?.creation_txg)?
        }
        None => {
            // The first of all: the origin of everything. Its keys come with its snapshot.
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
        phys.flags = DatasetPhys::FLAG_UNIQUE_ACCURATE;
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
    let dataset = dsl.dataset_by_id(object.id())?;
    dataset.leave_memory_if_undone(tx);
    Ok(dataset)
}

/// A random identity of 56 bits.
pub(super) fn new_fsid(dsl: &Dsl) -> u64 {
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
    let version = mos.services.version();
    origin.change(tx, |phys| phys.child_count += 1)?;
    if version >= VERSION_NEXT_CLONES {
        next_clones(dsl, tx, origin)?.add_int(tx, head.0, head.0)?;
    }
    directory.change(tx, |phys| phys.origin = origin.id())?;
    if version >= VERSION_DIRECTORY_CLONES {
        directory_clones(dsl, tx, &origin.directory())?.add_int(tx, head.0, head.0)?;
    }
    Ok(())
}

/// The ZAP of a snapshot's successors in clones, made when it is not there.
pub(super) fn next_clones(dsl: &Dsl, tx: &Tx, origin: &Arc<Dataset>) -> Result<dmu::Zap> {
    let id = origin.phys()?.next_clones;
    if id.0 != 0 {
        return dsl.mos.zap(id);
    }
    let zap = new_zap(&dsl.mos, tx, ObjectType::NEXT_CLONES, 0)?;
    origin.change(tx, |phys| phys.next_clones = zap.object().id())?;
    Ok(zap)
}

/// The ZAP of the heads cloned from snapshots of a directory, made when it is not there.
pub(super) fn directory_clones(dsl: &Dsl, tx: &Tx, directory: &Arc<Directory>) -> Result<dmu::Zap> {
    let id = directory.phys()?.clones;
    if id.0 != 0 {
        return dsl.mos.zap(id);
    }
    let zap = new_zap(&dsl.mos, tx, ObjectType::DSL_CLONES, 0)?;
    directory.change(tx, |phys| phys.clones = zap.object().id())?;
    Ok(zap)
}
