//! What is measured rather than stored: of each table the figures that its rows ask for.

use super::table::dataset::Figure;
use super::table::pool::PoolFigure;
use super::table::vdev::VdevFigure;

/// The figure of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// None.
    No,
    /// Of a dataset.
    Dataset(Figure),
    /// Of a pool.
    Pool(PoolFigure),
    /// Of a vdev.
    Vdev(VdevFigure),
}

impl Measured {
    /// The figure of a dataset's property.
    #[must_use]
    pub const fn dataset(self) -> Option<Figure> {
        match self {
            Self::Dataset(figure) => Some(figure),
            Self::No | Self::Pool(_) | Self::Vdev(_) => None,
        }
    }

    /// The figure of a pool's property.
    #[must_use]
    pub const fn pool(self) -> Option<PoolFigure> {
        match self {
            Self::Pool(figure) => Some(figure),
            Self::No | Self::Dataset(_) | Self::Vdev(_) => None,
        }
    }

    /// The figure of a vdev's property.
    #[must_use]
    pub const fn vdev(self) -> Option<VdevFigure> {
        match self {
            Self::Vdev(figure) => Some(figure),
            Self::No | Self::Dataset(_) | Self::Pool(_) => None,
        }
    }
}
