//! A pool: import, create, export, configuration, features and the sync loop.

mod allocator;
mod blocks;
#[cfg(test)]
mod churn;
mod config;
mod config_state;
mod create;
mod devices;
mod discover;
mod duties;
mod error;
mod features;
mod frees;
mod gate;
mod history;
mod host;
mod import;
mod late_allocator;
mod limits;
mod load;
mod new_objects;
mod obstacles;
mod open_space;
mod pool;
mod properties;
mod savings;
mod scan;
mod scrub;
mod services;
mod space_store;
mod status;
mod sync;
mod uberblock;

pub use config::{PoolConfig, VdevConfig};
pub use create::{CreateOptions, NewDevice, NewVdev, default_features};
pub use discover::{FoundDevice, FoundPool, discover};
pub use error::{LastUser, MissingFeature, PoolError, Result, WriteObstacle};
pub use features::{FeatureState, Features};
pub use history::{Actor, History};
pub use host::{Host, kernel_module_present};
pub use import::{ImportOptions, Rewind, Selection};
pub use limits::SpaceFigures;
pub use pool::{Pool, Rewound};
pub use scan::ScanPhys;
pub use status::{PoolStatus, VdevRole, VdevStatus};
pub use vdev::clear_labels;
