//! Properties: the table of all of them, the values stored at a dataset, and the effective ones
//! with their source.
//!
//! Invariant: what a property is stands in its row ([`Row`]) and nowhere else.
//!
//! What rows consist of and the tables of them know no datasets; `look_up` and `set` do. Effective values are looked up
//! through the chain of parents and kept with the layer's stamp; a set anywhere makes a new stamp, and nobody needs to
//! be told.

mod cache;
mod effective;
mod facts;
mod figure;
mod key_location;
mod look_up;
mod row;
mod set;
mod stored;
mod table;
mod typed;
mod value;
mod words;

pub(crate) use cache::EffectiveCache;
pub use effective::{Effective, Got, Source};
pub use facts::{
    Access, Default, Effect, Home, Kind, MountOption, Need, Number, Range, Requirement, Shown,
    Support, TextRule, Types, Unsupported, Values, Word,
};
pub use figure::{Figure, Measured, PoolFigure, VdevFigure};
pub use key_location::KeyLocation;
pub use row::{Property, Row};
pub use set::{PropertyChange, SetProperties};
pub(crate) use set::{clear_local, set_local, set_snapshot_local};
pub use stored::StoredProperty;
pub use table::dataset::DATASET_PROPERTIES;
pub use table::pool::POOL_PROPERTIES;
pub use table::vdev::VDEV_PROPERTIES;
pub use table::{dataset, pool, vdev};
pub use typed::{PropertyType, Shape};
pub use value::PropertyValue;
pub use words::{
    AclInherit, AclMode, AclType, CachePolicy, CanMount, CaseRule, DirectPolicy, FailMode, LogBias,
    RedundantMetadata, SnapshotDevices, SnapshotDirectory, SyncPolicy, VolumeMode, XattrPolicy,
};
