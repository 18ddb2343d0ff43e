//! The one error of the library.

use std::io;

use admin::{Failure, FailureKind};
use inspect::InspectError;
use posix::{Errno, PosixError};

use super::cause::Cause;

/// What most functions of the library return.
pub type Result<T> = std::result::Result<T, Error>;

/// Why something was not done: the variant says what a program can do about it, the text what a person should know,
/// [`Cause`] what it is about, and [`std::error::Error::source`] what is behind it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The pool, dataset, snapshot, file or attribute is not there.
    #[error(transparent)]
    NotFound(Cause),
    /// What would be made is there already.
    #[error(transparent)]
    Exists(Cause),
    /// Someone uses it: another process the pool, this one the dataset.
    #[error(transparent)]
    Busy(Cause),
    /// The one on whose behalf it is done may not.
    #[error(transparent)]
    Permission(Cause),
    /// The pool, the dataset or the snapshot cannot be written.
    #[error(transparent)]
    ReadOnly(Cause),
    /// The pool or dataset is full.
    #[error(transparent)]
    NoSpace(Cause),
    /// A quota is reached.
    #[error(transparent)]
    QuotaExceeded(Cause),
    /// A name, value or combination that makes no sense.
    #[error(transparent)]
    Invalid(Cause),
    /// The name is too long.
    #[error(transparent)]
    NameTooLong(Cause),
    /// A feature, format or operation that is not supported.
    #[error(transparent)]
    Unsupported(Cause),
    /// A directory was needed.
    #[error(transparent)]
    NotADirectory(Cause),
    /// A directory is not accepted here.
    #[error(transparent)]
    IsADirectory(Cause),
    /// The directory has entries.
    #[error(transparent)]
    DirectoryNotEmpty(Cause),
    /// Symbolic links lead to symbolic links without end.
    #[error(transparent)]
    TooManyLinks(Cause),
    /// The file system was rolled back, destroyed or exported since it was opened.
    #[error(transparent)]
    Stale(Cause),
    /// A device failed, or what is on it is damaged.
    #[error(transparent)]
    Damaged(Cause),
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

    /// What it is about and what is behind it.
    #[must_use]
    pub const fn cause(&self) -> &Cause {
        match self {
            Self::NotFound(cause)
            | Self::Exists(cause)
            | Self::Busy(cause)
            | Self::Permission(cause)
            | Self::ReadOnly(cause)
            | Self::NoSpace(cause)
            | Self::QuotaExceeded(cause)
            | Self::Invalid(cause)
            | Self::NameTooLong(cause)
            | Self::Unsupported(cause)
            | Self::NotADirectory(cause)
            | Self::IsADirectory(cause)
            | Self::DirectoryNotEmpty(cause)
            | Self::TooManyLinks(cause)
            | Self::Stale(cause)
            | Self::Damaged(cause) => cause,
        }
    }

    /// An error of a file, by the path that was asked for.
    pub(super) fn of_file(path: &str, error: PosixError) -> Self {
        let errno = error.errno();
        Self::of_errno(errno)(Cause::of(path, Some(errno.0), error))
    }

    /// The variant of an error number.
    fn of_errno(errno: Errno) -> fn(Cause) -> Self {
        match errno {
            Errno::ENOENT | Errno::ENODATA | Errno::ENXIO => Self::NotFound,
            Errno::EEXIST => Self::Exists,
            Errno::EBUSY => Self::Busy,
            Errno::EACCES | Errno::EPERM => Self::Permission,
            Errno::EROFS => Self::ReadOnly,
            Errno::ENOSPC => Self::NoSpace,
            Errno::EDQUOT => Self::QuotaExceeded,
            Errno::ENAMETOOLONG => Self::NameTooLong,
            Errno::EOPNOTSUPP => Self::Unsupported,
            Errno::ENOTDIR => Self::NotADirectory,
            Errno::EISDIR => Self::IsADirectory,
            Errno::ENOTEMPTY => Self::DirectoryNotEmpty,
            Errno::ESTALE => Self::Stale,
            Errno::EIO => Self::Damaged,
            _ => Self::Invalid,
        }
    }

    /// The variant of an error of the host: [`Self::kind`] the other way round.
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the standard library's kinds, of which there may be more"
    )]
    fn of_io(error: &io::Error) -> fn(Cause) -> Self {
        match error.kind() {
            _ if sys::Errno::from_io_error(error) == Some(sys::Errno::LOOP) => Self::TooManyLinks,
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::Exists,
            io::ErrorKind::ResourceBusy => Self::Busy,
            io::ErrorKind::PermissionDenied => Self::Permission,
            io::ErrorKind::ReadOnlyFilesystem => Self::ReadOnly,
            io::ErrorKind::StorageFull => Self::NoSpace,
            io::ErrorKind::QuotaExceeded => Self::QuotaExceeded,
            io::ErrorKind::InvalidInput => Self::Invalid,
            io::ErrorKind::InvalidFilename => Self::NameTooLong,
            io::ErrorKind::Unsupported => Self::Unsupported,
            io::ErrorKind::NotADirectory => Self::NotADirectory,
            io::ErrorKind::IsADirectory => Self::IsADirectory,
            io::ErrorKind::DirectoryNotEmpty => Self::DirectoryNotEmpty,
            io::ErrorKind::StaleNetworkFileHandle => Self::Stale,
            _ => Self::Damaged,
        }
    }

    /// The variant by what a caller can do about it.
    fn of_kind(kind: FailureKind) -> fn(Cause) -> Self {
        match kind {
            FailureKind::Missing => Self::NotFound,
            FailureKind::Exists => Self::Exists,
            FailureKind::Busy => Self::Busy,
            FailureKind::Permission => Self::Permission,
            FailureKind::Space => Self::NoSpace,
            FailureKind::ReadOnly => Self::ReadOnly,
            FailureKind::Usage | FailureKind::Invalid => Self::Invalid,
            FailureKind::Unsupported => Self::Unsupported,
            FailureKind::Medium | FailureKind::Service => Self::Damaged,
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
        // What a command line would advise is not for programs.
        let (name, text) = (failure.name.clone(), failure.whole_cause());
        let cause = match failure.os_error {
            Some(number) => Cause::of_host(name, text, number),
            None => Cause::about(name, text),
        };
        Self::of_kind(failure.kind)(cause)
    }
}

impl From<InspectError> for Error {
    fn from(error: InspectError) -> Self {
        let mut os_error = None;
        let make: fn(Cause) -> Self = match &error {
            InspectError::NoPool(_)
            | InspectError::NoSuchPool { .. }
            | InspectError::NoDataset(_)
            | InspectError::NoFile { .. } => Self::NotFound,
            InspectError::File { source, .. }
            | InspectError::Destination { source, .. }
            | InspectError::Output(source) => {
                os_error = source.raw_os_error();
                Self::of_io(source)
            }
            InspectError::Device(device) => Self::of_kind(control::kind_of_device(device)),
            InspectError::Files { source, .. } => {
                os_error = Some(source.errno().0);
                Self::of_errno(source.errno())
            }
            InspectError::Usage(_)
            | InspectError::SeveralPools(_)
            | InspectError::WrongKind { .. }
            | InspectError::OtherPool { .. } => Self::Invalid,
            InspectError::UnsupportedVdev { .. }
            | InspectError::Encrypted(_)
            | InspectError::Locked { .. }
            | InspectError::UnknownFeatures { .. } => Self::Unsupported,
            InspectError::NoUberblock { .. }
            | InspectError::Read(_)
            | InspectError::Format { .. }
            | InspectError::Stream { .. }
            | InspectError::NoObject { .. }
            | InspectError::NoEntry(_) => Self::Damaged,
        };
        make(Cause::because(error.to_string(), None, os_error, error))
    }
}
