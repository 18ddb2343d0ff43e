//! Which files the blocks of the error log belong to.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::{ObjectId, Txg};
use dsl::Dataset;
use pool::DataError;
use posix::{FileSystem, MountOptions};

use super::Service;

/// What `zpool status` says of data errors.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct DataErrors {
    /// Blocks, once for each dataset that still has it.
    pub(super) count: u64,
    /// The files, as `-v` lists them.
    pub(super) files: Vec<String>,
}

impl Service {
    /// Finds the names of what cannot be read. What was deleted or rewritten since is left out.
    pub(super) fn data_errors(&self, errors: &[DataError]) -> DataErrors {
        let mut found = DataErrors::default();
        let mut seen = BTreeSet::new();
        for error in errors {
            if error.dataset.0 == 0 {
                found.count += 1;
                if seen.insert((ObjectId(0), error.object)) {
                    found
                        .files
                        .push(format!("<metadata>:<{:#x}>", error.object.0));
                }
                continue;
            }
            let Ok(dataset) = self.dsl.dataset_by_id(error.dataset) else {
                found.count += 1;
                if seen.insert((error.dataset, error.object)) {
                    let (dataset, object) = (error.dataset.0, error.object.0);
                    found.files.push(format!("<{dataset:#x}>:<{object:#x}>"));
                }
                continue;
            };
            for affected in affected(&dataset, error) {
                found.count += 1;
                if seen.insert((affected.id(), error.object)) {
                    found.files.push(self.name_of(&affected, error.object));
                }
            }
        }
        found
    }

    fn name_of(&self, dataset: &Arc<Dataset>, object: ObjectId) -> String {
        let name = dataset
            .name()
            .unwrap_or_else(|_| format!("<{:#x}>", dataset.id().0));
        let source = self.source();
        let options = MountOptions {
            read_only: true,
            ..MountOptions::default()
        };
        let files = source
            .look(dataset)
            .ok()
            .and_then(|source| FileSystem::mount(source, options).ok());
        let path = files.and_then(|files| files.path_of(object).ok().flatten());
        let Some(path) = path else {
            return format!("{name}:<{:#x}>", object.0);
        };
        let path = String::from_utf8_lossy(&path).into_owned();
        let mounts = self.mounts().mounted();
        match mounts.iter().find(|mount| mount.dataset == name) {
            Some(mount) => {
                let top = mount.path.display().to_string();
                format!("{}{path}", top.trim_end_matches('/'))
            }
            None => format!("{name}:{path}"),
        }
    }
}

/// The datasets that have the block: the head, its snapshots, and what was cloned from these.
fn affected(dataset: &Arc<Dataset>, error: &DataError) -> Vec<Arc<Dataset>> {
    let Some(birth) = error.birth else {
        return vec![Arc::clone(dataset)];
    };
    let mut found = Vec::new();
    let mut pending = vec![Arc::clone(dataset)];
    let mut seen = BTreeSet::new();
    while let Some(head) = pending.pop() {
        if !seen.insert(head.id()) {
            continue;
        }
        if has_block(&head, error, birth) {
            found.push(Arc::clone(&head));
        }
        for snapshot in head.snapshots().unwrap_or_default() {
            if snapshot.phys().is_ok_and(|phys| phys.creation_txg < birth) {
                continue;
            }
            if has_block(&snapshot, error, birth) {
                found.push(Arc::clone(&snapshot));
            }
            pending.extend(snapshot.clones().unwrap_or_default());
        }
    }
    found
}

/// Whether the dataset's block at the place is the one that was born then.
fn has_block(dataset: &Arc<Dataset>, error: &DataError, birth: Txg) -> bool {
    let Ok(objects) = dataset.object_set() else {
        // Nothing of it can be read: whatever was wrong still is.
        return true;
    };
    if error.level != 0 || error.object.0 == 0 || error.object.0.cast_signed() < 0 {
        return true;
    }
    let Ok(object) = objects.object(error.object) else {
        return false;
    };
    object
        .block_pointer(error.block)
        .map_or(true, |pointer| pointer.birth() == birth)
}
