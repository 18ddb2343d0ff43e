//! What can go wrong, each in one line that names the thing and the next step.

use std::path::PathBuf;

use base::{Bookmark, ObjectId};
use device::DeviceError;
use format::FormatError;
use pipeline::ReadError;

/// A shorthand.
pub(crate) type Result<T> = std::result::Result<T, InspectError>;

/// Why an inspection could not be done.
#[derive(Debug, thiserror::Error)]
pub enum InspectError {
    /// The command line makes no sense.
    #[error("{0}")]
    Usage(String),
    /// A path cannot be looked at.
    #[error("{}: {}", path.display(), base::host_reason(source))]
    File {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A device cannot be opened or read.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// No label anywhere.
    #[error("no pool found in {0}; name images, disks, or the directory that holds them")]
    NoPool(String),
    /// No label of that pool.
    #[error("no pool '{wanted}' found; there is: {found}")]
    NoSuchPool {
        /// What was asked for.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// Several pools, and none was named.
    #[error("several pools found ({0}); name one")]
    SeveralPools(String),
    /// The pool has a kind of vdev that cannot be read yet.
    #[error("vdev {id} is of type '{kind}', which cannot be read yet")]
    UnsupportedVdev {
        /// Which top-level vdev.
        id: u64,
        /// Its type.
        kind: String,
    },
    /// No uberblock leads to a readable meta object set.
    #[error("pool '{pool}': none of {tried} uberblocks leads to readable metadata{}", last.as_deref().map(|error| format!(" (newest: {error})")).unwrap_or_default())]
    NoUberblock {
        /// The pool.
        pool: String,
        /// How many were tried.
        tried: usize,
        /// What was wrong with the newest.
        last: Option<Box<InspectError>>,
    },
    /// A block cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A block was read but does not hold what it should.
    #[error("{place}: {source}")]
    Format {
        /// Where.
        place: Bookmark,
        /// What is wrong.
        source: FormatError,
    },
    /// There is no such object.
    #[error("object set {set} has no object {object}")]
    NoObject {
        /// The object set.
        set: u64,
        /// The object.
        object: ObjectId,
    },
    /// A required entry is missing from the pool's directory.
    #[error("the meta object set has no '{0}'")]
    NoEntry(&'static str),
    /// There is no dataset of that name.
    #[error("dataset '{0}' does not exist")]
    NoDataset(String),
    /// There is no file of that name.
    #[error("{path}: no such file or directory")]
    NoFile {
        /// The path, in the dataset.
        path: String,
    },
    /// What is there is of the wrong kind.
    #[error("{path}: {problem}")]
    WrongKind {
        /// The path.
        path: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// The path leads into another pool than the one on the images.
    #[error(
        "there is no pool '{wanted}' here, it is '{pool}': say {pool}/..., or /PATH in its root dataset"
    )]
    OtherPool {
        /// The pool on the images.
        pool: String,
        /// What was asked for.
        wanted: String,
    },
    /// A dataset that only its key opens.
    #[error("{0}: it is encrypted, and no key was given")]
    Encrypted(String),
    /// A dataset whose key was asked for in vain.
    #[error("{dataset}: it is encrypted: {reason}")]
    Locked {
        /// The dataset.
        dataset: String,
        /// Why there is no key.
        reason: String,
    },
    /// Features that nothing here knows are active.
    #[error("pool '{pool}' uses features that are not known here: {features}")]
    UnknownFeatures {
        /// The pool.
        pool: String,
        /// Their names.
        features: String,
    },
    /// A file operation failed.
    #[error("{path}: {source}")]
    Files {
        /// The path, with its dataset.
        path: String,
        /// Why.
        source: posix::PosixError,
    },
    /// What is to be written cannot be.
    #[error("{}: {source}", path.display())]
    Destination {
        /// The path.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// What a file has is not as a sender makes it.
    #[error("{}: {source}", path.display())]
    Stream {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: stream::StreamError,
    },
    /// The output is closed.
    #[error("output: {0}")]
    Output(#[source] std::io::Error),
}

impl InspectError {
    /// The process's exit status: 2 for a wrong command line, 1 otherwise.
    #[must_use]
    pub const fn exit_status(&self) -> u8 {
        if matches!(self, Self::Usage(_)) { 2 } else { 1 }
    }

    /// Whether nothing is wrong but that nobody reads the output any more.
    #[must_use]
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}
