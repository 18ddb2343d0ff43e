//! Where a file system comes from.

use std::sync::Arc;

use base::clock::Clock;
use dmu::ObjectSet;
use txg::Engine;

use crate::DatasetProperties;
use crate::log::OperationLog;
use crate::space::Space;

/// Where a file system comes from.
pub struct Source {
    /// Its objects.
    pub objects: Arc<ObjectSet>,
    /// The engine that changes go through; none for a read-only mount.
    pub engine: Option<Arc<Engine>>,
    /// The log of single operations; none for a read-only mount.
    pub log: Option<Arc<dyn OperationLog>>,
    /// The dataset's space; without it `statfs` shows zeros and nothing can be written.
    pub space: Option<Arc<dyn Space>>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// The file system's identity (`f_fsid`).
    pub identity: u64,
    /// Effective properties.
    pub properties: DatasetProperties,
}
