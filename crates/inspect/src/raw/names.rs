//! What an object is called: the path of a file, as far as datasets and directories can be read.

use std::collections::{HashMap, HashSet};

use base::{ObjectId, ObjectSetId};
use format::object_type::ObjectType;
use format::znode::DirectoryEntry;

use super::{DatasetEntry, RawFileSystem, RawObject, RawObjectSet, RawPool, named_datasets};

/// Paths are no longer.
const PATH_DEPTH_MAX: usize = 256;

/// The path of a file by way of the parents that files remember; none where one of them cannot be read.
pub(crate) fn path(object: &RawObject, file_system: &RawFileSystem) -> Option<String> {
    let mut names = Vec::new();
    let mut seen = HashSet::new();
    let mut id = object.id;
    let mut parent = file_system.attributes(object).ok()?.parent;
    while id != file_system.root {
        if names.len() == PATH_DEPTH_MAX || !seen.insert(id) {
            return None;
        }
        let (name, grandparent) = name_in(file_system, parent, id)?;
        names.push(name);
        (id, parent) = (ObjectId(parent), grandparent);
    }
    names.reverse();
    Some(format!("/{}", names.join("/")))
}

/// What a directory calls an object, and the directory's own parent.
fn name_in(file_system: &RawFileSystem, directory: u64, id: ObjectId) -> Option<(String, u64)> {
    let object = file_system.set.object(ObjectId(directory)).ok()?;
    if object.dnode.object_type != ObjectType::DIRECTORY {
        return None;
    }
    let mut name = None;
    object.zap_entries_past(&mut |_| {}, &mut |entry| {
        let word = entry.value.as_word();
        if word.is_some_and(|word| DirectoryEntry::AT.object.get(word) == id.0) {
            name.get_or_insert_with(|| entry.key.text());
        }
    });
    let parent = file_system.attributes(&object).ok()?.parent;
    Some((name?, parent))
}

/// Names of objects all over a pool.
pub(crate) struct Names<'a> {
    pool: &'a RawPool,
    datasets: Vec<DatasetEntry>,
    systems: HashMap<ObjectSetId, Option<RawFileSystem>>,
}

impl<'a> Names<'a> {
    pub(crate) fn new(pool: &'a RawPool) -> Self {
        Self {
            pool,
            // What cannot be read has no name.
            datasets: named_datasets(pool, &mut |_| {}).unwrap_or_default(),
            systems: HashMap::new(),
        }
    }

    /// `POOL/DATASET:/PATH`, or its number where it has no path.
    pub(crate) fn of(&mut self, set: ObjectSetId, object: ObjectId) -> String {
        if set == ObjectSetId::MOS {
            return format!("object {object} of the pool itself");
        }
        let mut datasets = self.datasets.iter();
        let Some(dataset) = datasets.find(|dataset| dataset.id.0 == set.0) else {
            return format!("object {object} of object set {set}");
        };
        let (pipeline, root) = (&self.pool.pipeline, dataset.phys.block_pointer);
        let system = self.systems.entry(set).or_insert_with(|| {
            let set = RawObjectSet::open(pipeline, set, root).ok()?;
            RawFileSystem::open(&set).ok()
        });
        let path = system.as_ref().and_then(|system| {
            let object = system.set.object(object).ok()?;
            path(&object, system)
        });
        match path {
            Some(path) => format!("{}:{path}", dataset.name),
            None => format!("object {object} of {}", dataset.name),
        }
    }
}
