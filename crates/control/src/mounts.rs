//! What the service asks of whoever holds the mounts. The daemon supplies it; tests use a fake.

use std::path::PathBuf;
use std::sync::Arc;

use admin::{Failure, FailureKind, Mounted};
use posix::FileSystem;

/// How a dataset is mounted, from its properties and `-o`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MountOptions {
    /// No writes.
    pub readonly: bool,
    /// Access times are kept.
    pub atime: bool,
    /// Access times are kept relative to changes.
    pub relatime: bool,
    /// Device nodes work.
    pub devices: bool,
    /// Programs run.
    pub exec: bool,
    /// Set-user-id programs work.
    pub setuid: bool,
    /// Mount over a directory that is not empty.
    pub overlay: bool,
    /// The kernel gathers writes; none: as it is by default.
    pub write_back: Option<bool>,
}

impl core::default::Default for MountOptions {
    fn default() -> Self {
        Self {
            readonly: false,
            atime: true,
            relatime: true,
            devices: true,
            exec: true,
            setuid: true,
            overlay: true,
            write_back: None,
        }
    }
}

/// A request to mount a dataset.
#[derive(Debug, Clone)]
pub struct MountRequest {
    /// The file system or `dataset@snapshot`.
    pub dataset: String,
    /// Where, altroot included. Made (0755) if absent.
    pub path: PathBuf,
    /// The alternate root that it must not leave; none where it was named by who asks, or there is none.
    pub beneath: Option<PathBuf>,
    /// Why the pool may be a stranger's, as the end of a sentence about it: then nothing is covered that nobody named.
    pub of_stranger: Option<String>,
    /// How.
    pub options: MountOptions,
}

/// How hard something is unmounted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    /// Refused while somebody uses it, or has a copy of it that would stay.
    None,
    /// Refused while somebody uses it here, as OpenZFS refuses it on Linux. Copies elsewhere end with it.
    Copies,
    /// Whoever uses it.
    All,
}

/// The mounts of one pool. Failures carry only the reason (`mountpoint or dataset is busy`), which
/// the service frames.
pub trait Mounts: Send + Sync {
    /// Mounts a dataset; the directory is made if absent.
    fn mount(&self, request: &MountRequest) -> Result<(), Failure>;
    /// Unmounts a dataset; `force` detaches it from under its users.
    fn unmount(&self, dataset: &str, force: Force) -> Result<(), Failure>;
    /// Refuses when somebody has a copy of one of these that an unmount would not take away: the first such one, and
    /// why.
    fn check_held(&self, _mounts: &[Mounted]) -> Result<(), Box<(Mounted, Failure)>> {
        Ok(())
    }
    /// All that is mounted, in the order of mounting.
    fn mounted(&self) -> Vec<Mounted>;
    /// How a dataset is mounted now: properties, and `-o` over them.
    fn options(&self, _dataset: &str) -> Option<MountOptions> {
        None
    }
    /// The file system of a dataset that is mounted.
    fn file_system(&self, _dataset: &str) -> Option<Arc<FileSystem>> {
        None
    }
    /// Has the kernel write back what programs wrote, before a snapshot, rollback, send or export.
    /// Called without any lock held. Fails when that takes too long.
    fn barrier(&self, dataset: &str) -> Result<(), Failure>;
    /// Before a rollback or a receive into the dataset: requests wait from now on, those under way
    /// finish, open files go stale, the file system is given up. Always followed by
    /// [`Mounts::content_changed`], also when the change failed; unless this failed itself.
    fn suspend(&self, dataset: &str) -> Result<(), Failure>;
    /// The dataset's content changed under the mount (rollback, receive): a new epoch.
    fn content_changed(&self, dataset: &str);
    /// The dataset has another name now; its mount point may follow by unmount and mount.
    fn renamed(&self, from: &str, to: &str);
    /// A snapshot came or went: `.zfs/snapshot` must show it.
    fn snapshots_changed(&self, dataset: &str);
    /// Takes over options that changed on a mounted dataset.
    fn set_options(&self, dataset: &str, options: &MountOptions) -> Result<(), Failure>;
}

/// For pools without mounts (`-N` everywhere, tests): mounting is refused, nothing is mounted.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoMounts;

impl Mounts for NoMounts {
    fn mount(&self, _request: &MountRequest) -> Result<(), Failure> {
        Err(Failure::new(
            FailureKind::Unsupported,
            "mounting is not available here",
        ))
    }
    fn unmount(&self, _dataset: &str, _force: Force) -> Result<(), Failure> {
        Err(Failure::new(FailureKind::Missing, "not currently mounted"))
    }
    fn mounted(&self) -> Vec<Mounted> {
        Vec::new()
    }
    fn barrier(&self, _dataset: &str) -> Result<(), Failure> {
        Ok(())
    }
    fn suspend(&self, _dataset: &str) -> Result<(), Failure> {
        Ok(())
    }
    fn content_changed(&self, _dataset: &str) {}
    fn renamed(&self, _from: &str, _to: &str) {}
    fn snapshots_changed(&self, _dataset: &str) {}
    fn set_options(&self, _dataset: &str, _options: &MountOptions) -> Result<(), Failure> {
        Ok(())
    }
}
