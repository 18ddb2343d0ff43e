//! Pools on images and disks, for programs: names, blocks, checks. Nothing is written, and damage hides nothing but
//! itself.

mod blocks;
mod checked;

use std::path::PathBuf;

use base::{ObjectSetId, Txg};

use crate::InspectError;
use crate::error::Result;
use crate::raw::{OpenOptions, RawPool, named_datasets};
use crate::verify::{self, Item, VerifyOptions, Watcher};
pub use blocks::{BlockPlace, Blocks, FoundBlock};
pub use checked::{Checked, DamagedCopy, SpaceFault, SpaceFaultKind};

/// A pool opened for looking, as of its newest state that can be read.
pub struct Image {
    pool: RawPool,
}

/// A dataset or snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageDataset {
    /// pool/dir[@snapshot].
    pub name: String,
    /// The number of its object set.
    pub object_set: u64,
    /// The txg in which it was made.
    pub created_txg: u64,
    /// Bytes that it refers to.
    pub referenced: u64,
}

/// What a check covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checks {
    /// Checksums of data, not only of metadata.
    pub data: bool,
    /// Whether space maps and references agree.
    pub space: bool,
}

impl Image {
    /// Opens a pool on images, disks, or what lies in directories of them.
    ///
    /// # Errors
    /// There is none, or several and `pool` (a name or guid) says not which; or none of its states can be read.
    pub fn open(
        paths: &[PathBuf],
        pool: Option<&str>,
        txg_max: Option<u64>,
    ) -> std::result::Result<Self, InspectError> {
        let options = OpenOptions {
            paths: paths.to_vec(),
            pool: pool.map(str::to_owned),
            txg_limit: txg_max.map(Txg),
        };
        Ok(Self {
            pool: RawPool::open(&options)?,
        })
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.pool.name
    }

    /// The pool's guid.
    #[must_use]
    pub fn guid(&self) -> u64 {
        self.pool.guid
    }

    /// The txg of the state that is shown.
    #[must_use]
    pub fn txg(&self) -> u64 {
        self.pool.uberblock.txg.0
    }

    /// How many newer states cannot be read.
    #[must_use]
    pub fn states_skipped(&self) -> usize {
        self.pool.uberblocks_skipped
    }

    /// The datasets and snapshots in the order of a walk of the tree; what of them cannot be read goes to `damage`.
    ///
    /// # Errors
    /// There is no tree.
    pub fn datasets(
        &self,
        damage: &mut dyn FnMut(InspectError),
    ) -> std::result::Result<Vec<ImageDataset>, InspectError> {
        let found = named_datasets(&self.pool, damage)?.into_iter();
        let shown = found.map(|entry| ImageDataset {
            name: entry.name,
            object_set: entry.id.0,
            created_txg: entry.phys.creation_txg.0,
            referenced: entry.phys.referenced_bytes,
        });
        Ok(shown.collect())
    }

    /// The blocks of the whole pool, each once; or all that one dataset or snapshot refers to.
    ///
    /// # Errors
    /// There is no such dataset.
    pub fn blocks(&self, dataset: Option<&str>) -> std::result::Result<Blocks<'_>, InspectError> {
        let mut damage = Vec::new();
        let roots = match dataset {
            None => verify::roots(&self.pool, &mut |error| damage.push(error)),
            Some(name) => vec![self.root_of(name)?],
        };
        Ok(Blocks::new(&self.pool.pipeline, roots, damage))
    }

    fn root_of(&self, name: &str) -> Result<Item> {
        let found = named_datasets(&self.pool, &mut |_| {})?;
        let dataset = found.into_iter().find(|entry| entry.name == name);
        let dataset = dataset.ok_or_else(|| InspectError::NoDataset(name.to_owned()))?;
        let set = ObjectSetId(dataset.id.0);
        Ok(Item::root(set, dataset.phys.block_pointer, Txg(0)))
    }

    /// Reads every copy of every block and compares references with the space maps. `watcher` is told a few times a
    /// second how many bytes are done, and of how many.
    ///
    /// # Errors
    /// Too little of the pool can be read to begin.
    pub fn check(
        &self,
        checks: Checks,
        watcher: &(dyn Fn(u64, Option<u64>) + Sync),
    ) -> std::result::Result<Checked, InspectError> {
        let options = VerifyOptions {
            metadata: true,
            data: checks.data,
            leaks: checks.space,
        };
        let report = verify::verify(&self.pool, options, Watcher::Function(watcher))?;
        Ok(Checked::new(&report))
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Image({}, txg {})", self.name(), self.txg())
    }
}
