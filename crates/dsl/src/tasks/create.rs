//! Creating file systems, volumes and clones.

use std::sync::Arc;

use dmu::{ObjectSet, Tx};
use format::dsl::{DatasetPhys, key};
use format::intent_log::LogHeader;
use format::{ObjectSetKind, ObjectSetPhys, features, version};

use super::limits::{Counted, check_limits, count_from_now};
use super::{change_count, split_path};
use crate::dataset::{Dataset, DatasetFeature, create_head};
use crate::delegation::grant_to_creator;
use crate::directory::key_creation::NewEncryption;
use crate::directory::{Directory, create_directory};
use crate::error::{DslError, Result};
use crate::livelist;
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
        self.check_with(context, &NewEncryption::Inherited)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        self.apply_with(context, &NewEncryption::Inherited)
    }
}

/// Creates a file system or volume that is not encrypted just as its parent is.
pub struct CreateEncrypted {
    /// What is created.
    pub create: CreateDataset,
    /// How it is encrypted.
    pub encryption: NewEncryption,
}

impl Task for CreateEncrypted {
    type Output = Arc<Dataset>;

    fn space(&self) -> SpaceClass {
        self.create.space()
    }

    fn check(&mut self, context: &TaskContext<'_>) -> Result<()> {
        self.create.check_with(context, &self.encryption)
    }

    fn apply(&mut self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        self.create.apply_with(context, &self.encryption)
    }
}

impl CreateDataset {
    fn check_with(&self, context: &TaskContext<'_>, encryption: &NewEncryption) -> Result<()> {
        check_new(context, &self.path)?;
        let (parent, _) = split_path(&self.path)?;
        let parent = context.dsl.directory(parent)?;
        encryption.check(context.dsl, Some(&parent)).map(drop)
    }

    fn apply_with(
        &mut self,
        context: &TaskContext<'_>,
        encryption: &NewEncryption,
    ) -> Result<Arc<Dataset>> {
        let (dsl, tx) = (context.dsl, context.tx);
        let (parent, component) = split_path(&self.path)?;
        let parent = dsl.directory(parent)?;
        let directory = create_directory(dsl, tx, parent.id(), component)?;
        let is_encrypted = encryption.apply(tx, &directory, Some(&parent))?;
        let origin = dsl
            .origin_snapshot()?
            .map(|id| dsl.dataset_by_id(id))
            .transpose()?;
        let dataset = create_head(dsl, tx, &directory, origin.as_ref())?;
        if is_encrypted {
            dataset.activate(tx, DatasetFeature::Encryption)?;
        }
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
    dataset.open_key()?;
    let services = dsl.services();
    let size = ObjectSetPhys::size_in(services.version());
    let object_set = ObjectSet::create_sized(dataset.open_options(true), kind, tx, size)?;
    if kind == ObjectSetKind::FileSystem && services.version() >= version::OWNER_ACCOUNTING {
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
pub(super) fn settle(
    context: &TaskContext<'_>,
    head: &Arc<Dataset>,
    parent: &Arc<Directory>,
) -> Result<()> {
    let (dsl, tx, directory) = (context.dsl, context.tx, head.directory());
    count_from_now(dsl, tx, &directory)?;
    grant_to_creator(dsl, tx, &directory, context.actor.user)?;
    change_count(tx, parent, key::FILESYSTEM_COUNT, 1)
}

/// Checks that a path is free and may be created.
pub(super) fn check_new(context: &TaskContext<'_>, path: &str) -> Result<()> {
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
    directory.share_key_record(tx, &origin.directory())?;
    let dataset = create_head(dsl, tx, &directory, Some(origin))?;
    dataset.activate_all(tx, &origin.counted()?)?;
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
    let object_set = dataset.root_object_set()?;
    if object_set.intent_log_header() != LogHeader::EMPTY {
        object_set.set_intent_log_header(context.tx, LogHeader::EMPTY);
        dataset.sync_in(context.tx, context.pass)?;
    }
    Ok(())
}
