//! The trait by which the pipeline learns the keys of encrypted blocks; the layer of datasets supplies it.

use std::sync::Arc;

use base::ObjectSetId;
use crypto::DatasetKeys;

/// What is known of the key of an object set's blocks.
#[derive(Clone, Debug)]
pub enum Key {
    /// Nobody says that they are encrypted.
    None,
    /// They are, and the key is not loaded.
    Locked,
    /// They are, and these open them.
    Loaded(Arc<DatasetKeys>),
}

/// Who knows keys. Asked with each block, by many threads: must not read blocks itself.
pub trait KeySource: Send + Sync {
    /// The key of an object set's blocks.
    fn key(&self, set: ObjectSetId) -> Key;
}
