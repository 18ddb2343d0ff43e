//! The mounts of one pool.
//!
//! Two levels: this table knows which dataset is where; a [`DatasetTree`] serves one of them. No
//! lock is held while the kernel mounts, unmounts or writes back: requests of other mounts, and of
//! the same one, go on meanwhile.

use crate::{Failure, FailureKind, MountOptions, MountRequest, Mounted, Mounts};
use base::lock::{LockClass, Mutex, rank};
use fuse::{
    DatasetTree, Mount, MountFailure, MountState, SessionOptions, SnapshotDirectory, SnapshotEntry,
    SnapshotSource,
};
use posix::{AccessTime, Errno, FileSystem, OwnerMap};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use sys::{MountError, UnmountMode};

static TABLE_CLASS: LockClass = LockClass::new("daemon.mounts", rank::FRONT_END + 2);

/// Where the mounts get file systems from: the pool.
pub trait DatasetSource: Send + Sync {
    /// Opens the file system of a dataset, or of `dataset@snapshot`.
    fn open_file_system(
        &self,
        dataset: &str,
        options: &posix::MountOptions,
    ) -> Result<Arc<FileSystem>, Failure>;

    /// The snapshots of a dataset.
    fn snapshots(&self, dataset: &str) -> Result<Vec<SnapshotEntry>, Failure>;

    /// Opens a snapshot of a dataset.
    fn open_snapshot(
        &self,
        dataset: &str,
        guid: u64,
        options: &posix::MountOptions,
    ) -> Result<Arc<FileSystem>, Failure>;

    /// When the set of a dataset's snapshots last changed: seconds and nanoseconds.
    fn snapshots_changed_at(&self, dataset: &str) -> (i64, u32);

    /// The dataset's `snapdir`.
    fn snapshot_directory(&self, dataset: &str) -> SnapshotDirectory;

    /// Whether the dataset has POSIX ACLs (`acltype`).
    fn posix_acl(&self, dataset: &str) -> bool;
}

/// One mounted dataset.
struct Entry {
    dataset: Arc<Mutex<String>>,
    tree: Arc<DatasetTree>,
    mount: Mount,
    options: posix::MountOptions,
}

static NAME_CLASS: LockClass = LockClass::new("daemon.dataset_name", rank::FRONT_END + 4);

/// The snapshots of one mounted dataset, by whatever name it has now.
struct Snapshots {
    source: Arc<dyn DatasetSource>,
    dataset: Arc<Mutex<String>>,
    options: posix::MountOptions,
}

fn errno_of(failure: &Failure) -> Errno {
    match failure.kind {
        FailureKind::Missing => Errno::ESTALE,
        FailureKind::Permission => Errno::EACCES,
        FailureKind::Busy => Errno::EBUSY,
        _ => Errno::EIO,
    }
}

impl SnapshotSource for Snapshots {
    fn list(&self) -> fuse::Reply<Vec<SnapshotEntry>> {
        let dataset = self.dataset.lock().clone();
        self.source
            .snapshots(&dataset)
            .map_err(|failure| errno_of(&failure))
    }

    fn open(&self, guid: u64) -> fuse::Reply<Arc<FileSystem>> {
        let dataset = self.dataset.lock().clone();
        let opened = self.source.open_snapshot(&dataset, guid, &self.options);
        opened.map_err(|failure| errno_of(&failure))
    }

    fn changed(&self) -> fuse::wire::Timestamp {
        let dataset = self.dataset.lock().clone();
        let (seconds, nanoseconds) = self.source.snapshots_changed_at(&dataset);
        fuse::wire::Timestamp {
            seconds,
            nanoseconds,
        }
    }
}

/// The mounts of one pool, by the kernel's FUSE.
pub struct DaemonMounts {
    source: Arc<dyn DatasetSource>,
    table: Mutex<Vec<Arc<Entry>>>,
}

impl DaemonMounts {
    /// No mounts yet.
    #[must_use]
    pub fn new(source: Arc<dyn DatasetSource>) -> Arc<Self> {
        Arc::new(Self {
            source,
            table: Mutex::new(&TABLE_CLASS, Vec::new()),
        })
    }

    /// The live mounts; those that users unmounted are dropped from the table.
    fn entries(&self) -> Vec<Arc<Entry>> {
        let mut table = self.table.lock();
        let (alive, ended): (Vec<_>, Vec<_>) = table
            .drain(..)
            .partition(|entry| entry.mount.state() == MountState::Serving);
        *table = alive;
        let alive = table.clone();
        drop(table);
        drop(ended);
        alive
    }

    fn find(&self, dataset: &str) -> Option<Arc<Entry>> {
        self.entries()
            .into_iter()
            .find(|entry| *entry.dataset.lock() == dataset)
    }

    fn start(&self, request: &MountRequest) -> Result<Entry, Failure> {
        let MountRequest {
            dataset,
            path,
            options,
        } = request;
        let file_options = file_system_options(dataset, options);
        let live = self.source.open_file_system(dataset, &file_options)?;
        let name = Arc::new(Mutex::new(&NAME_CLASS, dataset.clone()));
        let snapshots = Snapshots {
            source: Arc::clone(&self.source),
            dataset: Arc::clone(&name),
            options: posix::MountOptions {
                read_only: true,
                ..file_options.clone()
            },
        };
        let directory = match dataset.contains('@') {
            true => SnapshotDirectory::Disabled,
            false => self.source.snapshot_directory(dataset),
        };
        let tree = DatasetTree::new(Arc::clone(&live), Arc::new(snapshots), directory);
        let session = SessionOptions {
            posix_acl: self.source.posix_acl(dataset),
            ..SessionOptions::default()
        };
        let options = kernel_options(dataset, options, live.is_read_only(), session);
        let mount = Mount::start(path, tree.clone(), &options);
        match mount {
            Ok(mount) => Ok(Entry {
                dataset: name,
                tree,
                mount,
                options: file_options,
            }),
            Err(failure) => {
                // Nothing was asked of it yet, so there is nothing to lose.
                let _written = live.unmount();
                Err(mount_failure(&failure))
            }
        }
    }
}

fn file_system_options(dataset: &str, options: &MountOptions) -> posix::MountOptions {
    let access_time = match (options.atime, options.relatime) {
        (false, _) => AccessTime::Off,
        (true, true) => AccessTime::Relative,
        (true, false) => AccessTime::Strict,
    };
    let (uid, gid) = (sys::user_id(), sys::group_id());
    posix::MountOptions {
        read_only: options.readonly || dataset.contains('@'),
        kernel_checks_permissions: true,
        // An ordinary user's mount is that user's alone: the image's owners mean nothing here.
        owners: if uid == 0 {
            OwnerMap::Stored
        } else {
            OwnerMap::Everyone { uid, gid }
        },
        access_time: Some(access_time),
        ..posix::MountOptions::default()
    }
}

fn kernel_options(
    dataset: &str,
    options: &MountOptions,
    is_read_only: bool,
    session: SessionOptions,
) -> fuse::MountOptions {
    fuse::MountOptions {
        source: dataset.to_owned(),
        read_only: options.readonly || is_read_only,
        no_exec: !options.exec,
        no_suid: !options.setuid,
        no_devices: !options.devices,
        no_atime: !options.atime,
        session,
    }
}

fn mount_failure(failure: &MountFailure) -> Failure {
    let kind = match failure {
        MountFailure::Mount(MountError::MountPoint {
            error: sys::Errno::BUSY,
            ..
        }) => {
            return Failure::new(FailureKind::Busy, "mountpoint or dataset is busy");
        }
        MountFailure::Mount(MountError::Helper { .. }) => FailureKind::Permission,
        MountFailure::Mount(MountError::Device(_) | MountError::NoHelper(_)) => {
            FailureKind::Unsupported
        }
        _ => FailureKind::Service,
    };
    Failure::new(kind, failure.to_string())
}

/// Makes the mount point if it is absent, and sees whether it may be mounted over.
fn prepare_mount_point(path: &Path, overlay: bool) -> Result<(), Failure> {
    fuse::remove_dead_mounts(path);
    let failed = |error: std::io::Error| {
        let kind = match error.kind() {
            ErrorKind::PermissionDenied => FailureKind::Permission,
            ErrorKind::ReadOnlyFilesystem => FailureKind::ReadOnly,
            _ => FailureKind::Invalid,
        };
        Failure::new(
            kind,
            format!("failed to create mountpoint: {}: {error}", path.display()),
        )
    };
    std::fs::create_dir_all(path).map_err(failed)?;
    let mut entries = std::fs::read_dir(path).map_err(failed)?;
    if !overlay && entries.next().is_some() {
        return Err(Failure::new(FailureKind::Exists, "directory is not empty"));
    }
    Ok(())
}

impl Mounts for DaemonMounts {
    fn mount(&self, request: &MountRequest) -> Result<(), Failure> {
        if self.find(&request.dataset).is_some() {
            return Err(Failure::new(
                FailureKind::Busy,
                "filesystem already mounted",
            ));
        }
        prepare_mount_point(&request.path, request.options.overlay)?;
        let entry = Arc::new(self.start(request)?);
        self.table.lock().push(entry);
        Ok(())
    }

    fn unmount(&self, dataset: &str, force: bool) -> Result<(), Failure> {
        let Some(entry) = self.find(dataset) else {
            return Err(Failure::new(FailureKind::Missing, "not currently mounted"));
        };
        let mode = if force {
            UnmountMode::Detach
        } else {
            UnmountMode::IfIdle
        };
        entry.mount.unmount(mode).map_err(|error| match error {
            MountError::MountPoint {
                error: sys::Errno::BUSY,
                ..
            }
            | MountError::Helper { .. } => {
                Failure::new(FailureKind::Busy, "pool or dataset is busy")
            }
            other => Failure::new(FailureKind::Service, other.to_string()),
        })?;
        if force {
            // Files that are still open become stale; the file system is given up at once.
            entry.tree.abandon();
        }
        self.table
            .lock()
            .retain(|other| !Arc::ptr_eq(other, &entry));
        Ok(())
    }

    fn mounted(&self) -> Vec<Mounted> {
        let entries = self.entries();
        let shown = entries.iter().map(|entry| Mounted {
            dataset: entry.dataset.lock().clone(),
            path: entry.mount.path().to_owned(),
        });
        shown.collect()
    }

    fn barrier(&self, dataset: &str) {
        if let Some(entry) = self.find(dataset) {
            entry.mount.session().flush_dirty();
        }
    }

    fn suspend(&self, dataset: &str) -> Result<(), Failure> {
        let Some(entry) = self.find(dataset) else {
            return Ok(());
        };
        entry.mount.session().flush_dirty();
        if entry.tree.suspend() {
            return Ok(());
        }
        self.content_changed(dataset);
        Err(Failure::new(FailureKind::Busy, "pool or dataset is busy"))
    }

    fn content_changed(&self, dataset: &str) {
        let Some(entry) = self.find(dataset) else {
            return;
        };
        match self.source.open_file_system(dataset, &entry.options) {
            Ok(live) => entry.tree.resume(live, entry.mount.session()),
            // There is nothing to show any more.
            Err(_) => {
                entry.tree.abandon();
                let _detached = self.unmount(dataset, true);
            }
        }
        entry.tree.snapshots_changed();
    }

    fn renamed(&self, from: &str, to: &str) {
        for entry in self.entries() {
            let mut name = entry.dataset.lock();
            if let Some(rest) = name.strip_prefix(from)
                && (rest.is_empty() || rest.starts_with(['/', '@']))
            {
                *name = format!("{to}{rest}");
            }
        }
    }

    fn snapshots_changed(&self, dataset: &str) {
        if let Some(entry) = self.find(dataset) {
            entry.tree.snapshots_changed();
            entry
                .tree
                .set_snapshot_directory(self.source.snapshot_directory(dataset));
        }
    }

    fn set_options(&self, dataset: &str, options: &MountOptions) -> Result<(), Failure> {
        let Some(entry) = self.find(dataset) else {
            return Ok(());
        };
        entry
            .tree
            .set_snapshot_directory(self.source.snapshot_directory(dataset));
        let read_only = entry.options.read_only;
        let options = kernel_options(dataset, options, read_only, SessionOptions::default());
        entry
            .mount
            .change_flags(&options)
            .map_err(|error| mount_failure(&error.into()))
    }
}
