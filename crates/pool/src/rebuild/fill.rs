//! The two ways in which a new device is filled.

/// How a new device gets what the others have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// Block by block, each of them verified.
    #[default]
    Healing,
    /// In the order of places, without looking at blocks.
    Sequential,
}
