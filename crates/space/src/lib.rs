//! Free space: range sets, metaslabs and the allocation policy.
//!
//! [`PoolSpace`] is what the pool holds: it allocates and frees [`Extent`]s, writes each txg's changes to space maps
//! through a [`SpaceStore`], and keeps freed space from use for two txgs more that
//! are written.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod error;
mod free_space;
mod lists;
mod metaslab;
mod pool_space;
mod range_set;
mod segments;
mod store;
mod trim;
pub mod tunables;
mod vdev_space;

pub use error::SpaceError;
pub use metaslab::{DEFER_TXGS, TrimSizes};
pub use pool_space::{COPIES_MAX, Extent, Loaded, PoolSpace, Request, allocators_of_machine};
pub use range_set::{Pending, RangeSet};
pub use store::{MapAppend, MapContents, SpaceStore, StoreError};
pub use trim::{TrimStep, Trimming};
pub use vdev_space::{ClassKind, MetaslabInfo, VdevGeometry, VdevSpace};
