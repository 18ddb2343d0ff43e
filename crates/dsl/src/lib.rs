//! Datasets and snapshots: directories, deadlists, properties, space accounting.
//!
//! Purpose: the tree of datasets inside a pool's own object set, and every change of it. Changes
//! are tasks that run in syncing context, many to a txg. Called by `pool`, which supplies
//! [`Services`], and by whoever lists or opens datasets. Must not know files, devices or commands.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod actor;
mod admission;
mod bpobj;
mod dataset;
mod deadlist;
mod delegation;
mod directory;
mod error;
mod free;
mod key_loading;
mod keys;
mod layer;
mod livelist;
mod mos;
pub mod name;
mod new_pool;
mod policy;
mod primary_cache;
pub mod property;
pub mod records;
mod redaction;
mod registry;
mod services;
mod sizes;
mod sync;
mod task;
pub mod tasks;
pub mod tunables;
pub mod volume;

pub use actor::Actor;
pub use admission::HeadAdmission;
pub use bpobj::{Bpobj, NamedList, Taken};
pub use dataset::{
    Bookmark, Dataset, DatasetFeature, DatasetSpace, Hold, LongHold, ResumePoint, ResumeState,
};
pub use deadlist::Deadlist;
pub use delegation::{ChangeGrants, Grant};
pub use directory::key_creation::{NewEncryption, NewKey};
pub use directory::{Directory, DirectorySpace, KeyRecord};
pub use error::{DslError, Result};
pub use free::QueuedTrees;
pub use keys::Keys;
pub use layer::{Dsl, OpenDsl, QuietTree};
pub use mos::Mos;
pub use new_pool::NewPool;
pub use policy::StoragePolicy;
pub use primary_cache::PrimaryCache;
pub use property::{
    Effective, Got, PropertyChange, PropertyValue, SetProperties, Source, StoredProperty,
};
pub use redaction::RedactionList;
pub use services::{
    HistoryEvent, Services, SpaceClass, StoppedHead, Succession, SyncPass, WriterSource,
};
pub use sizes::Sizes;
pub use task::{Task, TaskContext};
pub use tunables::TUNABLES;
