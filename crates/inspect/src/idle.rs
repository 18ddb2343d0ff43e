//! Devices that a pool lists and that hold nothing of it: hot spares, and those for a cache.

use std::path::PathBuf;

use base::ObjectId;
use format::config::{directory, keys};

use crate::error::Result;
use crate::raw::{OpenOptions, RawPool};

/// Their paths, as the pool has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdleDevices {
    /// Hot spares, also those that stand in.
    pub spares: Vec<String>,
    /// Devices for a cache.
    pub caches: Vec<String>,
}

/// What the pool of that guid lists, which is on these devices.
///
/// # Errors
/// The pool cannot be opened, or a list cannot be read.
pub fn idle_devices(devices: &[PathBuf], guid: u64) -> Result<IdleDevices> {
    let pool = RawPool::open(&OpenOptions {
        paths: devices.to_vec(),
        pool: Some(guid.to_string()),
        txg_limit: None,
    })?;
    Ok(IdleDevices {
        spares: listed(&pool, directory::SPARES, keys::SPARES)?,
        caches: listed(&pool, directory::L2CACHE, keys::L2CACHE)?,
    })
}

fn listed(pool: &RawPool, entry: &'static str, key: &str) -> Result<Vec<String>> {
    let id = pool.directory_word(entry)?.filter(|id| *id != 0);
    let Some(id) = id.map(ObjectId) else {
        return Ok(Vec::new());
    };
    let list = pool.packed_list(id)?;
    let devices = list.lists(key).iter();
    let paths = devices.filter_map(|device| device.str(keys::PATH));
    Ok(paths.map(str::to_owned).collect())
}
