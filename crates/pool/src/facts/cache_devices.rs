//! The devices that OpenZFS gave a pool for its second-level cache (L2ARC): nothing here reads or writes them.

use base::Guid;
use format::config::{directory, keys};

use super::Facts;
use crate::config::VdevConfig;
use crate::vdevs::spares::is_there;

#[cfg(test)]
mod tests;

/// A cache device, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheDevice {
    /// Its guid.
    pub guid: Guid,
    /// `file` or `disk`.
    pub kind: String,
    /// Where it is.
    pub path: String,
    /// Whether it is there.
    pub is_there: bool,
}

impl Facts<'_> {
    /// The cache devices that the pool lists.
    #[must_use]
    pub fn cache_devices(&self) -> Vec<CacheDevice> {
        let Some(list) = self.stored.packed(directory::L2CACHE) else {
            return Vec::new();
        };
        let entries = list.lists(keys::L2CACHE).iter();
        let devices = entries.filter_map(|entry| VdevConfig::from_list(entry).ok());
        devices
            .map(|device| CacheDevice {
                guid: device.guid(),
                kind: device.kind().to_owned(),
                path: device.path().unwrap_or_default().to_owned(),
                is_there: is_there(&device),
            })
            .collect()
    }
}
