//! The tree of a new pool: the root, the hidden directories, the origin of everything, and then
//! the root file system.

use std::sync::Arc;

use base::ObjectId;
use dmu::Tx;
use format::bpobj::BpobjPhys;
use format::config::directory as keys;
use format::dsl::hidden;
use format::{ObjectSetKind, version};

use crate::actor::Actor;
use crate::bpobj::Bpobj;
use crate::dataset::{Dataset, DatasetFeature, create_head};
use crate::directory::key_creation::NewEncryption;
use crate::directory::{create_directory, directory_object};
use crate::error::Result;
use crate::layer::{Dsl, OpenDsl};
use crate::mos::Mos;
use crate::property::{PropertyValue, set_local};
use crate::services::SyncPass;
use crate::task::TaskContext;
use crate::tasks::{Populate, fill, take_snapshot};

/// What the root file system of a new pool is made of.
#[derive(Default)]
pub struct NewPool {
    /// Local properties.
    pub properties: Vec<(String, PropertyValue)>,
    /// Names of its snapshots match without regard to case.
    pub case_insensitive: bool,
    /// Fills it.
    pub populate: Option<Populate>,
    /// How it is encrypted.
    pub encryption: NewEncryption,
}

impl Dsl {
    /// Makes the tree of a new pool, but for its root file system: that comes when the pool has
    /// its features, by [`Dsl::create_root`]. Object 1 must be there.
    ///
    /// # Errors
    /// An object cannot be made.
    pub fn create(options: OpenDsl, pass: &SyncPass<'_>) -> Result<Arc<Self>> {
        let tx = Tx::syncing(pass.txg);
        let mos = Mos::new(options.mos, options.services);
        let root = directory_object(&mos, &tx, ObjectId(0))?;
        mos.directory()?
            .add(&tx, keys::ROOT_DATASET.as_bytes(), root.0)?;
        let objects_max = options.objects_max;
        let dsl = Self::assemble(mos, root, options.engine, options.name, objects_max);
        create_directory(&dsl, &tx, root, hidden::MOS)?;
        let known = dsl.services().version();
        if known >= version::DEADLISTS {
            dsl.make_later_frees(&tx, known)?;
        }
        if known >= version::ORIGIN {
            dsl.make_origin(&TaskContext {
                dsl: &dsl,
                tx: &tx,
                pass,
                actor: &Actor::administrator(),
            })?;
        }
        Ok(dsl)
    }

    /// Makes the snapshot that all file systems and volumes descend from.
    pub(crate) fn make_origin(&self, context: &TaskContext<'_>) -> Result<Arc<Dataset>> {
        let tx = context.tx;
        let directory = create_directory(self, tx, self.root, hidden::ORIGIN)?;
        let head = create_head(self, tx, &directory, None)?;
        take_snapshot(context, &head, hidden::ORIGIN)
    }

    /// Makes the list of later frees of a pool of version `known`, and the directory that what is on it is charged to.
    pub(crate) fn make_later_frees(&self, tx: &Tx, known: u64) -> Result<()> {
        create_directory(self, tx, self.root, hidden::FREE)?;
        let free = Bpobj::create_for(&self.mos, tx, BpobjPhys::BLOCK_SIZE, known)?;
        let directory = self.mos.directory()?;
        Ok(directory.add(tx, keys::FREE_BPOBJ.as_bytes(), free.id().0)?)
    }

    /// Makes the root file system of a new pool.
    ///
    /// # Errors
    /// An object cannot be made, or filling it failed.
    pub fn create_root(
        self: &Arc<Self>,
        new: NewPool,
        pass: &SyncPass<'_>,
    ) -> Result<Arc<Dataset>> {
        let tx = Tx::syncing(pass.txg);
        let context = TaskContext {
            dsl: self,
            tx: &tx,
            pass,
            actor: &Actor::administrator(),
        };
        let directory = self.root_directory()?;
        let origin = self
            .origin_snapshot()?
            .map(|id| self.dataset_by_id(id))
            .transpose()?;
        let is_encrypted = new.encryption.apply(&tx, &directory, None)?;
        let dataset = create_head(self, &tx, &directory, origin.as_ref())?;
        if is_encrypted {
            dataset.activate(&tx, DatasetFeature::Encryption)?;
        }
        if new.case_insensitive {
            let flag = format::dsl::DatasetPhys::FLAG_CASE_INSENSITIVE;
            dataset.change(&tx, |phys| phys.flags |= flag)?;
        }
        for (name, value) in &new.properties {
            set_local(self, &tx, &dataset, name, value)?;
        }
        self.new_stamp();
        fill(&context, &dataset, ObjectSetKind::FileSystem, new.populate)?;
        Ok(dataset)
    }
}
