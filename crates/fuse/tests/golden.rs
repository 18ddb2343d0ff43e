//! The golden pools, mounted: each dataset shows what OpenZFS showed, and so do its snapshots under
//! `.zfs`. Needs root, for the owners and permissions to be seen as they are.

extern crate millpond_fuse as fuse;

#[path = "../../posix/tests/golden/reader.rs"]
#[allow(unreachable_pub, reason = "shared with the tests of another crate")]
mod reader;

use fuse::{DatasetTree, Mount, MountOptions, Reply, SnapshotDirectory, SnapshotEntry};
use golden::{GoldenPool, Manifest};
use posix::{Errno, FileSystem};
use reader::Reader;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use sys::UnmountMode;

fn file_system(reader: &Reader, name: &str) -> Arc<FileSystem> {
    let properties = posix::DatasetProperties {
        acl: posix::AclKind::Posix,
        long_names: true,
        ..posix::DatasetProperties::default()
    };
    let source = posix::Source {
        objects: reader.object_set(name),
        engine: None,
        log: None,
        space: None,
        clock: Arc::new(base::clock::SystemClock),
        identity: 0,
        properties,
    };
    let options = posix::MountOptions {
        read_only: true,
        kernel_checks_permissions: true,
        keeps_removed: true,
        ..posix::MountOptions::default()
    };
    FileSystem::mount(source, options).unwrap()
}

/// The snapshots that the pool's list names, in place of a DSL.
struct Listed {
    reader: Arc<Reader>,
    dataset: String,
    entries: Vec<SnapshotEntry>,
}

impl Listed {
    fn new(pool: &GoldenPool, reader: &Arc<Reader>, dataset: &str) -> Self {
        let mut entries = Vec::new();
        for (index, line) in pool.lines("list.tsv").iter().enumerate() {
            let columns: Vec<&str> = line.split('\t').collect();
            if let Some(name) = columns[0].strip_prefix(&format!("{dataset}@")) {
                let guid = columns[5].parse().unwrap();
                let (name, object_set) = (name.into(), index as u64 + 50);
                entries.push(SnapshotEntry {
                    name,
                    guid,
                    object_set,
                });
            }
        }
        Self {
            reader: Arc::clone(reader),
            dataset: dataset.into(),
            entries,
        }
    }
}

impl fuse::SnapshotSource for Listed {
    fn list(&self) -> Reply<Vec<SnapshotEntry>> {
        Ok(self.entries.clone())
    }

    fn open(&self, guid: u64) -> Reply<Arc<FileSystem>> {
        let found = self
            .entries
            .iter()
            .find(|entry| entry.guid == guid)
            .ok_or(Errno::ESTALE)?;
        let name = std::str::from_utf8(&found.name).unwrap();
        Ok(file_system(
            &self.reader,
            &format!("{}@{name}", self.dataset),
        ))
    }

    fn changed(&self) -> fuse::wire::Timestamp {
        fuse::wire::Timestamp {
            seconds: 1,
            nanoseconds: 2,
        }
    }
}

/// Differences but for the roots of child datasets, which the manifest shows in their place.
fn differences(pool: &GoldenPool, name: &str, wanted: &Manifest, root: &Path) -> Vec<String> {
    let datasets = pool.lines("list.tsv");
    let mut differences = wanted.differences(&golden::describe_tree(root));
    differences.retain(|line| {
        let path = line.split_once(": ").map_or(&line[..], |(path, _)| path);
        let child = format!("{}/{path}\t", name.split('@').next().unwrap_or(name));
        !datasets.iter().any(|dataset| dataset.starts_with(&child))
    });
    differences
}

fn show(pool: &str) {
    if sys::user_id() != 0 || !Path::new("/dev/fuse").exists() {
        println!("skipped: needs root and /dev/fuse");
        return;
    }
    let Some(pool) = golden::pool(pool) else {
        return;
    };
    let reader = Arc::new(Reader::open(&pool.images()[0]));
    let manifests = pool.manifests();
    for (name, wanted) in manifests.iter().filter(|(name, _)| !name.contains('@')) {
        let listed = Listed::new(&pool, &reader, name);
        let snapshots = listed.entries.clone();
        let live = file_system(&reader, name);
        let tree = DatasetTree::new(live, Arc::new(listed), SnapshotDirectory::Visible);
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        let options = MountOptions {
            source: name.clone(),
            ..MountOptions::default()
        };
        let options = MountOptions {
            read_only: true,
            ..options
        };
        let mount = Mount::start(root, tree, &options).unwrap();
        assert_eq!(
            differences(&pool, name, wanted, root),
            Vec::<String>::new(),
            "{name}"
        );
        show_snapshots(&pool, name, root, &snapshots, &manifests);
        mount.unmount(UnmountMode::IfIdle).unwrap();
    }
}

fn show_snapshots(
    pool: &GoldenPool,
    name: &str,
    root: &Path,
    snapshots: &[SnapshotEntry],
    manifests: &[(String, Manifest)],
) {
    let names = |path: &Path| {
        let entries = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = entries.map(|name| name.into_encoded_bytes()).collect();
        names.sort();
        names
    };
    let mut expected: Vec<_> = snapshots.iter().map(|entry| entry.name.clone()).collect();
    expected.sort();
    assert!(names(root).contains(&b".zfs".to_vec()));
    assert_eq!(
        names(&root.join(".zfs")),
        [b"shares".to_vec(), b"snapshot".to_vec()]
    );
    let directory = root.join(".zfs/snapshot");
    assert_eq!(names(&directory), expected);
    assert_eq!(
        names(&directory),
        expected,
        "once more, perhaps from the kernel's cache"
    );
    assert!(std::fs::create_dir(directory.join("new")).is_err());
    assert!(std::fs::metadata(directory.join("absent")).is_err());
    let live = std::fs::metadata(root).unwrap();
    for snapshot in expected {
        let snapshot = String::from_utf8(snapshot).unwrap();
        let path = directory.join(&snapshot);
        let found = std::fs::metadata(&path).unwrap();
        assert_eq!(found.dev(), live.dev());
        assert_ne!(found.ino(), live.ino());
        let full = format!("{name}@{snapshot}");
        if let Some((_, wanted)) = manifests.iter().find(|(name, _)| *name == full) {
            assert_eq!(
                differences(pool, &full, wanted, &path),
                Vec::<String>::new(),
                "{full}"
            );
        }
    }
}

#[test]
fn default() {
    show("default");
}

#[test]
fn codecs() {
    show("codecs");
}

#[test]
fn old() {
    show("old");
}

#[test]
fn v28() {
    show("v28");
}

#[test]
fn nofeat() {
    show("nofeat");
}

#[test]
fn many() {
    show("many");
}
