//! The kinds of top-level vdevs, as far as the places of bytes depend on them.

use format::config::vdev_types;

/// How the children of a vdev share what it holds. What a kind needs to know of its geometry when it is created (a
/// RAID-Z its parity and its first width) belongs into the variant; how many children there are now does not, as it
/// changes with attaching and detaching: whoever asks says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// One disk or file.
    Single,
    /// Each child holds all of it. Replacing and spare vdevs are mirrors too.
    Mirror,
}

impl Kind {
    /// The kind of a vdev whose configuration has this type; none where it is not known, or no place for blocks.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            vdev_types::DISK | vdev_types::FILE => Some(Self::Single),
            vdev_types::MIRROR | vdev_types::REPLACING | vdev_types::SPARE => Some(Self::Mirror),
            _ => None,
        }
    }

    /// How many of `children` may lack a block that can be read all the same.
    #[must_use]
    pub const fn tolerance(self, children: usize) -> usize {
        match self {
            Self::Single => 0,
            Self::Mirror => children.saturating_sub(1),
        }
    }
}
