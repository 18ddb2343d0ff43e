//! The lock order, one band a layer: lower bands are taken first. A crate numbers its classes
//! `BAND + n` (`n` below 50), and calls into another layer only with locks of lower bands held.

/// Front ends: sessions, mounts, the admin service.
pub const FRONT_END: u16 = 100;
/// POSIX file systems and volumes.
pub const POSIX: u16 = 200;
/// The pool: import, export, configuration, scan.
pub const POOL: u16 = 300;
/// Datasets, snapshots, properties, sync tasks.
pub const DSL: u16 = 400;
/// The intent log.
pub const INTENT: u16 = 500;
/// Object sets, dnodes, buffers, name tables.
pub const DMU: u16 = 600;
/// Transaction groups.
pub const TXG: u16 = 700;
/// Space maps, metaslabs, allocation.
pub const SPACE: u16 = 800;
/// The pipeline.
pub const PIPELINE: u16 = 900;
/// The block cache.
pub const CACHE: u16 = 1000;
/// Virtual devices.
pub const VDEV: u16 = 1100;
/// Devices.
pub const DEVICE: u16 = 1200;
/// Queues, registries and other leaves of the order: nothing is locked under them.
pub const LAST: u16 = 1300;
