//! A dataset as a tree: the live file system, and its snapshots under `.zfs/snapshot`.

mod control;
mod convert;
mod files;
mod views;

use crate::handle::Handles;
use crate::node::{ControlNode, Node};
use crate::session::Session;
use crate::tree::Reply;
use crate::wire::Timestamp;
use posix::{Errno, FileSystem};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use views::{Live, SnapshotView, Views};

/// Whether `.zfs` is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SnapshotDirectory {
    /// Reachable by name, not listed.
    #[default]
    Hidden,
    /// Listed.
    Visible,
    /// Absent.
    Disabled,
}

/// A snapshot of the mounted dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    /// The name after the `@`.
    pub name: Vec<u8>,
    /// Its GUID: tells it from any other, whatever its name.
    pub guid: u64,
    /// Its object-set id.
    pub object_set: u64,
}

/// Where a mount learns of the dataset's snapshots; supplied by whoever mounts.
pub trait SnapshotSource: Send + Sync {
    /// All snapshots.
    fn list(&self) -> Reply<Vec<SnapshotEntry>>;

    /// The snapshot of this name.
    fn find(&self, name: &[u8]) -> Reply<Option<SnapshotEntry>> {
        Ok(self.list()?.into_iter().find(|entry| entry.name == name))
    }

    /// Opens a snapshot's file system; ESTALE when it is gone.
    fn open(&self, guid: u64) -> Reply<Arc<FileSystem>>;

    /// When the set of snapshots last changed; must differ whenever the listing does.
    fn changed(&self) -> Timestamp;
}

/// A mounted dataset.
pub struct DatasetTree {
    views: Views,
    handles: Handles,
    snapshot_directory: AtomicU8,
}

impl DatasetTree {
    /// The tree of `live`, with the snapshots that `snapshots` knows.
    #[must_use]
    pub fn new(
        live: Arc<FileSystem>,
        snapshots: Arc<dyn SnapshotSource>,
        directory: SnapshotDirectory,
    ) -> Arc<Self> {
        let tree = Self {
            views: Views::new(live, snapshots),
            handles: Handles::new(),
            snapshot_directory: AtomicU8::new(0),
        };
        tree.set_snapshot_directory(directory);
        Arc::new(tree)
    }

    /// The live file system.
    #[must_use]
    pub fn file_system(&self) -> Arc<FileSystem> {
        self.views.live().file_system
    }

    /// After `zfs set snapdir`.
    pub fn set_snapshot_directory(&self, directory: SnapshotDirectory) {
        self.snapshot_directory
            .store(directory as u8, Ordering::Relaxed);
    }

    fn snapshot_directory(&self) -> SnapshotDirectory {
        match self.snapshot_directory.load(Ordering::Relaxed) {
            0 => SnapshotDirectory::Hidden,
            1 => SnapshotDirectory::Visible,
            _ => SnapshotDirectory::Disabled,
        }
    }

    /// Shows another file system in place of the live one, after a rollback or a receive: a new
    /// epoch. Open files of the old one are stale, and what the kernel cached is forgotten. Never
    /// called from an operation of this tree.
    pub fn replace_live(&self, live: Arc<FileSystem>, session: &Session) {
        let epoch = self.views.replace_live(live);
        let opened = self
            .handles
            .collect(|handle| handle.epoch.is_some().then_some(handle.node));
        self.handles
            .close_all(|handle| handle.epoch.is_some_and(|other| other != epoch));
        for node in opened {
            session.invalidate_node(node);
        }
        if !session.invalidate_everything() {
            // Without epochs in the kernel, names that it cached lead to stale nodes, which it
            // looks up again by itself: path walks retry on ESTALE. Absent names that exist now
            // appear when their time is over.
            session.invalidate_name(crate::wire::ROOT_NODE, b".zfs");
        }
    }

    /// Closes the live file system and every snapshot, so that the dataset can be unmounted or
    /// replaced; operations say ESTALE until [`DatasetTree::replace_live`].
    pub fn close(&self) {
        self.handles.close_all(|_| true);
        self.views.close_snapshots(|_| true);
    }

    /// Closes the snapshots that exist no more; to be called when one was destroyed.
    pub fn snapshots_changed(&self) {
        let Ok(present) = self.views.snapshots().list() else {
            return;
        };
        let guids: Vec<u64> = present.iter().map(|entry| entry.guid).collect();
        self.close_snapshots(|guid| !guids.contains(&guid));
    }

    /// Closes the file systems of the snapshots that `which` chooses by GUID, with the files that
    /// are open in them: to be called before one is destroyed. They open again by themselves.
    pub fn close_snapshots(&self, which: impl Fn(u64) -> bool) {
        let slots = self.views.close_snapshots(which);
        self.handles
            .close_all(|handle| match Node::from_id(handle.node) {
                Some(Node::Snapshot { slot, .. }) => slots.contains(&slot),
                _ => false,
            });
    }

    /// The view that a node belongs to and its object there.
    fn resolve(&self, node: u64) -> Reply<Place> {
        match Node::from_id(node).ok_or(Errno::ESTALE)? {
            Node::Root => {
                let live = self.views.live();
                let object = live.file_system.root();
                Ok(Place::File(View::Live(live), object))
            }
            Node::Live { epoch, object } => {
                let live = self.views.live();
                if live.epoch & 0xFF != u64::from(epoch) {
                    return Err(Errno::ESTALE);
                }
                Ok(Place::File(View::Live(live), object))
            }
            Node::Snapshot { slot, object } => Ok(Place::File(
                View::Snapshot(self.views.snapshot(slot)?),
                object,
            )),
            Node::Control(node) if self.snapshot_directory() != SnapshotDirectory::Disabled => {
                Ok(Place::Control(node))
            }
            Node::Control(_) => Err(Errno::ESTALE),
        }
    }

    /// As [`Self::resolve`], for operations that the control directory does not offer.
    fn resolve_file(&self, node: u64, otherwise: Errno) -> Reply<(View, base::ObjectId)> {
        match self.resolve(node)? {
            Place::File(view, object) => Ok((view, object)),
            Place::Control(_) => Err(otherwise),
        }
    }
}

/// A file system that is shown somewhere in the mount.
#[derive(Clone)]
enum View {
    Live(Live),
    Snapshot(SnapshotView),
}

impl View {
    fn file_system(&self) -> &FileSystem {
        match self {
            Self::Live(live) => &live.file_system,
            Self::Snapshot(snapshot) => &snapshot.file_system,
        }
    }

    /// The node of an object here.
    fn node(&self, object: base::ObjectId) -> Node {
        match self {
            Self::Live(live) if live.file_system.root() == object => Node::Root,
            Self::Live(live) => Node::Live {
                epoch: u8::try_from(live.epoch & 0xFF).unwrap_or(0),
                object,
            },
            Self::Snapshot(snapshot) => Node::Snapshot {
                slot: snapshot.slot,
                object,
            },
        }
    }
}

/// Where a node is.
enum Place {
    File(View, base::ObjectId),
    Control(ControlNode),
}
