//! Datasets and snapshots: directories, dead lists, properties, space accounting.
//!
//! Purpose: the tree of datasets inside a pool's own object set, and every change of it. Changes
//! are tasks that run in syncing context, many to a txg. Called by `pool`, which supplies
//! [`Services`], and by whoever lists or opens datasets. Must not know files, devices or commands.

mod bpobj;
mod deadlist;
mod error;
mod mos;
pub mod name;
mod policy;
mod services;
mod sizes;

pub use bpobj::Bpobj;
pub use deadlist::Deadlist;
pub use error::{DslError, Result};
pub use mos::Mos;
pub use policy::StoragePolicy;
pub use services::{HistoryEvent, Services, SpaceClass, SyncPass, WriterSource};
pub use sizes::Sizes;
