//! Where mounts get their file systems from.

use std::sync::Arc;

use dsl::{Dataset, Dsl};
use fuse::{SnapshotDirectory, SnapshotEntry};
use pool::Pool;
use posix::{DatasetProperties, FileSystem, MountOptions, NoLog, Source};

use super::contents::{clock, file_properties};
use super::refusal::{reason, unreadable};
use crate::daemon::DatasetSource;
use crate::{Failure, FailureKind};

/// The datasets of one pool, for its mounts.
pub(super) struct PoolSource {
    pub(super) pool: Arc<Pool>,
}

impl PoolSource {
    fn dsl(&self) -> &Arc<Dsl> {
        self.pool.dsl()
    }

    fn dataset(&self, name: &str) -> Result<Arc<Dataset>, Failure> {
        self.dsl().dataset(name).map_err(|error| {
            let (kind, text) = reason(&error);
            Failure::new(kind, text)
        })
    }

    /// Refuses a file system whose intent log owes a replay: what is on disk lacks changes that
    /// were acknowledged, and what is written now would be overwritten when it is replayed.
    fn check_log(&self, dataset: &Arc<Dataset>) -> Result<(), Failure> {
        if dataset.is_snapshot() {
            return Ok(());
        }
        let log = self.pool.intent_log(dataset);
        let log = log.map_err(|error| Failure::new(FailureKind::Medium, error.to_string()))?;
        if log.is_some_and(|log| log.is_owed()) {
            let text = "its intent log holds changes that must be replayed first";
            return Err(Failure::new(FailureKind::Unsupported, text));
        }
        Ok(())
    }

    fn open(
        &self,
        dataset: &Arc<Dataset>,
        options: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        let objects = dataset.object_set().map_err(|error| {
            let (kind, text) = reason(&error);
            Failure::new(kind, text)
        })?;
        let properties = file_properties(dataset, self.pool.is_read_only())?;
        // What the properties forbid, the file system refuses by itself: they may change.
        let writable = !self.pool.is_read_only() && !dataset.is_snapshot() && !options.read_only;
        let engine = self.pool.engine().filter(|_| writable).cloned();
        self.check_log(dataset)?;
        let phys = dataset.phys().map_err(unreadable)?;
        let source = Source {
            objects,
            log: engine
                .clone()
                .map(|engine| Arc::new(NoLog::new(engine)) as _),
            engine,
            space: Some(dataset.admission() as _),
            clock: clock(),
            identity: phys.fsid_guid,
            properties,
        };
        FileSystem::mount(source, options.clone())
            .map_err(|error| Failure::new(FailureKind::Medium, error.to_string()))
    }
}

impl DatasetSource for PoolSource {
    fn open_file_system(
        &self,
        dataset: &str,
        options: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        self.open(&self.dataset(dataset)?, options)
    }

    fn snapshots(&self, dataset: &str) -> Result<Vec<SnapshotEntry>, Failure> {
        let head = self.dataset(dataset)?;
        let mut found = Vec::new();
        for snapshot in head.snapshots().map_err(unreadable)? {
            found.push(SnapshotEntry {
                name: snapshot.snapshot_name().map_err(unreadable)?.into_bytes(),
                guid: snapshot.guid().map_err(unreadable)?.0,
                object_set: snapshot.id().0,
            });
        }
        Ok(found)
    }

    fn open_snapshot(
        &self,
        dataset: &str,
        guid: u64,
        options: &MountOptions,
    ) -> Result<Arc<FileSystem>, Failure> {
        for snapshot in self.dataset(dataset)?.snapshots().map_err(unreadable)? {
            if snapshot.guid().map_err(unreadable)?.0 == guid {
                return self.open(&snapshot, options);
            }
        }
        Err(Failure::new(
            FailureKind::Missing,
            "the snapshot does not exist any more",
        ))
    }

    fn file_properties(&self, dataset: &str) -> Result<DatasetProperties, Failure> {
        file_properties(&*self.dataset(dataset)?, self.pool.is_read_only())
    }

    fn snapshots_changed_at(&self, dataset: &str) -> (i64, u32) {
        let changed = self
            .dsl()
            .directory(dataset)
            .and_then(|found| found.snapshots_changed());
        let (seconds, nanoseconds) = changed.ok().flatten().unwrap_or((0, 0));
        (
            i64::try_from(seconds).unwrap_or(i64::MAX),
            u32::try_from(nanoseconds).unwrap_or(0),
        )
    }

    fn snapshot_directory(&self, dataset: &str) -> SnapshotDirectory {
        let stored = self
            .dsl()
            .head(dataset)
            .and_then(|head| head.number_property("snapdir", true, 0));
        match stored {
            Ok(1) => SnapshotDirectory::Visible,
            Ok(2) => SnapshotDirectory::Disabled,
            _ => SnapshotDirectory::Hidden,
        }
    }

    fn posix_acl(&self, dataset: &str) -> bool {
        let stored = self
            .dataset(dataset)
            .map(|found| found.number_property("acltype", true, 0));
        matches!(stored, Ok(Ok(1)))
    }
}
