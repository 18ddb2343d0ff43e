//! A dataset as a tree: the live file system, and its snapshots under `.zfs/snapshot`.

mod control;
mod convert;
mod file_flags;
mod files;
mod gathering;
mod views;
mod written_files;

use crate::handle::Handles;
use crate::node::{ControlNode, Node};
use crate::open_tracker::OpenTracker;
use crate::session::Session;
use crate::tree::Reply;
use crate::unlinked::UnlinkedFiles;
use crate::wire::{ROOT_NODE, Timestamp};
use base::clock::real_now;
use gathering::Gathering;
use posix::{Errno, FileSystem};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;
pub(crate) use views::Live;
use views::{SnapshotView, Views};

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

/// How long operations under way may take to end when the content is to be replaced.
pub const SUSPEND_WAIT: Duration = Duration::from_secs(30);

/// A mounted dataset.
pub struct DatasetTree {
    views: Views,
    handles: Handles,
    unlinked: UnlinkedFiles,
    open_tracker: OpenTracker,
    gathering: Gathering,
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
            unlinked: UnlinkedFiles::new(),
            open_tracker: OpenTracker::new(),
            gathering: Gathering::default(),
            snapshot_directory: AtomicU8::new(0),
        };
        tree.set_snapshot_directory(directory);
        Arc::new(tree)
    }

    /// The live file system; waits while it is being replaced, none when the mount has ended.
    #[must_use]
    pub fn file_system(&self) -> Option<Arc<FileSystem>> {
        let live = self.views.live().ok()?;
        Some(Arc::clone(&live.file_system))
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

    /// Gives the live file system up, so that its content can be replaced (rollback, receive) or
    /// the dataset unmounted: new requests wait, those under way finish, open files are closed and
    /// stale from now on. False when something still held it after [`SUSPEND_WAIT`]: the same file system serves on,
    /// for another one beside it, with what it has not written, would be two owners of one dataset. Never called
    /// from an operation of this tree.
    pub fn suspend(&self) -> bool {
        self.suspend_within(SUSPEND_WAIT)
    }

    /// As [`DatasetTree::suspend`], with another time to wait.
    pub fn suspend_within(&self, wait: Duration) -> bool {
        let Some(live) = self.views.suspend() else {
            return true;
        };
        self.handles.close_all(|handle| handle.live.is_some());
        self.unlinked.clear();
        let deadline = real_now() + wait;
        while Arc::strong_count(&live) > 1 {
            if real_now() > deadline {
                self.views.put_back(live);
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
            // A file that was being opened is in the table only now.
            self.handles.close_all(|handle| handle.live.is_some());
        }
        // A name may have gone while operations ended.
        self.unlinked.clear();
        // An error has its place in the pool's own state; the content is given up all the same.
        let _written = live.file_system.unmount();
        true
    }

    /// Shows `live` from now on, in a new epoch; lets requests go on, and makes the kernel forget
    /// what it knew. Never called from an operation of this tree.
    /// `root` is the node id of this tree's root in the mount.
    pub fn resume(&self, live: Arc<FileSystem>, session: &Session, root: u64) {
        drop(self.views.resume(Some(live)));
        self.gathering.forget();
        // Where the kernel has no epochs, names that it cached lead to stale nodes: path walks that
        // meet ESTALE look everything up again by themselves. Absent names that exist now appear
        // when their time is over.
        session.invalidate_node(root);
        let _all_names = session.invalidate_everything();
    }

    /// Whether files are open.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.handles.collect(|_| Some(())).is_empty()
    }

    /// Gives up everything, for a mount that is gone or whose content is: whatever is still asked
    /// is stale.
    pub fn abandon(&self) {
        let live = self.views.resume(None);
        self.handles.close_all(|_| true);
        self.unlinked.clear();
        self.views.close_snapshots(|_| true);
        if let Some(live) = live {
            // An error has its place in the pool's own state; the mount is gone all the same.
            let _written = live.file_system.unmount();
        }
    }

    /// Closes the snapshots that exist no more, and has the kernel forget what it knows of them; to be called when one
    /// was destroyed. Never called from an operation of this tree. `root` is the node id of this tree's root in the
    /// mount.
    pub fn snapshots_changed(&self, session: &Session, root: u64) {
        let Ok(present) = self.views.snapshots().list() else {
            return;
        };
        let guids: HashSet<u64> = present.iter().map(|entry| entry.guid).collect();
        self.close_snapshots(|guid| !guids.contains(&guid));
        let gone = self.views.note_present(&guids);
        let Some(directory) = Node::Control(ControlNode::Snapshots).id() else {
            return;
        };
        for name in gone {
            session.invalidate_name((root ^ ROOT_NODE) | directory, &name);
        }
    }

    /// How many snapshots have a place among the mount's node ids.
    #[must_use]
    pub fn snapshot_slots(&self) -> usize {
        self.views.slots_taken()
    }

    /// Closes the file systems of the snapshots that `which` chooses by GUID, with the files that
    /// are open in them: to be called before one is destroyed. They open again by themselves.
    pub fn close_snapshots(&self, which: impl Fn(u64) -> bool) {
        let slots = self.views.close_snapshots(which);
        self.handles
            .close_all(|handle| match Node::from_id(handle.node) {
                Some(Node::Snapshot { slot, .. }) => slots.contains(&slot),
                Some(Node::Root | Node::Live { .. } | Node::Control(_)) | None => false,
            });
    }

    /// The view that a node belongs to and its object there.
    fn resolve(&self, node: u64) -> Reply<Place> {
        match Node::from_id(node).ok_or(Errno::ESTALE)? {
            Node::Root => {
                let live = self.views.live()?;
                let object = live.file_system.root();
                Ok(Place::File(View::Live(live), object))
            }
            Node::Live { epoch, object } => {
                let live = self.views.live()?;
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
    Live(Arc<Live>),
    Snapshot(SnapshotView),
}

impl View {
    fn file_system(&self) -> &FileSystem {
        match self {
            Self::Live(live) => &live.file_system,
            Self::Snapshot(snapshot) => &snapshot.file_system,
        }
    }

    /// The kernel is told of a node here.
    fn count_lookup(&self) {
        match self {
            Self::Live(_) => {}
            Self::Snapshot(snapshot) => snapshot.count_lookup(),
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
