//! The one error of the library.

use std::io;

use admin::{Failure, FailureKind};
use inspect::InspectError;
use posix::{Errno, PosixError};

/// What most functions of the library return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done: the variant says what a program can do about it, the text what a person should know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool, dataset, snapshot, file or attribute is not there.
    #[error("{0}")]
    NotFound(String),
    /// What would be made is there already.
    #[error("{0}")]
    Exists(String),
    /// Someone uses it: another process the pool, this one the dataset.
    #[error("{0}")]
    Busy(String),
    /// The one on whose behalf it is done may not.
    #[error("{0}")]
    Permission(String),
    /// The pool, the dataset or the snapshot cannot be written.
    #[error("{0}")]
    ReadOnly(String),
    /// The pool or dataset is full.
    #[error("{0}")]
    NoSpace(String),
    /// A quota is reached.
    #[error("{0}")]
    QuotaExceeded(String),
    /// A name, value or combination that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// The name is too long.
    #[error("{0}")]
    NameTooLong(String),
    /// A feature, format or operation that is not supported.
    #[error("{0}")]
    Unsupported(String),
    /// A directory was needed.
    #[error("{0}")]
    NotADirectory(String),
    /// A directory is not accepted here.
    #[error("{0}")]
    IsADirectory(String),
    /// The directory has entries.
    #[error("{0}")]
    DirectoryNotEmpty(String),
    /// Symbolic links lead to symbolic links without end.
    #[error("{0}")]
    TooManyLinks(String),
    /// The file system was rolled back, destroyed or exported since it was opened.
    #[error("{0}")]
    Stale(String),
    /// A device failed, or what is on it is damaged.
    #[error("{0}")]
    Damaged(String),
}

impl Error {
    /// The nearest kind of the standard library.
    #[must_use]
    pub const fn kind(&self) -> io::ErrorKind {
        match self {
            Self::NotFound(_) => io::ErrorKind::NotFound,
            Self::Exists(_) => io::ErrorKind::AlreadyExists,
            Self::Busy(_) => io::ErrorKind::ResourceBusy,
            Self::Permission(_) => io::ErrorKind::PermissionDenied,
            Self::ReadOnly(_) => io::ErrorKind::ReadOnlyFilesystem,
            Self::NoSpace(_) => io::ErrorKind::StorageFull,
            Self::QuotaExceeded(_) => io::ErrorKind::QuotaExceeded,
            Self::Invalid(_) => io::ErrorKind::InvalidInput,
            Self::NameTooLong(_) => io::ErrorKind::InvalidFilename,
            Self::Unsupported(_) => io::ErrorKind::Unsupported,
            Self::NotADirectory(_) => io::ErrorKind::NotADirectory,
            Self::IsADirectory(_) => io::ErrorKind::IsADirectory,
            Self::DirectoryNotEmpty(_) => io::ErrorKind::DirectoryNotEmpty,
            Self::TooManyLinks(_) | Self::Damaged(_) => io::ErrorKind::Other,
            Self::Stale(_) => io::ErrorKind::StaleNetworkFileHandle,
        }
    }

    /// An error of a file, by the path that was asked for.
    pub(super) fn of_file(path: &dyn std::fmt::Display, error: &PosixError) -> Self {
        Self::of_errno(error.errno(), format!("{path}: {error}"))
    }

    fn of_errno(errno: Errno, text: String) -> Self {
        match errno {
            Errno::ENOENT | Errno::ENODATA | Errno::ENXIO => Self::NotFound(text),
            Errno::EEXIST => Self::Exists(text),
            Errno::EBUSY => Self::Busy(text),
            Errno::EACCES | Errno::EPERM => Self::Permission(text),
            Errno::EROFS => Self::ReadOnly(text),
            Errno::ENOSPC => Self::NoSpace(text),
            Errno::EDQUOT => Self::QuotaExceeded(text),
            Errno::ENAMETOOLONG => Self::NameTooLong(text),
            Errno::EOPNOTSUPP => Self::Unsupported(text),
            Errno::ENOTDIR => Self::NotADirectory(text),
            Errno::EISDIR => Self::IsADirectory(text),
            Errno::ENOTEMPTY => Self::DirectoryNotEmpty(text),
            Errno::ESTALE => Self::Stale(text),
            Errno::EIO => Self::Damaged(text),
            _ => Self::Invalid(text),
        }
    }

    /// An error of the host: [`Self::kind`] the other way round.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the standard library's kinds, of which there may be more"
    )]
    fn of_io(error: &io::Error, text: String) -> Self {
        match error.kind() {
            _ if sys::Errno::from_io_error(error) == Some(sys::Errno::LOOP) => {
                Self::TooManyLinks(text)
            }
            io::ErrorKind::NotFound => Self::NotFound(text),
            io::ErrorKind::AlreadyExists => Self::Exists(text),
            io::ErrorKind::ResourceBusy => Self::Busy(text),
            io::ErrorKind::PermissionDenied => Self::Permission(text),
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly(text),
            io::ErrorKind::StorageFull => Self::NoSpace(text),
            io::ErrorKind::QuotaExceeded => Self::QuotaExceeded(text),
            io::ErrorKind::InvalidInput => Self::Invalid(text),
            io::ErrorKind::InvalidFilename => Self::NameTooLong(text),
            io::ErrorKind::Unsupported => Self::Unsupported(text),
            io::ErrorKind::NotADirectory => Self::NotADirectory(text),
            io::ErrorKind::IsADirectory => Self::IsADirectory(text),
            io::ErrorKind::DirectoryNotEmpty => Self::DirectoryNotEmpty(text),
            io::ErrorKind::StaleNetworkFileHandle => Self::Stale(text),
            _ => Self::Damaged(text),
        }
    }

    /// An error by what a caller can do about it.
    fn of_kind(kind: FailureKind, text: String) -> Self {
        match kind {
            FailureKind::Missing => Self::NotFound(text),
            FailureKind::Exists => Self::Exists(text),
            FailureKind::Busy => Self::Busy(text),
            FailureKind::Permission => Self::Permission(text),
            FailureKind::Space => Self::NoSpace(text),
            FailureKind::ReadOnly => Self::ReadOnly(text),
            FailureKind::Usage | FailureKind::Invalid => Self::Invalid(text),
            FailureKind::Unsupported => Self::Unsupported(text),
            FailureKind::Medium | FailureKind::Service => Self::Damaged(text),
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.kind(), error)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::of_kind(failure.kind, failure.to_string())
    }
}

impl From<InspectError> for Error {
    fn from(error: InspectError) -> Self {
        let text = error.to_string();
        match error {
            InspectError::NoPool(_)
            | InspectError::NoSuchPool { .. }
            | InspectError::NoDataset(_)
            | InspectError::NoFile { .. } => Self::NotFound(text),
            InspectError::File { source, .. }
            | InspectError::Destination { source, .. }
            | InspectError::Output(source) => Self::of_io(&source, text),
            InspectError::Device(error) => Self::of_kind(control::kind_of_device(&error), text),
            InspectError::Files { source, .. } => Self::of_errno(source.errno(), text),
            InspectError::Usage(_)
            | InspectError::SeveralPools(_)
            | InspectError::WrongKind { .. }
            | InspectError::OtherPool { .. } => Self::Invalid(text),
            InspectError::UnsupportedVdev { .. }
            | InspectError::Encrypted(_)
            | InspectError::UnknownFeatures { .. } => Self::Unsupported(text),
            InspectError::NoUberblock { .. }
            | InspectError::Read(_)
            | InspectError::Format { .. }
            | InspectError::NoObject { .. }
            | InspectError::NoEntry(_) => Self::Damaged(text),
        }
    }
}
