//! Where mounts get their file systems from.

use std::sync::Arc;

use admin::{Failure, FailureKind};
use dsl::property::dataset::{LOGBIAS, SYNC};
use dsl::property::{
    AclType, SnapshotDirectory,
    dataset::{ACLTYPE, SNAPDIR},
};
use dsl::{Dataset, Dsl, DslError, property};
use intent::{Log, LogBias, SyncPolicy};
use pool::Pool;
use posix::{DatasetProperties, FileSystem, IntentLog, MountOptions, Source};

use super::contents::{clock, file_properties};
use super::open_heads::OpenHeads;
use super::open_volumes::{OpenVolumes, say_replayed};
use super::refusal::{reason, unreadable};

/// A snapshot, as a mount lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotRecord {
    /// Its name, without the dataset's.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The number of its object set.
    pub object_set: u64,
}

/// Opens the files of a pool's datasets: for mounts, and for programs that have it in their own
/// process.
pub struct FileSource(pub(super) PoolSource);

impl FileSource {
    /// Of a pool that was just opened.
    #[must_use]
    pub fn new(opened: &super::Opened) -> Self {
        Self(PoolSource {
            pool: Arc::clone(&opened.pool),
            heads: Arc::clone(&opened.heads),
            volumes: Arc::clone(&opened.volumes),
        })
    }

    /// Opens a file system or a snapshot of one, once what its intent log owes is applied. A head is open to be written
    /// once at a time, until it is unmounted or let go: it is busy for others.
    ///
    /// # Errors
    /// There is none of that name, or it cannot be read.
    pub fn open(&self, dataset: &str, options: &MountOptions) -> Result<Arc<FileSystem>, Failure> {
        self.0.open(&self.0.dataset(dataset)?, options)
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.0.pool
    }

    /// Whether there is a dataset or snapshot of that name.
    #[must_use]
    pub fn exists(&self, dataset: &str) -> bool {
        self.0.dataset(dataset).is_ok()
    }

    /// The effective properties that an open file system needs, after some changed.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn properties(&self, dataset: &str) -> Result<DatasetProperties, Failure> {
        let dataset = self.0.dataset(dataset)?;
        // The log follows the same properties.
        self.0.log(&dataset)?;
        file_properties(&dataset, self.0.pool.is_read_only())
    }

    /// The snapshots of a dataset, oldest first.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn snapshots(&self, dataset: &str) -> Result<Vec<SnapshotRecord>, Failure> {
        let head = self.0.dataset(dataset)?;
        let look = || {
            let found = head.named_snapshots()?.into_iter();
            let record = |(name, snapshot): (String, Arc<Dataset>)| {
                Ok(SnapshotRecord {
                    name,
                    guid: snapshot.guid()?.0,
                    object_set: snapshot.id().0,
                })
            };
            found.map(record).collect::<Result<Vec<_>, DslError>>()
        };
        self.0.dsl().settled(look).map_err(unreadable)
    }

    /// Opens a snapshot of a dataset by its guid.
    ///
    /// # Errors
    /// It is gone, or it cannot be read.
    pub fn open_snapshot(
        &self,
        dataset: &str,
        guid: u64,
        options: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        let head = self.0.dataset(dataset)?;
        let look = || {
            for snapshot in head.snapshots()? {
                if snapshot.guid()?.0 == guid {
                    return Ok(Some(snapshot));
                }
            }
            Ok::<_, DslError>(None)
        };
        if let Some(snapshot) = self.0.dsl().settled(look).map_err(unreadable)? {
            return self.0.open(&snapshot, options);
        }
        Err(Failure::new(
            FailureKind::Missing,
            "the snapshot does not exist any more",
        ))
    }

    /// When the set of a dataset's snapshots last changed: seconds and nanoseconds.
    #[must_use]
    pub fn snapshots_changed_at(&self, dataset: &str) -> (i64, u32) {
        let changed = self
            .0
            .dsl()
            .directory(dataset)
            .and_then(|found| found.snapshots_changed());
        let (seconds, nanoseconds) = changed.ok().flatten().unwrap_or((0, 0));
        (
            i64::try_from(seconds).unwrap_or(i64::MAX),
            u32::try_from(nanoseconds).unwrap_or(0),
        )
    }

    /// The dataset's `snapdir`.
    #[must_use]
    pub fn snapshot_directory(&self, dataset: &str) -> SnapshotDirectory {
        let stored = self.0.dsl().head(dataset);
        let stored = stored.and_then(|head| head.get(SNAPDIR));
        stored.map_or(SnapshotDirectory::Hidden, |found| found.value)
    }

    /// Whether the dataset has POSIX ACLs (`acltype`).
    #[must_use]
    pub fn posix_acl(&self, dataset: &str) -> bool {
        let stored = self.0.dataset(dataset).map(|found| found.get(ACLTYPE));
        matches!(stored, Ok(Ok(found)) if found.value == AclType::Posix)
    }
}

impl std::fmt::Debug for FileSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileSource({})", self.0.pool.name())
    }
}

/// The datasets of one pool, for its mounts.
pub(super) struct PoolSource {
    pub(super) pool: Arc<Pool>,
    pub(super) heads: Arc<OpenHeads>,
    pub(super) volumes: Arc<OpenVolumes>,
}

impl PoolSource {
    fn dsl(&self) -> &Arc<Dsl> {
        self.pool.dsl()
    }

    pub(super) fn dataset(&self, name: &str) -> Result<Arc<Dataset>, Failure> {
        let found = self.dsl().settled(|| self.dsl().dataset(name));
        found.map_err(|error| {
            let (kind, text) = reason(&error);
            Failure::new(kind, text)
        })
    }

    /// The log of a head that may be written, with its policy as the properties say.
    pub(super) fn log(&self, dataset: &Arc<Dataset>) -> Result<Option<Arc<Log>>, Failure> {
        if dataset.is_snapshot() {
            return Ok(None);
        }
        let log = self.pool.intent_log(dataset);
        let log = log.map_err(|error| Failure::new(FailureKind::Medium, error.to_string()))?;
        if let Some(log) = &log {
            let sync = match dataset.get(SYNC).map_err(unreadable)?.value {
                property::SyncPolicy::Standard => SyncPolicy::Standard,
                property::SyncPolicy::Always => SyncPolicy::Always,
                property::SyncPolicy::Disabled => SyncPolicy::Disabled,
            };
            let bias = match dataset.get(LOGBIAS).map_err(unreadable)?.value {
                property::LogBias::Latency => LogBias::Latency,
                property::LogBias::Throughput => LogBias::Throughput,
            };
            log.set_policy(sync, bias);
        }
        Ok(log)
    }

    fn source(&self, dataset: &Arc<Dataset>, log: Option<&Arc<Log>>) -> Result<Source, Failure> {
        let objects = dataset.object_set().map_err(|error| {
            let (kind, text) = reason(&error);
            Failure::new(kind, text)
        })?;
        let engine = self.pool.engine().filter(|_| log.is_some()).cloned();
        Ok(Source {
            objects,
            log: log.map(|log| Arc::new(IntentLog::new(Arc::clone(log))) as _),
            engine,
            space: Some(dataset.admission() as _),
            clock: clock(),
            identity: dataset.phys().map_err(unreadable)?.fsid_guid,
            properties: file_properties(dataset, self.pool.is_read_only())?,
        })
    }

    /// A dataset as it is, to look at without writing.
    pub(super) fn look(&self, dataset: &Arc<Dataset>) -> Result<Source, Failure> {
        self.source(dataset, None)
    }

    /// Applies what the log owes, before anything is served: also for a mount that is read-only.
    /// False: it could not be applied as a whole, so that nothing may be written.
    fn replay(&self, dataset: &Arc<Dataset>, log: &Arc<Log>) -> Result<bool, Failure> {
        if !log.is_owed() {
            return Ok(true);
        }
        let replayed = posix::replay(self.source(dataset, Some(log))?, log)
            .map_err(|error| Failure::new(FailureKind::Medium, error.to_string()))?;
        let name = dataset.name().map_err(unreadable)?;
        Ok(say_replayed(
            &name,
            &replayed.lost,
            replayed.failed.as_ref(),
        ))
    }

    fn open(
        &self,
        dataset: &Arc<Dataset>,
        options: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        if dataset.is_snapshot() || self.pool.is_read_only() {
            return self.open_alone(dataset, options);
        }
        self.heads
            .open(dataset.id(), || self.open_alone(dataset, options))
    }

    /// Has `change` done to a head: to the file system that somebody has open, or else to one that is open as long as
    /// that takes.
    pub(super) fn with<T>(
        &self,
        dataset: &Arc<Dataset>,
        change: impl Fn(&FileSystem) -> posix::Result<T>,
    ) -> Result<posix::Result<T>, Failure> {
        let open = || self.open_alone(dataset, &MountOptions::default());
        self.heads.with(dataset.id(), open, change)
    }

    fn open_alone(
        &self,
        dataset: &Arc<Dataset>,
        options: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        let log = self.log(dataset)?;
        let is_whole = match &log {
            Some(log) => self.replay(dataset, log)?,
            None => true,
        };
        // What the properties forbid, the file system refuses by itself: they may change.
        let writable = is_whole && !options.read_only;
        let source = self.source(dataset, log.as_ref().filter(|_| writable))?;
        FileSystem::mount(source, options.clone())
            .map_err(|error| Failure::new(FailureKind::Medium, error.to_string()))
    }
}
