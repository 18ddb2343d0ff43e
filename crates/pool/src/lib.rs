//! A pool: import, create, export, configuration, features and the sync loop.
//!
//! | folder | what is there |
//! |---|---|
//! | `create`, `import` | how a pool comes to be open: made, or found, judged and loaded |
//! | `assembly` | what both have in common: the parts put together, in an order that types enforce |
//! | `pool` | the open pool, what it does for the layers below, and requests that concern it as a whole |
//! | `sync` | writing a txg |
//! | `blocks` | how objects reach the pipeline, which blocks are shared, and when space may be used again |
//! | `allocation` | space maps and who may have how much |
//! | `logs` | intent logs and their devices |
//! | `mos` | what the pool keeps in its own object set: features, history, the error log |
//! | `facts` | what lists show of what the pool keeps in its own object set |
//! | `config` | its configuration, as labels and the MOS say it |
//! | `vdevs` | devices opened, added, removed, and what each missed |
//! | `removal`, `condensing` | top-level vdevs whose blocks are copied elsewhere; mappings of such that get shorter |
//! | `expansion` | RAID-Z vdevs that get another device |
//! | `checkpoint` | the state that a pool keeps and can be taken back to |
//! | `scan`, `rebuild` | work beside everything else: scrubs and resilvers; sequential resilvers |
//! | `trim` | the same: free space discarded on devices |
//! | `events`, `multihost` | what happened, for `zpool events`; whether another host has the pool |

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]
#![cfg_attr(not(test), warn(clippy::wildcard_enum_match_arm))]

mod allocation;
mod assembly;
mod blocks;
mod checkpoint;
#[cfg(test)]
mod churn;
mod condensing;
mod config;
mod create;
mod error;
mod events;
mod expansion;
mod facts;
mod import;
mod logs;
mod mos;
mod multihost;
mod pool;
mod rebuild;
mod removal;
mod scan;
mod sync;
mod trim;
pub mod tunables;
mod vdevs;

pub use allocation::limits::SpaceFigures;
pub use blocks::dedup::pruning::DedupPrune;
pub use config::host::{Host, kernel_module_present};
pub use config::{PoolConfig, VdevConfig};
pub use create::{CreateOptions, default_features};
pub use error::{ImportBlocker, LastUser, MissingFeature, PoolError, Result};
pub use events::{Event, EventValue};
pub use facts::{
    Checkpoint, ClonedBlocks, DedupTables, Expansion, Facts, LeafWork, Progress, RebuildFacts,
    Removal, Tables,
};
pub use import::check_use;
pub use import::discover::{FoundDevice, FoundPool, discover};
pub use import::options::{ImportOptions, Rewind, Selection};
pub use import::trial::{Trial, try_import};
pub use logs::resting::RestingLogs;
pub use mos::data_error::DataError;
pub use mos::features::{FeatureState, Features};
pub use mos::history::{Actor, History};
pub use multihost::activity::other_host;
pub use pool::status::{PoolStatus, VdevRole, VdevStatus};
pub use pool::{Pool, Rewound};
pub use rebuild::fill::Fill;
pub use removal::RemovalsBarred;
pub use scan::phys::ScanPhys;
pub use trim::control::{LeafTrim, TrimState};
pub use trim::requests::TrimRefusal;
pub use tunables::TUNABLES;
pub use txg::catches_panics;
pub use vdev::clear_labels;
pub use vdevs::caches::{CacheStatus, clear_cache_labels};
pub use vdevs::device_lists::labelled_beside_vdevs;
pub use vdevs::devices::Between;
pub use vdevs::disks::{AttachOptions, is_in_use};
pub use vdevs::new::{DraidWidth, NewDevice, NewVdev};
pub use vdevs::regroup::OutOfUse;
pub use vdevs::spares::SpareStatus;
