//! The kinds of top-level vdevs, as far as the places of bytes depend on them.

use crate::{Draid, RaidZ};

/// How the children of a vdev share what it holds. What places of bytes depend on (the parity and the width of a
/// RAID-Z) belongs into the variant. How many sides a mirror has does not, as it changes with attaching and detaching:
/// whoever asks says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One disk or file.
    Single,
    /// Each child holds all of it. Replacing and spare vdevs are mirrors too.
    Mirror,
    /// Each block is a stripe over some or all children, with parity.
    RaidZ(RaidZ),
    /// Each block is in stripes of a fixed width over some of the children, with parity; the room of spares is spread
    /// over all.
    Draid(Draid),
    /// It was removed: what it held lies on other vdevs, where a mapping says.
    Indirect,
}

impl Kind {
    /// How many of `children` may lack a block that can be read all the same.
    #[must_use]
    pub const fn tolerance(&self, children: usize) -> usize {
        match self {
            Self::Single | Self::Indirect => 0,
            Self::Mirror => children.saturating_sub(1),
            Self::RaidZ(raidz) => raidz.parity(),
            Self::Draid(draid) => draid.parity(),
        }
    }

    /// Whether every child has every byte, and there are children.
    #[must_use]
    pub const fn is_copies(&self) -> bool {
        match self {
            Self::Single | Self::Mirror => true,
            Self::RaidZ(_) | Self::Draid(_) | Self::Indirect => false,
        }
    }

    /// The RAID-Z, if it is one: only these get further children.
    #[must_use]
    pub(crate) const fn raidz(&self) -> Option<&RaidZ> {
        match self {
            Self::RaidZ(raidz) => Some(raidz),
            Self::Single | Self::Mirror | Self::Draid(_) | Self::Indirect => None,
        }
    }
}
