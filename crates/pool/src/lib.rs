//! A pool: import, create, export, configuration, features and the sync loop.

mod allocator;
mod blocks;
mod config;
mod discover;
mod error;
mod features;
mod history;
mod space_store;

pub use config::{PoolConfig, VdevConfig};
pub use discover::{FoundDevice, FoundPool, discover};
pub use error::{LastUser, MissingFeature, PoolError, Result, WriteObstacle};
pub use features::{FeatureState, Features};
pub use history::{Actor, History};
pub use vdev::clear_labels;
