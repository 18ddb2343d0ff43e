//! A pool opened for its files: datasets by name, mounted as they are asked for.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use base::{Bookmark, ByteOrder, ObjectId, VdevId};
use dmu::{BlockError, BlockStore};
use format::BlockPointer;
use format::config::{VdevType, directory, keys};
use format::dsl::{DirectoryPhys, hidden};
use pipeline::{KeySource, Pipeline, PrefetchRequest, Prefetcher, ReadRequest};
use sys::Buffer;
use vdev::InteriorKind;

use crate::error::{InspectError, Result};
use crate::keys::{ImageKeys, KeyRing};
use crate::problems::Problems;
use crate::raw::{DatasetEntry, OpenOptions, RawPool, ZapKey, dataset_phys};
use crate::target::{Components, Target};
use crate::view::{View, VolumeView};

/// Threads that read ahead, and what they may hold.
const READERS: usize = 2;
const READ_AHEAD_BYTES: u64 = 16 << 20;

/// A pool opened for its files.
pub(crate) struct Source {
    images: Vec<PathBuf>,
    pool: RawPool,
    store: Arc<Store>,
    keys: Arc<ImageKeys>,
}

/// What a place in a pool turned out to be.
pub(crate) struct Found<'a> {
    pub(crate) dataset: DatasetEntry,
    /// Components below the dataset's root.
    pub(crate) path: Vec<&'a str>,
    pub(crate) is_directory: bool,
}

/// The pool's blocks, for object sets.
pub(crate) struct Store {
    pipeline: Arc<Pipeline>,
    prefetcher: Prefetcher,
}

impl BlockStore for Store {
    fn read(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
    ) -> std::result::Result<Buffer, BlockError> {
        let request = ReadRequest::new(place);
        self.pipeline
            .read(pointer, &request)
            .map_err(BlockError::new)
    }

    fn prefetch(&self, blocks: &[(BlockPointer, Bookmark)]) {
        let request = |(block, place): &(BlockPointer, Bookmark)| PrefetchRequest {
            seen: base::Txg(0),
            block: *block,
            bookmark: *place,
            follow: None,
        };
        let requests: Vec<PrefetchRequest> = blocks.iter().map(request).collect();
        self.prefetcher.prefetch(&requests);
    }

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        pointer.asize()
    }
}

impl Source {
    /// Opens the pool of a target, reading only: of several on its images the one that its place names. What is odd
    /// about it goes to `problems`.
    pub(crate) fn open(target: &Target, ring: &KeyRing, problems: &mut Problems) -> Result<Self> {
        let options = OpenOptions {
            paths: target.images.clone(),
            ..OpenOptions::default()
        };
        let pool = match (RawPool::open(&options), target.pool()) {
            (Err(InspectError::SeveralPools(_)), Some(name)) => RawPool::open(&OpenOptions {
                pool: Some(name.to_owned()),
                ..options
            }),
            (opened, _) => opened,
        }?;
        refuse_unknown(&pool)?;
        if pool.uberblocks_skipped > 0 {
            problems.note(
                &pool.name,
                format_args!(
                    "the newest {} states are unreadable; this is the one of txg {}",
                    pool.uberblocks_skipped, pool.uberblock.txg
                ),
            );
        }
        for index in missing_tops(&pool) {
            problems.note(
                &pool.name,
                format_args!("vdev {index} is on none of these images: what lies there is lost"),
            );
        }
        let keys = Arc::new(ImageKeys::new(ring.clone()));
        pool.pipeline
            .set_keys(Arc::clone(&keys) as Arc<dyn KeySource>);
        let prefetcher = Prefetcher::new(Arc::clone(&pool.pipeline), READERS, READ_AHEAD_BYTES);
        let store = Arc::new(Store {
            pipeline: Arc::clone(&pool.pipeline),
            prefetcher,
        });
        Ok(Self {
            images: target.images.clone(),
            pool,
            store,
            keys,
        })
    }

    /// Mounts a dataset.
    pub(crate) fn view(&self, dataset: &DatasetEntry) -> Result<View> {
        self.unlock(dataset)?;
        View::open(&self.pool.pipeline, Arc::clone(&self.store), dataset)
    }

    /// A dataset as a volume; none if it is none.
    pub(crate) fn volume(&self, dataset: &DatasetEntry) -> Result<Option<VolumeView>> {
        self.unlock(dataset)?;
        VolumeView::open(&self.pool.pipeline, Arc::clone(&self.store), dataset)
    }

    fn unlock(&self, dataset: &DatasetEntry) -> Result<()> {
        match dataset.phys.block_pointer.is_encrypted() {
            true => self.keys.open(&self.pool, dataset),
            false => Ok(()),
        }
    }

    /// The dataset that a place names, and the path in it.
    pub(crate) fn find<'a>(&self, place: &'a str) -> Result<Found<'a>> {
        let Components {
            dataset,
            mut snapshot,
            mut rest,
            is_directory,
        } = Components::of(place);
        let named = dataset.is_some();
        let mut waiting = dataset
            .unwrap_or_else(|| std::mem::take(&mut rest))
            .into_iter();
        let mut name = self.pool.name.clone();
        let mut id = self.root()?;
        if let Some(first) = waiting.next()
            && first != name
        {
            return Err(InspectError::OtherPool {
                pool: name,
                wanted: first.to_owned(),
            });
        }
        let mut seen = HashSet::new();
        while let Some(&component) = waiting.as_slice().first() {
            let (child, at) = match component.split_once('@') {
                Some((child, at)) if !named => (child, Some(at)),
                _ => (component, None),
            };
            match self.child(id, child)? {
                Some(found) if seen.insert(found) => id = found,
                _ if named => return Err(InspectError::NoDataset(format!("{name}/{component}"))),
                _ => break,
            }
            waiting.next();
            name = format!("{name}/{child}");
            if at.is_some() {
                snapshot = at;
                break;
            }
        }
        let mut path: Vec<&str> = waiting.collect();
        path.append(&mut rest);
        let dataset = self.head(id, &name)?;
        let dataset = match snapshot {
            Some(snapshot) => self.snapshot(&dataset, snapshot)?,
            None => dataset,
        };
        Ok(Found {
            dataset,
            path,
            is_directory,
        })
    }

    fn root(&self) -> Result<ObjectId> {
        let root = self.pool.directory_word(directory::ROOT_DATASET)?;
        root.map(ObjectId)
            .ok_or(InspectError::NoEntry(directory::ROOT_DATASET))
    }

    fn directory(&self, id: ObjectId) -> Result<DirectoryPhys> {
        let object = self.pool.mos.object(id)?;
        Ok(DirectoryPhys::decode_padded(
            object.dnode.bonus_bytes(),
            ByteOrder::NATIVE,
        ))
    }

    fn child(&self, directory: ObjectId, name: &str) -> Result<Option<ObjectId>> {
        let children = self.directory(directory)?.child_map;
        if children.0 == 0 || name.starts_with('$') {
            return Ok(None);
        }
        let value = self
            .pool
            .mos
            .object(children)?
            .zap_lookup(name.as_bytes())?;
        Ok(value.and_then(|value| value.as_word()).map(ObjectId))
    }

    /// The dataset that is mounted at a directory of another, if each is where its name says.
    pub(crate) fn dataset_at(&self, parent: &DatasetEntry, path: &[u8]) -> Option<String> {
        if path.is_empty() || parent.phys.is_snapshot() {
            return None;
        }
        let mut name = parent.name.clone();
        let mut id = parent.phys.directory;
        for part in std::str::from_utf8(path).ok()?.split('/') {
            // What is damaged is told of elsewhere.
            id = self.child(id, part).ok()??;
            name = format!("{name}/{part}");
        }
        Some(name)
    }

    /// The head of a directory.
    pub(crate) fn head(&self, directory: ObjectId, name: &str) -> Result<DatasetEntry> {
        self.dataset(self.directory(directory)?.head_dataset, name.to_owned())
    }

    fn dataset(&self, id: ObjectId, name: String) -> Result<DatasetEntry> {
        let object = self.pool.mos.object(id)?;
        match dataset_phys(&object) {
            Some(phys) => Ok(DatasetEntry { name, id, phys }),
            None => Err(InspectError::NoDataset(name)),
        }
    }

    /// A snapshot of a head.
    pub(crate) fn snapshot(&self, head: &DatasetEntry, snapshot: &str) -> Result<DatasetEntry> {
        let name = format!("{}@{snapshot}", head.name);
        let names = head.phys.snapshot_names;
        let found = match names.0 {
            0 => None,
            _ => self
                .pool
                .mos
                .object(names)?
                .zap_lookup(snapshot.as_bytes())?,
        };
        match found.and_then(|value| value.as_word()) {
            Some(id) => self.dataset(ObjectId(id), name),
            None => Err(InspectError::NoDataset(name)),
        }
    }

    /// The directory of a dataset.
    pub(crate) fn directory_of(dataset: &DatasetEntry) -> ObjectId {
        dataset.phys.directory
    }

    /// The children of a directory, by name, without the hidden ones.
    pub(crate) fn children(
        &self,
        directory: ObjectId,
        name: &str,
        problems: &mut Problems,
    ) -> Vec<(String, ObjectId)> {
        let map = self.directory(directory).map(|phys| phys.child_map);
        let hidden = [hidden::MOS, hidden::FREE, hidden::LEAK, hidden::ORIGIN];
        let mut children = self.names(map, name, problems);
        children.retain(|(child, _)| !hidden.contains(&child.as_str()));
        children
    }

    /// The snapshots of a head, in order of their names.
    pub(crate) fn snapshots(
        &self,
        head: &DatasetEntry,
        problems: &mut Problems,
    ) -> Vec<(String, ObjectId)> {
        let mut found = self.names(Ok(head.phys.snapshot_names), &head.name, problems);
        // Objects are numbered as they come: nearly always the order of creation.
        found.sort_by_key(|(_, id)| *id);
        found
    }

    fn names(
        &self,
        zap: Result<ObjectId>,
        whose: &str,
        problems: &mut Problems,
    ) -> Vec<(String, ObjectId)> {
        let mut found = Vec::new();
        let object = match zap {
            Ok(ObjectId(0)) => return found,
            zap => zap.and_then(|zap| self.pool.mos.object(zap)),
        };
        match object {
            Err(error) => problems.note(whose, error),
            Ok(object) => {
                object.zap_entries_past(&mut |error| problems.note(whose, error), &mut |entry| {
                    if let Some(id) = entry.value.as_word() {
                        found.push((entry.key.text(), ObjectId(id)));
                    }
                })
            }
        }
        found.sort();
        found.dedup();
        found
    }
}

/// Whether there is nothing in the place of a top-level vdev, or something that can be read here.
fn is_known(top: &format::nvlist::NvList) -> bool {
    match VdevType::of(top) {
        Some(VdevType::Disk | VdevType::File | VdevType::Hole | VdevType::Missing) => true,
        Some(
            VdevType::Root
            | VdevType::Mirror
            | VdevType::Replacing
            | VdevType::Spare
            | VdevType::RaidZ
            | VdevType::Draid
            | VdevType::DistributedSpare
            | VdevType::Indirect,
        )
        | None => InteriorKind::of(top, top.lists(keys::CHILDREN).len()).is_some(),
    }
}

/// Refuses what nothing here can read, by name.
fn refuse_unknown(pool: &RawPool) -> Result<()> {
    for (index, top) in config_tops(pool).iter().enumerate() {
        if !is_known(top) {
            return Err(InspectError::UnsupportedVdev {
                id: top.u64(keys::ID).unwrap_or(index as u64),
                kind: top.str(keys::TYPE).unwrap_or("?").to_owned(),
            });
        }
    }
    let Some(features) = pool.directory_word(directory::FEATURES_FOR_READ)? else {
        return Ok(());
    };
    let mut unknown = Vec::new();
    pool.mos
        .object(ObjectId(features))?
        .zap_entries_past(&mut |_| {}, &mut |entry| {
            let active = entry.value.as_word().is_some_and(|count| count > 0);
            if let (ZapKey::Name(name), true) = (&entry.key, active) {
                let name = String::from_utf8_lossy(name).into_owned();
                if format::features::by_guid(&name).is_none() {
                    unknown.push(name);
                }
            }
        });
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort();
    Err(InspectError::UnknownFeatures {
        pool: pool.name.clone(),
        features: unknown.join(", "),
    })
}

/// Top-level vdevs that no image is part of.
fn missing_tops(pool: &RawPool) -> Vec<usize> {
    let vdevs = pool.pipeline.vdevs();
    let tops = config_tops(pool);
    let is_data = |top: &format::nvlist::NvList| {
        VdevType::of(top) != Some(VdevType::Hole) && top.u64(keys::IS_LOG) != Some(1)
    };
    let missing = |index: usize| vdevs.top(VdevId(index as u64)).is_err();
    let tops = tops.iter().enumerate();
    tops.filter(|(index, top)| is_data(top) && missing(*index))
        .map(|(index, _)| index)
        .collect()
}

fn config_tops(pool: &RawPool) -> Vec<format::nvlist::NvList> {
    let config = pool.config();
    let tree = config
        .as_ref()
        .ok()
        .and_then(|config| config.list(keys::VDEV_TREE));
    tree.map_or_else(Vec::new, |tree| tree.lists(keys::CHILDREN).to_vec())
}

/// The pools of one command line: each set of images is opened once.
pub(crate) struct Sources {
    keys: KeyRing,
    open: Vec<Arc<Source>>,
}

impl Sources {
    pub(crate) const fn new(keys: KeyRing) -> Self {
        Self {
            keys,
            open: Vec::new(),
        }
    }

    /// The pool of a target.
    pub(crate) fn get(&mut self, target: &Target, problems: &mut Problems) -> Result<Arc<Source>> {
        // Several pools may lie on these images.
        let is_meant = |open: &&Arc<Source>| {
            let is_named = target.pool().is_none_or(|name| name == open.pool.name);
            open.images == target.images && is_named
        };
        if let Some(source) = self.open.iter().find(is_meant) {
            return Ok(Arc::clone(source));
        }
        let source = Arc::new(Source::open(target, &self.keys, problems)?);
        self.open.push(Arc::clone(&source));
        Ok(source)
    }
}
