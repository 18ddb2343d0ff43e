//! File systems that a program has open: the library's stand-in for mounts.
//!
//! Invariant: a dataset is opened once, however many handles there are, and stays open until the pool is let go, the
//! dataset destroyed or renamed over, or a rollback; from then on its handles are stale.

use std::path::PathBuf;
use std::sync::Arc;

use admin::{Failure, FailureKind, Mounted, dataset_of};
use base::lock::{LockClass, Mutex, RwLock, RwLockReadGuard, rank};
use control::{FileSource, Force, MountOptions, MountRequest, Mounts, OpenVolume};
use posix::FileSystem;

use super::{Error, Result};

static TABLE: LockClass = LockClass::new("library.open", rank::FRONT_END + 10);
static NAME: LockClass = LockClass::new("library.name", rank::FRONT_END + 12);
static STATE: LockClass = LockClass::new("library.state", rank::FRONT_END + 11);

/// A file system while it is open, and which opening of it this is: files of an earlier one are stale.
#[derive(Debug, Clone)]
pub(super) struct Present {
    pub(super) files: Arc<FileSystem>,
    pub(super) epoch: u64,
}

/// An open dataset or snapshot.
#[derive(Debug)]
pub(super) struct OpenDataset {
    name: Mutex<String>,
    state: RwLock<Option<Present>>,
}

impl OpenDataset {
    pub(super) fn name(&self) -> String {
        self.name.lock().clone()
    }

    /// The file system, held as it is while the guard is.
    pub(super) fn use_it(&self) -> Result<InUse<'_>> {
        let guard = self.state.read();
        if guard.is_none() {
            drop(guard);
            let text = format!("{}: it is not open any more", self.name());
            return Err(Error::Stale(text.into()));
        }
        Ok(InUse { guard })
    }

    /// Gives the file system up, once what is under way has ended.
    fn close(&self) -> std::result::Result<(), Failure> {
        let taken = self.state.write().take();
        match taken {
            None => Ok(()),
            Some(present) => present.files.unmount().map_err(|error| {
                let text = format!("cannot close '{}': {error}", self.name());
                Failure::new(FailureKind::Medium, text)
            }),
        }
    }
}

/// The right to use an open file system.
pub(super) struct InUse<'a> {
    guard: RwLockReadGuard<'a, Option<Present>>,
}

impl InUse<'_> {
    pub(super) fn present(&self) -> Option<&Present> {
        self.guard.as_ref()
    }
}

/// What is open in one pool.
#[derive(Debug)]
pub(super) struct OpenDatasets {
    source: FileSource,
    table: Mutex<Vec<Arc<OpenDataset>>>,
    epochs: std::sync::atomic::AtomicU64,
}

impl OpenDatasets {
    pub(super) fn new(source: FileSource) -> Arc<Self> {
        Arc::new(Self {
            source,
            table: Mutex::new(&TABLE, Vec::new()),
            epochs: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// Opens a dataset or snapshot, or finds it open.
    pub(super) fn open(&self, name: &str) -> Result<Arc<OpenDataset>> {
        let mut table = self.table.lock();
        if let Some(found) = table.iter().find(|open| open.name() == name) {
            return Ok(Arc::clone(found));
        }
        let present = self.present(name)?;
        let open = Arc::new(OpenDataset {
            name: Mutex::new(&NAME, name.to_owned()),
            state: RwLock::new(&STATE, Some(present)),
        });
        table.push(Arc::clone(&open));
        Ok(open)
    }

    /// Opens a volume, or finds it open.
    pub(super) fn volume(&self, name: &str) -> Result<Arc<OpenVolume>> {
        let framed = |reason: Failure| Failure::cannot(reason.kind, "open", name, reason);
        Ok(self.source.open_volume(name).map_err(framed)?)
    }

    fn present(&self, name: &str) -> std::result::Result<Present, Failure> {
        let options = posix::MountOptions {
            read_only: name.contains('@'),
            frees_in_background: true,
            ..posix::MountOptions::default()
        };
        let framed = |reason: Failure| Failure::cannot(reason.kind, "open", name, reason);
        let files = self.source.open(name, &options).map_err(framed)?;
        if !files.is_read_only() && !files.properties().read_only {
            // What a crash left without a name. What is not freed now is at the next opening.
            let _freed = files.drain_unlinked();
        }
        let one = std::sync::atomic::Ordering::Relaxed;
        let epoch = self.epochs.fetch_add(1, one);
        Ok(Present { files, epoch })
    }

    pub(super) const fn source(&self) -> &FileSource {
        &self.source
    }

    fn find(&self, name: &str) -> Option<Arc<OpenDataset>> {
        let table = self.table.lock();
        table.iter().find(|open| open.name() == name).cloned()
    }
}

impl Mounts for OpenDatasets {
    fn mount(&self, _request: &MountRequest) -> std::result::Result<(), Failure> {
        // What is to be read or written is opened then.
        Ok(())
    }

    fn unmount(&self, dataset: &str, force: Force) -> std::result::Result<(), Failure> {
        let mut table = self.table.lock();
        let Some(at) = table.iter().position(|open| open.name() == dataset) else {
            return Ok(());
        };
        // One is the table's; handles are made under its lock, or from others.
        if force == Force::None && Arc::strong_count(&table[at]) > 1 {
            return Err(Failure::new(FailureKind::Busy, "dataset is busy"));
        }
        let open = table.remove(at);
        open.close()
    }

    fn mounted(&self) -> Vec<Mounted> {
        let table = self.table.lock();
        let shown = table.iter().map(|open| {
            let dataset = open.name();
            Mounted {
                path: PathBuf::from(format!("/{dataset}")),
                dataset,
            }
        });
        shown.collect()
    }

    fn file_system(&self, dataset: &str) -> Option<Arc<FileSystem>> {
        let open = self.find(dataset)?;
        let state = open.state.read();
        state.as_ref().map(|present| Arc::clone(&present.files))
    }

    fn barrier(&self, _dataset: &str) -> std::result::Result<(), Failure> {
        // A write that has returned is in the open txg.
        Ok(())
    }

    fn suspend(&self, dataset: &str) -> std::result::Result<(), Failure> {
        match self.find(dataset) {
            Some(open) => open.close(),
            None => Ok(()),
        }
    }

    fn content_changed(&self, dataset: &str) {
        if let Some(open) = self.find(dataset) {
            // Without it every handle is stale, and says so.
            *open.state.write() = self.present(dataset).ok();
        }
    }

    fn renamed(&self, from: &str, to: &str) {
        for open in self.table.lock().iter() {
            let mut name = open.name.lock();
            if let Some(rest) = name.strip_prefix(from)
                && (rest.is_empty() || rest.starts_with(['/', '@']))
            {
                *name = format!("{to}{rest}");
            }
        }
    }

    fn snapshots_changed(&self, dataset: &str) {
        let mut table = self.table.lock();
        let is_gone = |open: &Arc<OpenDataset>| {
            let name = open.name();
            name.contains('@') && dataset_of(&name) == dataset && !self.source.exists(&name)
        };
        for gone in table.extract_if(.., |open| is_gone(open)) {
            // Nothing is written to a snapshot, so nothing can be lost.
            let _closed = gone.close();
        }
    }

    fn set_options(
        &self,
        dataset: &str,
        _options: &MountOptions,
    ) -> std::result::Result<(), Failure> {
        if let Some(files) = self.file_system(dataset) {
            files.set_properties(self.source.properties(dataset)?);
        }
        Ok(())
    }
}
