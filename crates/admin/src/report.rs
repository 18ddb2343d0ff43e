//! What a pool says about itself: properties, health, vdevs, scans, history, holds.

use format::config::VdevType;
use serde::{Deserialize, Serialize};

use crate::Setting;

/// A pool's properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolReport {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The last synced txg.
    pub txg: u64,
    /// The properties asked for.
    pub properties: Vec<(String, Setting)>,
    /// Its vdevs, for `list -v`.
    pub vdevs: Vec<VdevReport>,
}

impl PoolReport {
    /// One property.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.properties
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, setting)| setting)
    }
}

/// What kind of data a top-level vdev is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VdevClass {
    /// Everything.
    Normal,
    /// Dedup tables.
    Dedup,
    /// Metadata and small blocks.
    Special,
    /// Intent logs.
    Log,
    /// A second cache.
    Cache,
    /// A spare.
    Spare,
}

/// The state of a vdev or pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum VdevState {
    /// All is well.
    Online,
    /// Works with less redundancy or with errors.
    Degraded,
    /// Taken out of use because of errors.
    Faulted,
    /// Taken offline by hand.
    Offline,
    /// Gone.
    Removed,
    /// Cannot be opened.
    Unavailable,
    /// Writing stopped after failures.
    Suspended,
    /// A spare that waits.
    Available,
    /// A spare that works.
    InUse,
}

impl VdevState {
    /// The word of the STATE column.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Online => "ONLINE",
            Self::Degraded => "DEGRADED",
            Self::Faulted => "FAULTED",
            Self::Offline => "OFFLINE",
            Self::Removed => "REMOVED",
            Self::Unavailable => "UNAVAIL",
            Self::Suspended => "SUSPENDED",
            Self::Available => "AVAIL",
            Self::InUse => "INUSE",
        }
    }
}

/// Why a vdev is not healthy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VdevCause {
    /// It could not be opened.
    CannotOpen,
    /// Its device is missing.
    MissingDevice,
    /// Too few children work.
    InsufficientReplicas,
    /// Written by newer software.
    NewerVersion,
    /// Features not known here.
    UnsupportedFeatures,
    /// Its smallest block is not supported.
    UnsupportedBlockSize,
    /// Someone else uses it.
    InUse,
    /// Too many errors.
    TooManyErrors,
    /// Reads or writes failed.
    IoFailures,
    /// An intent log cannot be read.
    BadLog,
    /// Faulted from outside.
    External,
    /// Moved to another pool.
    Split,
    /// All children are offline.
    ChildrenOffline,
    /// No valid label.
    InvalidLabel,
    /// Anything else that is wrong with its data.
    CorruptData,
}

impl VdevCause {
    /// The text after the counters.
    #[must_use]
    pub const fn text(&self) -> &'static str {
        match self {
            Self::CannotOpen => "cannot open",
            Self::MissingDevice => "missing device",
            Self::InsufficientReplicas => "insufficient replicas",
            Self::NewerVersion => "newer version",
            Self::UnsupportedFeatures => "unsupported feature(s)",
            Self::UnsupportedBlockSize => "unsupported minimum blocksize",
            Self::InUse => "currently in use",
            Self::TooManyErrors => "too many errors",
            Self::IoFailures => "experienced I/O failures",
            Self::BadLog => "bad intent log",
            Self::External => "external device fault",
            Self::Split => "split into new pool",
            Self::ChildrenOffline => "all children offline",
            Self::InvalidLabel => "invalid label",
            Self::CorruptData => "corrupted data",
        }
    }
}

/// What else is known of a leaf.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafReport {
    /// Operations that took longer than 30 s.
    pub slow: u64,
    /// How its free space was written over.
    pub initialize: LeafWork,
    /// How its free space was discarded on the device.
    pub trim: LeafWork,
    /// Whether it waits for the end of the resilver that runs, to get its own.
    #[serde(default)]
    pub resilver_deferred: bool,
}

/// Work on the free space of a leaf, as the pool has it stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeafWork {
    /// How it stands.
    pub state: LeafWorkState,
    /// Percent that is done.
    pub percent: u64,
    /// Bytes of the device that are left to be looked at.
    pub left: u64,
    /// When it came to this state: seconds since 1970.
    pub time: u64,
}

/// How work on the free space of a leaf stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeafWorkState {
    /// Not begun, or given up.
    #[default]
    None,
    /// Under way.
    Active,
    /// Stopped for now.
    Suspended,
    /// Done.
    Complete,
}

/// The dedup tables of a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DedupReport {
    /// Bytes of them on disk.
    pub disk_bytes: u64,
    /// Bytes of them when all are in memory.
    pub core_bytes: u64,
    /// By the logarithm of the reference count: blocks, their logical, physical and allocated
    /// bytes, then the same as they are referenced.
    pub buckets: Vec<[u64; 8]>,
}

/// A vdev of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevReport {
    /// `disk`, `file`, `mirror`, `raidz2`, `draid1:4d:8c:1s`, `replacing`, …
    pub kind: String,
    /// Its place below its parent, the number in `mirror-0`.
    pub id: u64,
    /// Its guid.
    pub guid: u64,
    /// The path of a leaf.
    pub path: Option<String>,
    /// What it is for.
    pub class: VdevClass,
    /// Its state.
    pub state: VdevState,
    /// Why it is not healthy.
    pub cause: Option<VdevCause>,
    /// True if it was not found: its guid is shown, and `was PATH`.
    pub absent: bool,
    /// Read errors.
    pub read_errors: u64,
    /// Write errors.
    pub write_errors: u64,
    /// Checksum errors.
    pub checksum_errors: u64,
    /// What else is known of a leaf.
    pub leaf: LeafReport,
    /// A word in brackets: `resilvering`, `repairing`, `removing`, `non-allocating`, …
    pub activity: Option<String>,
    /// Bytes of space, for a top-level vdev.
    pub size: u64,
    /// Bytes of a leaf's device; 0 where that is not known.
    pub device_size: u64,
    /// Bytes in use, for a top-level vdev.
    pub allocated: Option<u64>,
    /// Percent of fragmentation, for a top-level vdev.
    pub fragmentation: Option<u64>,
    /// Bytes it could grow by.
    pub expandable: u64,
    /// Its children.
    pub children: Vec<VdevReport>,
}

impl VdevReport {
    /// A vdev for data that is as it should be, of which no more is known.
    #[must_use]
    pub fn healthy(kind: &str, guid: u64) -> Self {
        Self {
            kind: kind.to_owned(),
            id: 0,
            guid,
            path: None,
            class: VdevClass::Normal,
            state: VdevState::Online,
            cause: None,
            absent: false,
            read_errors: 0,
            write_errors: 0,
            checksum_errors: 0,
            leaf: LeafReport::default(),
            activity: None,
            size: 0,
            device_size: 0,
            allocated: None,
            fragmentation: None,
            expandable: 0,
            children: Vec::new(),
        }
    }

    /// Its type; none if nobody here knows it.
    #[must_use]
    pub fn vdev_type(&self) -> Option<VdevType> {
        type_and_details(&self.kind).map(|(vdev_type, _)| vdev_type)
    }

    /// True for a file or disk.
    #[must_use]
    pub fn is_leaf(&self) -> bool {
        self.vdev_type().is_some_and(VdevType::is_leaf) || self.path.is_some()
    }

    /// Whether it is there: not only a number that is taken, or what tells where something went.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.vdev_type().is_none_or(VdevType::is_there)
    }

    /// This vdev and all below.
    pub fn walk(&self, visit: &mut dyn FnMut(&Self)) {
        visit(self);
        for child in &self.children {
            child.walk(visit);
        }
    }
}

/// The type in a kind as it is reported (`file`, `raidz2`, `draid1:4d:8c:1s`), and what follows its name: the parity,
/// and of a dRAID more. None of types that nobody here knows.
pub(crate) fn type_and_details(kind: &str) -> Option<(VdevType, &str)> {
    let details = kind.find(|c: char| c.is_ascii_digit());
    let (name, details) = kind.split_at(details.unwrap_or(kind.len()));
    Some((VdevType::named(name)?, details))
}

/// Which kind of scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanKind {
    /// Of everything.
    Scrub,
    /// Of what a device missed.
    Resilver,
}

/// How far a scan is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanReport {
    /// Which kind.
    pub kind: ScanKind,
    /// How it stands.
    pub state: ScanState,
    /// When it began, in seconds since 1970.
    pub started: u64,
    /// When it ended, or when it was paused.
    pub ended: u64,
    /// Seconds spent, pauses left out.
    pub elapsed: u64,
    /// Errors that stayed.
    pub errors: u64,
    /// Bytes repaired.
    pub repaired: u64,
    /// Bytes to look at.
    pub to_examine: u64,
    /// Bytes looked at.
    pub scanned: u64,
    /// Bytes read.
    pub issued: u64,
}

/// The last sequential rebuild of a top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebuildReport {
    /// What the vdev is called.
    pub vdev: String,
    /// How it stands, as that of a resilver.
    pub scan: ScanReport,
}

/// The state of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScanState {
    /// It runs.
    Running,
    /// It waits.
    Paused,
    /// It ended.
    Finished,
    /// It was stopped.
    Canceled,
}

/// The removal of a vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemovalReport {
    /// Which top-level vdev.
    pub vdev: u64,
    /// When it began.
    pub started: u64,
    /// When it ended; none: it runs.
    pub ended: Option<u64>,
    /// Whether it was given up.
    pub cancelled: bool,
    /// Bytes to be copied in all.
    pub to_copy: u64,
    /// Bytes copied.
    pub copied: u64,
    /// Memory for the mappings.
    pub mapping_memory: u64,
}

/// The expansion of a RAID-Z vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpansionReport {
    /// The vdev's name.
    pub vdev: String,
    /// When it began.
    pub started: u64,
    /// When it ended; none: it runs.
    pub ended: Option<u64>,
    /// Bytes copied.
    pub copied: u64,
    /// Bytes that are copied in all.
    pub to_copy: u64,
    /// It waits for devices.
    pub waits: bool,
}

/// A pool checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointReport {
    /// When it was made; none: it is being discarded.
    pub created: Option<u64>,
    /// Bytes it holds.
    pub consumes: u64,
}

/// What is remarkable about a pool as a whole, beyond its vdevs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolNote {
    /// Version below 28's successor: no features.
    LegacyVersion,
    /// Supported features are not enabled.
    FeaturesDisabled,
    /// The host id of the config is another one.
    HostMismatch,
    /// It is suspended, for other hosts could not be told for too long that this one has it.
    MultihostOverdue,
    /// It is suspended, for a file system that holds one of its devices is full.
    HostFull,
}

/// A pool that stopped for good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoppedReport {
    /// Why.
    pub reason: String,
    /// The txg whose state is on disk.
    pub txg: u64,
    /// When that was written: seconds since 1970.
    pub time: u64,
}

/// A pool's health.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its name.
    pub name: String,
    /// Its guid.
    pub guid: u64,
    /// The last synced txg.
    pub txg: u64,
    /// Its version, or 5000.
    pub version: u64,
    /// Its state.
    pub state: VdevState,
    /// The state of its vdevs taken together: what [`PoolStatus::state`] is, unless the pool is
    /// suspended.
    pub root_state: VdevState,
    /// Whether changes fail at once when the pool is suspended (`failmode=continue`).
    pub fails_at_once: bool,
    /// Why it stopped for good, when a txg could not be written for another reason than a device.
    #[serde(default)]
    pub stopped: Option<StoppedReport>,
    /// What is remarkable.
    pub note: Option<PoolNote>,
    /// The last scan.
    pub scan: Option<ScanReport>,
    /// The last sequential rebuild of each top-level vdev.
    #[serde(default)]
    pub rebuilds: Vec<RebuildReport>,
    /// The last removal.
    pub removal: Option<RemovalReport>,
    /// The last expansion.
    pub expansion: Option<ExpansionReport>,
    /// The checkpoint.
    pub checkpoint: Option<CheckpointReport>,
    /// The top-level vdevs of all classes.
    pub vdevs: Vec<VdevReport>,
    /// The dedup tables.
    pub dedup: DedupReport,
    /// How many blocks have permanent errors.
    pub error_count: u64,
    /// Which files, as far as they can be named.
    pub error_files: Vec<String>,
}

impl PoolStatus {
    /// A pool that is as it should be, of which no more is known.
    #[must_use]
    pub fn healthy(name: &str, guid: u64) -> Self {
        Self {
            name: name.to_owned(),
            guid,
            txg: 0,
            version: 5000,
            state: VdevState::Online,
            root_state: VdevState::Online,
            fails_at_once: false,
            stopped: None,
            note: None,
            scan: None,
            rebuilds: Vec::new(),
            removal: None,
            expansion: None,
            checkpoint: None,
            vdevs: Vec::new(),
            dedup: DedupReport::default(),
            error_count: 0,
            error_files: Vec::new(),
        }
    }

    /// True if nothing needs an administrator: notes about versions and features do not count.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        self.state == VdevState::Online
            && self.error_count == 0
            && !self.leaf_errors()
            && !matches!(self.note, Some(PoolNote::HostMismatch))
    }

    /// Whether any leaf of the tree is such whose place no other one is to take.
    pub fn any_leaf(&self, matches: impl Fn(&VdevReport) -> bool) -> bool {
        fn any(vdev: &VdevReport, matches: &dyn Fn(&VdevReport) -> bool) -> bool {
            let is_replaced = vdev.vdev_type() == Some(VdevType::Replacing);
            let below = !is_replaced && vdev.children.iter().any(|c| any(c, matches));
            below || (vdev.children.is_empty() && matches(vdev))
        }
        let tops = self.vdevs.iter();
        let is_used =
            |vdev: &&VdevReport| !matches!(vdev.class, VdevClass::Cache | VdevClass::Spare);
        let mut tops = tops.filter(is_used);
        tops.any(|vdev| any(vdev, &matches))
    }

    /// Whether any leaf had errors.
    #[must_use]
    pub fn leaf_errors(&self) -> bool {
        self.any_leaf(|vdev| {
            vdev.read_errors + vdev.write_errors + vdev.checksum_errors > 0
                || vdev.state == VdevState::Degraded
        })
    }
}

/// A record of a pool's history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryRecord {
    /// Seconds since 1970.
    pub time: u64,
    /// What happened.
    pub event: HistoryEvent,
    /// The user.
    pub user: Option<u64>,
    /// The host.
    pub host: Option<String>,
    /// The zone.
    pub zone: Option<String>,
}

/// What a record of the history is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryEvent {
    /// A command line.
    Command(String),
    /// An internal event.
    Internal {
        /// Its name.
        name: String,
        /// The txg.
        txg: u64,
        /// The dataset and its object, if it is about one.
        dataset: Option<(String, u64)>,
        /// The text.
        text: String,
    },
    /// A kernel call of a modern command.
    Call {
        /// Its name.
        name: String,
        /// How long it took.
        elapsed_ns: Option<u64>,
        /// Its input, as printed lines.
        input: Vec<String>,
        /// Its output, as printed lines.
        output: Vec<String>,
        /// Its error number.
        error: Option<i64>,
    },
}

/// A hold of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldRecord {
    /// The snapshot.
    pub snapshot: String,
    /// The tag.
    pub tag: String,
    /// When, in seconds since 1970.
    pub time: u64,
}

/// What is granted at a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantRecord {
    /// The dataset.
    pub dataset: String,
    /// To whom, as the pool writes it, and what.
    pub grants: Vec<(String, Vec<String>)>,
}

/// What an owner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OwnerKind {
    /// A user.
    User,
    /// A group.
    Group,
    /// A project.
    Project,
}

/// What an owner uses of a file system, and may use. What nobody counts or
/// limits is none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnerRecord {
    /// What it is.
    pub kind: OwnerKind,
    /// Its number; above 32 bits the number of its Windows domain, 0 for owners of POSIX.
    pub id: u64,
    /// Bytes used.
    pub used: Option<u64>,
    /// Bytes allowed.
    pub quota: Option<u64>,
    /// Objects used.
    pub objects_used: Option<u64>,
    /// Objects allowed.
    pub object_quota: Option<u64>,
}

impl OwnerRecord {
    /// An owner of whom nothing is known yet.
    #[must_use]
    pub const fn new(kind: OwnerKind, id: u64) -> Self {
        Self {
            kind,
            id,
            used: None,
            quota: None,
            objects_used: None,
            object_quota: None,
        }
    }

    /// True for owners that are named by a Windows domain.
    #[must_use]
    pub const fn is_windows(&self) -> bool {
        self.id >> 32 != 0 && !matches!(self.kind, OwnerKind::Project)
    }
}

/// What became of a file between two states of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum DiffChange {
    /// It is gone.
    Removed,
    /// It is new.
    Created,
    /// It has another content, other attributes, or other entries.
    Modified,
    /// It has so many names more, or fewer.
    Linked(i64),
    /// It has another path: this one.
    Renamed(Vec<u8>),
}

/// A file that changed between two states of a file system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiffRecord {
    /// What happened.
    pub change: DiffChange,
    /// The kind of file: `F`, `/`, `@`, `|`, `=`, `B` or `C`.
    pub kind: char,
    /// When it was last changed: seconds since 1970 and nanoseconds.
    pub time: (i64, u32),
    /// Its path; of a renamed file, the old one.
    pub path: Vec<u8>,
}

#[cfg(test)]
mod tests;
