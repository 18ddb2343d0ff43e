//! What commands and daemons say to each other.
//!
//! A request is answered by any number of parts and then exactly one [`Response::Done`] or
//! [`Response::Failed`]. Values travel typed ([`crate::Value`]); the command makes text of them.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::changes::{Change, NewKey};
use crate::events::EventRecord;
use crate::metrics::{IoReport, MetricsReport};
use crate::queries::{
    DeleteQueue, Diff, Events, Grants, History, Holds, KeyRoots, OwnerSpace, PoolProperties,
    ProgressOfSend, Vdevs,
};
use crate::report::{
    DiffRecord, GrantRecord, HistoryRecord, HoldRecord, OwnerRecord, PoolReport, PoolStatus,
    VdevClass,
};
use crate::{Failure, Setting, Types, Value};

/// Who asks, as the socket's peer credentials say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The process.
    pub pid: u32,
}

/// A request to the daemon of one pool. All but changes and streams are [queries](crate::queries).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Who are you?
    Hello,
    /// The pool's properties.
    Pool(PoolProperties),
    /// Vdevs with their properties.
    Vdevs(Vdevs),
    /// The pool's health, vdevs, scan and errors.
    Status,
    /// The history, oldest first.
    History(History),
    /// Datasets with properties, in name order.
    Datasets(DatasetQuery),
    /// Holds of snapshots.
    Holds(Holds),
    /// What the owners of a file system's files use and may use.
    OwnerSpace(OwnerSpace),
    /// What is granted to whom at a dataset and above it.
    Grants(Grants),
    /// What changed in a file system.
    Diff(Diff),
    /// How many files of a file system wait to be freed.
    DeleteQueue(DeleteQueue),
    /// Roots of encryption.
    KeyRoots(KeyRoots),
    /// What is mounted.
    Mounted,
    /// Locks, queues, latencies and counters.
    Metrics,
    /// What the devices did.
    IoStatistics,
    /// What happened lately.
    Events(Events),
    /// Forget what happened.
    ClearEvents,
    /// How far a send is.
    SendProgress(ProgressOfSend),
    /// Data that goes through a descriptor, which comes with the request.
    Stream(StreamRequest),
    /// A change, with the command line for the pool's history.
    Change {
        /// What to do.
        change: Change,
        /// The command line as it was typed; empty records nothing.
        command: String,
    },
}

/// Data that goes through a descriptor of the caller's, and not over the connection: the answer comes when all of it
/// went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum StreamRequest {
    /// Write a stream.
    Send(SendRequest),
    /// Read a stream.
    Receive(ReceiveRequest),
    /// Serve volumes to a client of NBD.
    Serve(ServeRequest),
}

/// Which volumes a client of NBD may have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct ServeRequest {
    /// Volumes and snapshots of some. The first is what a client gets who names none.
    pub volumes: Vec<String>,
    /// Nothing is changed.
    pub read_only: bool,
    /// The client was greeted, and speaks TLS with whoever asks for it: the flags of its greeting.
    #[serde(default)]
    pub secured: Option<u32>,
}

/// What is to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct SendRequest {
    /// The snapshot.
    pub snapshot: String,
    /// What the receiver has already: a snapshot or bookmark; none: nothing.
    pub from: Option<String>,
    /// With all snapshots between.
    pub intermediate: bool,
    /// All below too, as they are: a package.
    pub replicate: bool,
    /// With the properties: a package.
    pub properties: bool,
    /// With the holds: a package.
    #[serde(default)]
    pub holds: bool,
    /// Of a dataset that was received, the properties as they were received.
    #[serde(default)]
    pub backup: bool,
    /// Of a package, without these datasets and what is below them.
    pub excluded: Vec<String>,
    /// Of a package, without what has no such snapshot.
    pub skip_missing: bool,
    /// Blocks of more than 128 KiB may go as they are.
    pub large_blocks: bool,
    /// Blocks that lie in their pointers may.
    pub embedded: bool,
    /// Compressed blocks may.
    pub compressed: bool,
    /// Blocks of encrypted datasets go as they are encrypted, all others as they are stored.
    #[serde(default)]
    pub raw: bool,
    /// What a receive that broke off has left of a file system or volume, instead of a snapshot.
    #[serde(default)]
    pub saved: bool,
    /// The bookmark by whose redaction list blocks are left out.
    #[serde(default)]
    pub redact: Option<String>,
    /// The rest of a stream that was received in part; it tells snapshot and source.
    pub token: Option<String>,
    /// A random number by which others may ask how far it is; 0: nobody asks.
    #[serde(default)]
    pub number: u64,
}

/// How far a send is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SendProgress {
    /// The snapshot that is sent now.
    pub name: String,
    /// Bytes of its stream that were written.
    pub bytes: u64,
}

/// How long a stream will be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamSize {
    /// The snapshot.
    pub name: String,
    /// What it starts from.
    pub from: Option<String>,
    /// Its bytes, roughly.
    pub bytes: u64,
}

/// What is to be received, and where to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command"
)]
pub struct ReceiveRequest {
    /// A file system, volume or snapshot: where to.
    pub target: String,
    /// What of the sent name goes below the target.
    pub naming: ReceiveNaming,
    /// The snapshot that a new dataset is to be a clone of.
    pub origin: Option<String>,
    /// Properties that are set at the topmost dataset, in place of received ones.
    pub properties: Assignments,
    /// Properties of which no received value counts.
    pub excluded: Vec<String>,
    /// What is there may go.
    pub force: bool,
    /// Only say what would be received.
    pub dry_run: bool,
    /// Say what is received.
    pub verbose: bool,
    /// Mount nothing.
    pub unmounted: bool,
    /// What arrived is kept if the stream breaks off.
    pub resumable: bool,
    /// Leave out the holds of a package.
    pub skip_holds: bool,
    /// Write what cannot be read of snapshots that are there, and receive nothing else.
    #[serde(default)]
    pub corrective: bool,
    /// The command line for the pool's history.
    pub command: String,
}

/// How what is received is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
pub enum ReceiveNaming {
    /// As the target.
    #[default]
    Target,
    /// The sent name without its pool, below the target.
    WithoutPool,
    /// The last part of the sent name, below the target.
    LastPart,
}

/// A root of encryption: what its key is made of, and where that comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyRoot {
    /// The dataset.
    pub name: String,
    /// The number of `keyformat`.
    pub format: u64,
    /// Of a passphrase: the salt.
    pub salt: u64,
    /// Of a passphrase: how often it is hashed.
    pub iterations: u64,
    /// `keylocation`.
    pub location: String,
    /// Whether the key is loaded.
    pub loaded: bool,
}

/// Which properties.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Selection {
    /// All that apply, user properties included.
    All,
    /// These.
    Names(Vec<String>),
}

/// Which datasets, and what of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetQuery {
    /// Where to begin; empty: at the pool's root.
    pub roots: Vec<String>,
    /// How far below; none: as far as it goes.
    pub depth: Option<u32>,
    /// Which kinds.
    #[serde(with = "crate::property::types_as_number")]
    pub types: Types,
    /// What of them.
    pub properties: Selection,
}

/// A dataset with the properties asked for; those that do not apply are left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetRow {
    /// The full name.
    pub name: String,
    /// Its kind.
    #[serde(with = "crate::property::types_as_number")]
    pub kind: Types,
    /// When it was made, which orders snapshots.
    pub created_txg: u64,
    /// The properties.
    pub properties: Vec<(String, Setting)>,
}

impl DatasetRow {
    /// One property of the row.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Setting> {
        self.properties
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, setting)| setting)
    }
}

/// A property and its value, in the order given.
pub type Assignments = Vec<(String, Value)>;

/// A part of an answer, or its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Response {
    /// Who answers.
    Hello {
        /// The pool's name.
        pool: String,
        /// Its guid.
        guid: u64,
        /// The daemon's process.
        pid: u32,
        /// The daemon's version.
        version: String,
    },
    /// The pool's properties.
    Pool(PoolReport),
    /// The pool's health.
    Status(Box<PoolStatus>),
    /// Some records of the history.
    History(Vec<HistoryRecord>),
    /// The vdevs asked for.
    Vdevs(Vec<DatasetRow>),
    /// Some datasets.
    Datasets(Vec<DatasetRow>),
    /// Some holds.
    Holds(Vec<HoldRecord>),
    /// What is granted: the dataset's own, then what is above.
    Grants(Vec<GrantRecord>),
    /// Some owners.
    OwnerSpace(Vec<OwnerRecord>),
    /// How long the streams will be, of a request to send that came without a descriptor.
    StreamSizes(Vec<StreamSize>),
    /// How far a send is; none: it has not begun, or is over.
    SendProgress(Option<SendProgress>),
    /// Some files that changed.
    Diff(Vec<DiffRecord>),
    /// Files without a name that are not freed yet; 0 for a file system that is not mounted.
    DeleteQueue(u64),
    /// Roots of encryption.
    KeyRoots(Vec<KeyRoot>),
    /// What is mounted.
    Mounted(Vec<Mounted>),
    /// The readings of all instruments.
    Metrics(MetricsReport),
    /// What the devices did.
    IoStatistics(Box<IoReport>),
    /// Some events, oldest first.
    Events(Vec<EventRecord>),
    /// How many events were forgotten.
    EventsCleared(u64),
    /// A line for the standard output.
    Line(String),
    /// Lines that nobody asked for: for the standard error, and nothing has failed.
    Notice(String),
    /// A part that failed; more may follow.
    Warning(Failure),
    /// The end: all is done.
    Done,
    /// The end: refused or failed.
    Failed(Failure),
}

/// A part of an answer by what becomes of it, whatever was asked.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Some of what was asked for.
    Answer(Response),
    /// A line for the standard output.
    Line(String),
    /// Lines that nobody asked for: for the standard error, and nothing has failed.
    Notice(String),
    /// A part that failed; more may follow.
    Warning(Failure),
    /// The end: all is done.
    Done,
    /// The end: refused or failed.
    Failed(Failure),
}

impl Response {
    /// What becomes of it: one list of all answers for those who look for one.
    #[must_use]
    pub fn said(self) -> Said {
        match self {
            Self::Line(line) => Said::Line(line),
            Self::Notice(text) => Said::Notice(text),
            Self::Warning(failure) => Said::Warning(failure),
            Self::Done => Said::Done,
            Self::Failed(failure) => Said::Failed(failure),
            Self::Hello { .. }
            | Self::Pool(_)
            | Self::Status(_)
            | Self::History(_)
            | Self::Vdevs(_)
            | Self::Datasets(_)
            | Self::Holds(_)
            | Self::Grants(_)
            | Self::OwnerSpace(_)
            | Self::StreamSizes(_)
            | Self::SendProgress(_)
            | Self::Diff(_)
            | Self::DeleteQueue(_)
            | Self::KeyRoots(_)
            | Self::Mounted(_)
            | Self::Metrics(_)
            | Self::IoStatistics(_)
            | Self::Events(_)
            | Self::EventsCleared(_) => Said::Answer(self),
        }
    }
}

/// A mounted dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mounted {
    /// The file system.
    pub dataset: String,
    /// Where it is.
    pub path: PathBuf,
}

/// How a pool comes to a new daemon.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OpenRequest {
    /// Make it.
    Create(CreateRequest),
    /// Import it.
    Import(ImportRequest),
}

/// A new pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CreateRequest {
    /// Its name.
    pub name: String,
    /// Its name for now (`-t`).
    pub temporary_name: Option<String>,
    /// Its top-level vdevs.
    pub vdevs: Vec<VdevSpec>,
    /// Pool properties.
    pub properties: Assignments,
    /// Features to enable or leave disabled, against the default.
    pub features: Vec<(String, bool)>,
    /// No feature unless named (`-d`).
    pub without_features: bool,
    /// Properties of the root file system.
    pub dataset_properties: Assignments,
    /// Where everything is mounted below.
    pub altroot: Option<PathBuf>,
    /// Use devices that look used.
    pub force: bool,
    /// Make files of this size where the paths do not exist.
    pub file_size: Option<u64>,
    /// The key of the root file system, if that is a root of encryption.
    pub key: Option<NewKey>,
    /// The command line for the history.
    pub command: String,
}

/// A top-level vdev.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VdevSpec {
    /// What it is for.
    pub class: VdevClass,
    /// What it is made of.
    pub shape: VdevShape,
}

/// What a top-level vdev is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum VdevShape {
    /// One file or disk.
    Leaf(PathBuf),
    /// Copies.
    Mirror(Vec<PathBuf>),
    /// Stripes with so many rows of parity.
    RaidZ(u64, Vec<PathBuf>),
    /// Stripes of a fixed width, spread over all devices.
    Draid {
        /// Columns of parity in a stripe.
        parity: u64,
        /// Columns of data.
        data: u64,
        /// For how many spares there is room on all devices.
        spares: u64,
        /// The devices.
        paths: Vec<PathBuf>,
    },
}

impl VdevSpec {
    /// The files and disks of it.
    #[must_use]
    pub fn leaves(&self) -> &[PathBuf] {
        match &self.shape {
            VdevShape::Leaf(path) => std::slice::from_ref(path),
            VdevShape::Mirror(paths)
            | VdevShape::RaidZ(_, paths)
            | VdevShape::Draid { paths, .. } => paths,
        }
    }
}

/// A pool to import.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImportRequest {
    /// Which.
    pub guid: u64,
    /// Its name as its labels say.
    pub name: String,
    /// Its name from now on.
    pub new_name: Option<String>,
    /// The new name is for now only (`-t`).
    pub temporary: bool,
    /// Directories and devices to look for its vdevs in.
    pub search: Vec<PathBuf>,
    /// No writes at all.
    pub readonly: bool,
    /// Even if it was in use elsewhere.
    pub force: bool,
    /// Go back a few txgs if need be.
    pub rewind: bool,
    /// Go back as far as it takes.
    pub rewind_extreme: bool,
    /// Go back to the checkpoint.
    pub to_checkpoint: bool,
    /// Only try the rewind.
    pub dry_run: bool,
    /// Not beyond this txg.
    pub txg_max: Option<u64>,
    /// A destroyed pool.
    pub destroyed: bool,
    /// Even without its log devices.
    pub missing_log: bool,
    /// Mount nothing.
    pub unmounted: bool,
    /// Where everything is mounted below.
    pub altroot: Option<PathBuf>,
    /// Pool properties.
    pub properties: Assignments,
    /// Why it may be a stranger's, as the end of a sentence about it.
    pub of_stranger: Option<String>,
    /// Mount options.
    pub mount_options: Vec<String>,
    /// The command line for the history.
    pub command: String,
}
