//! The trait by which the pipeline learns the keys of encrypted blocks; the layer of datasets supplies it.

use base::ObjectSetId;

/// What is known of the key of an object set's blocks. What a key that is loaded consists of belongs into a variant of
/// its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// Nobody says that they are encrypted.
    None,
    /// They are, and the key is not loaded.
    Locked,
}

/// Who knows keys. Asked with each block of ciphertext, by many threads: must not read blocks itself.
pub trait KeySource: Send + Sync {
    /// The key of an object set's blocks.
    fn key(&self, set: ObjectSetId) -> Key;
}
