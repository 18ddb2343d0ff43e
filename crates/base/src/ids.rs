//! Ids and positions as types, so that no two kinds of number can be mixed up.

use std::fmt;

macro_rules! number_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }
    };
}

number_type!(
    /// A transaction group number. A new pool's first is 4; 0 means "none".
    Txg
);
number_type!(
    /// An object number inside one object set; 0 means "none". Below 2^48 for real objects.
    ObjectId
);
number_type!(
    /// The MOS object number of a dataset, which names its object set; 0 is the MOS itself.
    ObjectSetId
);
number_type!(
    /// The index of a top-level vdev in the pool (24 bits in a DVA).
    VdevId
);
number_type!(
    /// A random 64-bit identity of a pool, vdev, dataset or snapshot.
    Guid
);

impl Txg {
    /// The first txg of a new pool.
    pub const INITIAL: Self = Self(4);
    /// How many txgs can be in flight at once, rounded to the per-txg array size.
    pub const SLOTS: usize = 4;

    /// The next txg.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }

    /// The previous txg, or 0.
    #[must_use]
    pub const fn previous(self) -> Self {
        Self(self.0.saturating_sub(1))
    }

    /// This txg's place in a per-txg array of [`Txg::SLOTS`].
    #[must_use]
    pub const fn slot(self) -> usize {
        (self.0 % Self::SLOTS as u64) as usize
    }
}

impl ObjectSetId {
    /// The meta object set.
    pub const MOS: Self = Self(0);
}
