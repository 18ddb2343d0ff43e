//! How a connection is served.

/// How a connection is served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOptions {
    /// Threads that read requests; 0: as many as there are cores, and at least 2.
    pub readers: usize,
    /// The kernel gathers writes, and owns sizes and times of files: faster for small writes.
    pub writeback_cache: bool,
    /// The kernel checks POSIX ACLs, which it reads as extended attributes.
    pub posix_acl: bool,
}
