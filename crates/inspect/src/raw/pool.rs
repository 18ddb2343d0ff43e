//! A pool opened for looking: devices, an uberblock that works, the meta object set.

use std::path::PathBuf;
use std::sync::Arc;

use base::{ByteOrder, ObjectId, ObjectSetId, Txg};
use codec::Salt;
use format::block_pointer::Dva;
use format::config::{VdevType, directory, keys};
use format::dsl::{DirectoryPhys, hidden};
use format::nvlist::{NvList, decode_xdr};
use format::uberblock::{Scratch, Uberblock};
use layout::Moved;
use pipeline::{
    Allocation, AllocationError, AllocationRequest, Allocator, Pipeline, PipelineConfig,
};

use super::open::{Found, assemble, find};
use super::{RawObject, RawObjectSet, ZapKey, missed, removed};
use crate::error::{InspectError, Result};

/// What to open.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenOptions {
    /// Images, disks, or directories that hold them.
    pub(crate) paths: Vec<PathBuf>,
    /// The pool's name or guid; may be left out when there is only one.
    pub(crate) pool: Option<String>,
    /// The newest uberblock to use.
    pub(crate) txg_limit: Option<Txg>,
}

/// A pool opened for looking.
pub(crate) struct RawPool {
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) name: String,
    pub(crate) guid: u64,
    top_configs: Vec<NvList>,
    pub(crate) uberblock: Uberblock,
    /// How many newer uberblocks led nowhere.
    pub(crate) uberblocks_skipped: usize,
    pub(crate) mos: RawObjectSet,
}

/// We only look: there is nothing to allocate.
struct NoSpace;

impl Allocator for NoSpace {
    fn allocate(&self, _: &AllocationRequest) -> std::result::Result<Allocation, AllocationError> {
        Err(AllocationError::ReadOnly)
    }

    fn free(&self, _: &Dva, _: Txg, _: Txg) {}
}

impl RawPool {
    /// Opens a pool, going back from the newest uberblock to the first that works.
    pub(crate) fn open(options: &OpenOptions) -> Result<Self> {
        let found = find(&options.paths)?;
        let guid = choose(&found, options)?;
        let devices: Vec<&Found> = found
            .iter()
            .filter(|found| guid_of(found) == Some(guid))
            .collect();
        let newest = devices
            .iter()
            .filter_map(|found| found.config())
            .max_by_key(|config| config.u64(keys::TXG));
        let name = newest.and_then(|config| config.str(keys::NAME));
        let name = name.unwrap_or("?").to_owned();
        let (tree, top_configs) = assemble(&devices)?;
        let pipeline = Arc::new(Pipeline::new(PipelineConfig::new(
            Arc::new(tree),
            Arc::new(NoSpace),
        )));
        let mut candidates: Vec<Uberblock> = devices
            .iter()
            .flat_map(|found| found.labels.uberblocks.iter().map(|slot| slot.uberblock))
            .collect();
        candidates.sort_by(|one, other| other.compare_age(one));
        // Where sectors of a vdev are that is getting another child, the newest one says, whatever state is read.
        let reflow = candidates.first().and_then(|newest| newest.reflow().ok());
        let reflow = reflow.unwrap_or_default();
        pipeline.vdevs().set_moved(Moved {
            to: reflow.moved,
            in_scratch: reflow.scratch == Scratch::Holds,
        });
        candidates.retain(|uberblock| options.txg_limit.is_none_or(|limit| uberblock.txg <= limit));
        candidates.dedup_by_key(|uberblock| (uberblock.txg, uberblock.timestamp));
        let tried = candidates.len();
        let mut newest_error = None;
        for (uberblocks_skipped, uberblock) in candidates.into_iter().enumerate() {
            match open_mos(&pipeline, &uberblock) {
                Ok(mos) => {
                    let pool = Self {
                        pipeline,
                        name,
                        guid,
                        top_configs,
                        uberblock,
                        uberblocks_skipped,
                        mos,
                    };
                    removed::load(&pool);
                    missed::load(&pool);
                    return Ok(pool);
                }
                Err(error) => newest_error = newest_error.or(Some(Box::new(error))),
            }
        }
        Err(InspectError::NoUberblock {
            pool: name,
            tried,
            last: newest_error,
        })
    }

    /// An entry of the pool's directory that is one number.
    pub(crate) fn directory_word(&self, name: &'static str) -> Result<Option<u64>> {
        let directory = self.mos.object(directory::OBJECT)?;
        Ok(directory
            .zap_lookup(name.as_bytes())?
            .and_then(|value| value.as_word()))
    }

    /// The configuration in the meta object set.
    pub(crate) fn config(&self) -> Result<NvList> {
        let number = self
            .directory_word(directory::CONFIG)?
            .ok_or(InspectError::NoEntry(directory::CONFIG))?;
        self.packed_list(ObjectId(number))
    }

    /// The top-level vdevs: as the meta object set knows them (labels leave their objects out), or
    /// by the labels if it cannot be asked.
    pub(crate) fn tops(&self) -> Vec<NvList> {
        let config = self.config();
        let tree = config
            .as_ref()
            .ok()
            .and_then(|config| config.list(keys::VDEV_TREE));
        let children = tree.map_or(&self.top_configs[..], |tree| tree.lists(keys::CHILDREN));
        let is_one = |kind: VdevType| kind.has_sectors() && kind.is_there();
        let is_real = |child: &&NvList| VdevType::of(child).is_none_or(is_one);
        children.iter().filter(is_real).cloned().collect()
    }

    /// What the meta object set takes.
    pub(crate) fn mos_bytes(&self) -> Result<u64> {
        let root = self
            .directory_word(directory::ROOT_DATASET)?
            .ok_or(InspectError::NoEntry(directory::ROOT_DATASET))?;
        let phys = |object: &RawObject| {
            DirectoryPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE)
        };
        let children = phys(&self.mos.object(ObjectId(root))?).child_map;
        let mos = self
            .mos
            .object(children)?
            .zap_lookup(hidden::MOS.as_bytes())?;
        match mos.and_then(|value| value.as_word()) {
            Some(id) => Ok(phys(&self.mos.object(ObjectId(id))?).used_bytes),
            None => Ok(0),
        }
    }

    /// A packed list in the meta object set.
    pub(crate) fn packed_list(&self, id: ObjectId) -> Result<NvList> {
        let object = self.mos.object(id)?;
        let length = object.bonus_word(0).min(object.length_max()).min(64 << 20);
        let bytes = object.read_at(0, length as usize)?;
        decode_xdr(&bytes).map_err(|source| object.format_error(source))
    }
}

fn open_mos(pipeline: &Arc<Pipeline>, uberblock: &Uberblock) -> Result<RawObjectSet> {
    let mos = RawObjectSet::open(pipeline, ObjectSetId::MOS, uberblock.root)?;
    let mut salt = None;
    let mut roots = 0;
    // A directory without a root dataset is no directory: an older uberblock may have one.
    mos.object(directory::OBJECT)?.zap_entries(&mut |entry| {
        if let ZapKey::Name(name) = &entry.key {
            if name == directory::CHECKSUM_SALT.as_bytes() {
                salt = entry.value.stored().try_into().ok().map(Salt);
            }
            roots += u32::from(name == directory::ROOT_DATASET.as_bytes());
        }
    })?;
    if roots == 0 {
        return Err(InspectError::NoEntry(directory::ROOT_DATASET));
    }
    if let Some(salt) = salt {
        pipeline.set_salt(salt);
    }
    Ok(mos)
}

/// The pool that a device belongs to. A label of txg 0 was never committed: it names none.
fn guid_of(found: &Found) -> Option<u64> {
    let config = found.config()?;
    let is_committed = config.u64(keys::TXG) != Some(0);
    config.u64(keys::POOL_GUID).filter(|_| is_committed)
}

/// The pool that is meant.
fn choose(found: &[Found], options: &OpenOptions) -> Result<u64> {
    let mut pools: Vec<(u64, String)> = found
        .iter()
        .filter_map(|found| {
            let name = found.config()?.str(keys::NAME)?;
            Some((guid_of(found)?, name.to_owned()))
        })
        .collect();
    pools.sort();
    pools.dedup();
    let names = |pools: &[(u64, String)]| {
        let names: Vec<String> = pools
            .iter()
            .map(|(guid, name)| format!("'{name}' ({guid})"))
            .collect();
        names.join(", ")
    };
    if pools.is_empty() {
        let paths: Vec<String> = options
            .paths
            .iter()
            .map(|path| path.display().to_string())
            .collect();
        return Err(InspectError::NoPool(paths.join(", ")));
    }
    let all = names(&pools);
    if let Some(wanted) = &options.pool {
        pools.retain(|(guid, name)| name == wanted || guid.to_string() == *wanted);
        if pools.is_empty() {
            return Err(InspectError::NoSuchPool {
                wanted: wanted.clone(),
                found: all,
            });
        }
    }
    pools.dedup_by_key(|(guid, _)| *guid);
    match &pools[..] {
        [(guid, _)] => Ok(*guid),
        several => Err(InspectError::SeveralPools(names(several))),
    }
}
