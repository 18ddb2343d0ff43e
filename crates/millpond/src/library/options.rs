//! How pools are made and opened. All options have setters, so that new ones break no program.

use std::path::PathBuf;

/// A top-level vdev of a new pool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Vdev {
    /// One file or disk.
    Single(PathBuf),
    /// Copies on several files or disks.
    Mirror(Vec<PathBuf>),
    /// Blocks shared by several files or disks, as many of which may be lost as there are rows of parity: 1 to 3.
    RaidZ(u64, Vec<PathBuf>),
}

/// How a pool is made.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// let options = CreateOptions::new("pond")
///     .file(&image)
///     .file_size(128 << 20)
///     .property("atime", "off");
/// let pool = Pool::create(&options)?;
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct CreateOptions {
    pub(super) name: String,
    pub(super) vdevs: Vec<Vdev>,
    pub(super) pool_properties: Vec<(String, String)>,
    pub(super) properties: Vec<(String, String)>,
    pub(super) file_size: Option<u64>,
    pub(super) force: bool,
}

impl CreateOptions {
    /// A pool of this name, with no vdev yet.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// With one more top-level vdev; data are spread over all of them.
    #[must_use]
    pub fn vdev(mut self, vdev: Vdev) -> Self {
        self.vdevs.push(vdev);
        self
    }

    /// With a top-level vdev that is this file or disk.
    #[must_use]
    pub fn file(self, path: impl Into<PathBuf>) -> Self {
        self.vdev(Vdev::Single(path.into()))
    }

    /// Files of vdevs that are not there are made, with this many bytes (at least 64 MiB).
    #[must_use]
    pub fn file_size(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    /// With a pool property, as `zpool create -o` takes it: `("ashift", "12")`.
    #[must_use]
    pub fn pool_property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.pool_properties.push((name.into(), value.into()));
        self
    }

    /// With a property of the root file system, as `zpool create -O` takes it: `("compression", "zstd")`.
    #[must_use]
    pub fn property(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.properties.push((name.into(), value.into()));
        self
    }

    /// Even over files and disks that look used.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }
}

/// How a pool is opened.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// # pool.export()?;
/// let pool = Pool::open(&OpenOptions::new().path(&image).read_only())?;
/// assert!(pool.is_read_only());
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Default)]
pub struct OpenOptions {
    pub(super) paths: Vec<PathBuf>,
    pub(super) pool: Option<String>,
    pub(super) read_only: bool,
    pub(super) force: bool,
    pub(super) rewind: bool,
    pub(super) without_logs: bool,
    pub(super) new_name: Option<String>,
}

impl OpenOptions {
    /// The pool on no file yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Look for it on this file, this disk, or those in this directory.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> Self {
        self.paths.push(path.into());
        self
    }

    /// The pool of this name or guid; needed where there are several.
    #[must_use]
    pub fn pool(mut self, name_or_guid: impl Into<String>) -> Self {
        self.pool = Some(name_or_guid.into());
        self
    }

    /// No byte is written: not to the files, the labels, or the log.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        self.read_only = true;
        self
    }

    /// Even if another machine used it last and did not export it.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// If its newest state is damaged, go back by a few seconds' changes.
    #[must_use]
    pub fn rewind(mut self) -> Self {
        self.rewind = true;
        self
    }

    /// Even if log devices are missing: what only they hold is lost.
    #[must_use]
    pub fn without_logs(mut self) -> Self {
        self.without_logs = true;
        self
    }

    /// Under another name from now on.
    #[must_use]
    pub fn rename(mut self, name: impl Into<String>) -> Self {
        self.new_name = Some(name.into());
        self
    }
}

/// How something is destroyed.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.create_dataset("pond/a", &[])?;
/// pool.snapshot(&["pond/a@one"])?;
/// assert!(pool.destroy("pond/a", DestroyOptions::new()).is_err());
/// pool.destroy("pond/a", DestroyOptions::new().recursive())?;
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DestroyOptions {
    pub(super) recursive: bool,
    pub(super) dependents: bool,
}

impl DestroyOptions {
    /// It alone.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What is below it, and its snapshots, too; for a snapshot: those of the same name below.
    #[must_use]
    pub fn recursive(mut self) -> Self {
        self.recursive = true;
        self
    }

    /// Clones of its snapshots outside of it, too.
    #[must_use]
    pub fn with_clones(mut self) -> Self {
        self.recursive = true;
        self.dependents = true;
        self
    }
}

/// What a rollback may destroy.
///
/// ```
/// # use millpond::*;
/// # fn main() -> millpond::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let image = folder.path().join("pond.img");
/// # let pool = Pool::create(&CreateOptions::new("pond").file(&image).file_size(128 << 20))?;
/// pool.snapshot(&["pond@one"])?;
/// pool.snapshot(&["pond@two"])?;
/// assert!(pool.rollback("pond@one", RollbackOptions::new()).is_err());
/// pool.rollback("pond@one", RollbackOptions::new().destroy_newer())?;
/// # pool.export()
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RollbackOptions {
    pub(super) newer: bool,
    pub(super) clones: bool,
}

impl RollbackOptions {
    /// Nothing: the snapshot must be the newest.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Newer snapshots and bookmarks.
    #[must_use]
    pub fn destroy_newer(mut self) -> Self {
        self.newer = true;
        self
    }

    /// Newer snapshots and bookmarks, and clones of these.
    #[must_use]
    pub fn destroy_clones(mut self) -> Self {
        self.newer = true;
        self.clones = true;
        self
    }
}
