//! A pool: import, create, export, configuration, features and the sync loop.

mod allocator;
mod blocks;
mod config;
mod config_state;
mod devices;
mod discover;
mod error;
mod features;
mod frees;
mod history;
mod host;
mod late_allocator;
mod load;
mod new_objects;
mod space_store;
mod uberblock;

pub use config::{PoolConfig, VdevConfig};
pub use discover::{FoundDevice, FoundPool, discover};
pub use error::{LastUser, MissingFeature, PoolError, Result, WriteObstacle};
pub use features::{FeatureState, Features};
pub use history::{Actor, History};
pub use host::{Host, kernel_module_present};
pub use vdev::clear_labels;
