//! What can go wrong in a file operation, and the one place where it becomes an errno.

use base::ObjectId;

/// The result of a file operation.
pub type Result<T, E = PosixError> = std::result::Result<T, E>;

/// An error number as Linux numbers them; what a front end sends back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Errno(pub i32);

impl Errno {
    /// Operation not permitted.
    pub const EPERM: Self = Self(1);
    /// No such file or directory.
    pub const ENOENT: Self = Self(2);
    /// Input/output error.
    pub const EIO: Self = Self(5);
    /// No such device or address.
    pub const ENXIO: Self = Self(6);
    /// Argument list too long.
    pub const E2BIG: Self = Self(7);
    /// Bad file descriptor.
    pub const EBADF: Self = Self(9);
    /// Permission denied.
    pub const EACCES: Self = Self(13);
    /// Device or resource busy.
    pub const EBUSY: Self = Self(16);
    /// File exists.
    pub const EEXIST: Self = Self(17);
    /// Invalid cross-device link.
    pub const EXDEV: Self = Self(18);
    /// Not a directory.
    pub const ENOTDIR: Self = Self(20);
    /// Is a directory.
    pub const EISDIR: Self = Self(21);
    /// Invalid argument.
    pub const EINVAL: Self = Self(22);
    /// Text file busy.
    pub const ETXTBSY: Self = Self(26);
    /// File too large.
    pub const EFBIG: Self = Self(27);
    /// No space left on device.
    pub const ENOSPC: Self = Self(28);
    /// Read-only file system.
    pub const EROFS: Self = Self(30);
    /// Too many links.
    pub const EMLINK: Self = Self(31);
    /// Numerical result out of range.
    pub const ERANGE: Self = Self(34);
    /// File name too long.
    pub const ENAMETOOLONG: Self = Self(36);
    /// Directory not empty.
    pub const ENOTEMPTY: Self = Self(39);
    /// Too many levels of symbolic links.
    pub const ELOOP: Self = Self(40);
    /// No data available.
    pub const ENODATA: Self = Self(61);
    /// Illegal byte sequence.
    pub const EILSEQ: Self = Self(84);
    /// Operation not supported.
    pub const EOPNOTSUPP: Self = Self(95);
    /// Stale file handle.
    pub const ESTALE: Self = Self(116);
    /// Disk quota exceeded.
    pub const EDQUOT: Self = Self(122);
}

/// Which structure of an object did not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corruption {
    /// The master node, or something it names.
    MasterNode,
    /// The registry or the layouts of system attributes.
    AttributeRegistry,
    /// The bonus or spill block of a file does not follow its layout.
    SystemAttributes,
    /// An attribute that every file has is not there.
    MissingAttribute(&'static str),
    /// The old fixed-form znode.
    Znode,
    /// A directory entry points nowhere or is malformed.
    DirectoryEntry,
    /// The object is not of the kind that its place demands.
    ObjectKind,
    /// The packed list of extended attributes.
    ExtendedAttributes,
    /// An access control list.
    AccessControlList,
    /// The table of identity domains.
    IdentityTable,
    /// A symbolic link without a readable target.
    SymbolicLink,
    /// A quota table.
    Quota,
}

/// Why a file operation did not happen.
#[derive(Debug, thiserror::Error)]
pub enum PosixError {
    /// No entry of that name, or no such object.
    #[error("no such file or directory")]
    NotFound,
    /// The name is taken.
    #[error("file exists")]
    Exists,
    /// A directory was needed.
    #[error("not a directory")]
    NotDirectory,
    /// A directory is not accepted here.
    #[error("is a directory")]
    IsDirectory,
    /// The directory has entries.
    #[error("directory not empty")]
    NotEmpty,
    /// The mode or an access control list forbids it.
    #[error("permission denied")]
    AccessDenied,
    /// Only the owner, a privileged caller, or nobody may do this.
    #[error("operation not permitted: {0}")]
    NotPermitted(&'static str),
    /// The file system, or the snapshot, is mounted read-only.
    #[error("read-only file system")]
    ReadOnly,
    /// The pool or the dataset has no room.
    #[error("no space left")]
    NoSpace,
    /// A quota of the dataset, user, group or project is reached.
    #[error("quota exceeded")]
    QuotaExceeded,
    /// The name is longer than the file system allows.
    #[error("name too long")]
    NameTooLong,
    /// The name is not valid UTF-8 and the file system demands it.
    #[error("name is not valid UTF-8")]
    InvalidName,
    /// The request contradicts itself or the object.
    #[error("invalid argument: {0}")]
    Invalid(&'static str),
    /// The link count would overflow.
    #[error("too many links")]
    TooManyLinks,
    /// The names lie in different trees.
    #[error("cross-device link")]
    CrossDevice,
    /// Beyond the largest file offset.
    #[error("file too large")]
    FileTooLarge,
    /// No extended attribute of that name.
    #[error("no such attribute")]
    NoAttribute,
    /// The extended attribute's value is too large.
    #[error("attribute value too large")]
    AttributeTooLarge,
    /// The buffer offered is smaller than the answer.
    #[error("result does not fit the buffer")]
    OutOfRange,
    /// Not offered on this file system or this kind of file.
    #[error("not supported: {0}")]
    NotSupported(&'static str),
    /// The object was freed, or its number means another file now.
    #[error("stale file handle")]
    Stale,
    /// In use.
    #[error("busy")]
    Busy,
    /// No data or hole at or after the offset.
    #[error("no such offset")]
    NoSuchOffset,
    /// The handle was not opened for this.
    #[error("bad file handle")]
    BadHandle,
    /// A block could not be read or written, or an object is not what it should be.
    #[error(transparent)]
    Storage(dmu::DmuError),
    /// The file system was taken out of service: its last changes could not be written.
    #[error("the last changes could not be written")]
    Unwritten,
    /// The pool does not write any more.
    #[error(transparent)]
    Stopped(#[from] txg::TxgError),
    /// The intent log cannot be written or replayed.
    #[error(transparent)]
    Log(#[from] intent::IntentError),
    /// A structure on the medium does not decode.
    #[error("object {}: damaged: {what:?}", object.0)]
    Corrupt {
        /// The object that holds the structure.
        object: ObjectId,
        /// Which structure.
        what: Corruption,
    },
}

impl PosixError {
    /// Whether what is stored is damaged for good, as far as can be told.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_damage(),
            Self::Corrupt { .. } => true,
            Self::NotFound
            | Self::Exists
            | Self::NotDirectory
            | Self::IsDirectory
            | Self::NotEmpty
            | Self::AccessDenied
            | Self::NotPermitted(_)
            | Self::ReadOnly
            | Self::NoSpace
            | Self::QuotaExceeded
            | Self::NameTooLong
            | Self::InvalidName
            | Self::Invalid(_)
            | Self::TooManyLinks
            | Self::CrossDevice
            | Self::FileTooLarge
            | Self::NoAttribute
            | Self::AttributeTooLarge
            | Self::OutOfRange
            | Self::NotSupported(_)
            | Self::Stale
            | Self::Busy
            | Self::NoSuchOffset
            | Self::BadHandle
            | Self::Unwritten
            | Self::Stopped(_)
            | Self::Log(_) => false,
        }
    }

    /// The same of an object that a name led to: one freed between both looks had lost the name before.
    pub(crate) fn of_named_object(self) -> Self {
        if let Self::Stale = self {
            Self::NotFound
        } else {
            self
        }
    }

    /// The error number that a front end answers with.
    pub fn errno(&self) -> Errno {
        match self {
            Self::NotFound => Errno::ENOENT,
            Self::Exists => Errno::EEXIST,
            Self::NotDirectory => Errno::ENOTDIR,
            Self::IsDirectory => Errno::EISDIR,
            Self::NotEmpty => Errno::ENOTEMPTY,
            Self::AccessDenied => Errno::EACCES,
            Self::NotPermitted(_) => Errno::EPERM,
            Self::ReadOnly => Errno::EROFS,
            Self::NoSpace => Errno::ENOSPC,
            Self::QuotaExceeded => Errno::EDQUOT,
            Self::NameTooLong => Errno::ENAMETOOLONG,
            Self::InvalidName => Errno::EILSEQ,
            Self::Invalid(_) => Errno::EINVAL,
            Self::TooManyLinks => Errno::EMLINK,
            Self::CrossDevice => Errno::EXDEV,
            Self::FileTooLarge => Errno::EFBIG,
            Self::NoAttribute => Errno::ENODATA,
            Self::AttributeTooLarge => Errno::E2BIG,
            Self::OutOfRange => Errno::ERANGE,
            Self::NotSupported(_) => Errno::EOPNOTSUPP,
            Self::Stale => Errno::ESTALE,
            Self::Busy => Errno::EBUSY,
            Self::NoSuchOffset => Errno::ENXIO,
            Self::BadHandle => Errno::EBADF,
            Self::Corrupt { .. }
            | Self::Storage(_)
            | Self::Unwritten
            | Self::Stopped(_)
            | Self::Log(_) => Errno::EIO,
        }
    }
}

impl From<dmu::DmuError> for PosixError {
    fn from(error: dmu::DmuError) -> Self {
        use dmu::DmuError;
        match error {
            DmuError::EntryExists { .. } => Self::Exists,
            DmuError::NoSuchEntry { .. } => Self::NotFound,
            DmuError::ReadOnly { .. } => Self::ReadOnly,
            DmuError::ZapFull { .. } => Self::NoSpace,
            DmuError::Read { .. }
            | DmuError::Write { .. }
            | DmuError::Corrupt { .. }
            | DmuError::NoSuchObject { .. }
            | DmuError::ObjectInUse { .. }
            | DmuError::Unsuitable { .. }
            | DmuError::Interrupted { .. } => Self::Storage(error),
        }
    }
}

impl From<dmu::TxError> for PosixError {
    fn from(error: dmu::TxError) -> Self {
        match error {
            dmu::TxError::NoSpace => Self::NoSpace,
            dmu::TxError::Quota => Self::QuotaExceeded,
            dmu::TxError::Engine(error) => Self::Stopped(error),
        }
    }
}
