//! Error numbers that only the protocol layer answers with.

use posix::Errno;

/// A signal came.
pub(crate) const EINTR: Errno = Errno(4);
/// Inappropriate call for this node.
pub(crate) const ENOTTY: Errno = Errno(25);
/// Not offered: the kernel stops asking.
pub(crate) const ENOSYS: Errno = Errno(38);
/// The peer speaks another protocol.
pub(crate) const EPROTO: Errno = Errno(71);
