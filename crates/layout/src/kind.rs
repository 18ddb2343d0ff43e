//! The kinds of top-level vdevs, as far as the places of bytes depend on them.

use crate::RaidZ;

/// How the children of a vdev share what it holds. What places of bytes depend on (the parity and the width of a
/// RAID-Z) belongs into the variant. How many sides a mirror has does not, as it changes with attaching and detaching:
/// whoever asks says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One disk or file.
    Single,
    /// Each child holds all of it. Replacing and spare vdevs are mirrors too.
    Mirror,
    /// Each block is a stripe over some or all children, with parity.
    RaidZ(RaidZ),
}

impl Kind {
    /// How many of `children` may lack a block that can be read all the same.
    #[must_use]
    pub const fn tolerance(self, children: usize) -> usize {
        match self {
            Self::Single => 0,
            Self::Mirror => children.saturating_sub(1),
            Self::RaidZ(raidz) => raidz.parity(),
        }
    }
}
