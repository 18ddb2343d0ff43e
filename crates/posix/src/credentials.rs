//! Who asks, and what they ask for.

use std::sync::Arc;

/// The identity of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Primary group: group of new files.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Arc<[u32]>,
    /// May do everything, as root may.
    pub privileged: bool,
}

impl Credentials {
    /// Credentials of `uid` in `gid`, without supplementary groups; uid 0 is privileged.
    pub fn new(uid: u32, gid: u32) -> Self {
        Self {
            uid,
            gid,
            groups: Arc::from([]),
            privileged: uid == 0,
        }
    }

    /// The same with supplementary groups.
    #[must_use]
    pub fn with_groups(mut self, groups: &[u32]) -> Self {
        self.groups = Arc::from(groups);
        self
    }

    /// Root.
    pub fn root() -> Self {
        Self::new(0, 0)
    }

    /// Whether the caller is in `gid`, primary or supplementary.
    pub fn is_in_group(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }
}

/// What is asked for, as in `access(2)`: any combination.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(pub u32);

impl Access {
    /// Only existence.
    pub const NONE: Self = Self(0);
    /// Execute a file, search a directory.
    pub const EXECUTE: Self = Self(1);
    /// Write.
    pub const WRITE: Self = Self(2);
    /// Read.
    pub const READ: Self = Self(4);

    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of `other` is asked.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}
