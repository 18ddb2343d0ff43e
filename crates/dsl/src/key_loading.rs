//! Loading the keys of roots of encryption, and unloading them. Nothing of it is stored.

use std::sync::Arc;

use base::ObjectId;
use crypto::WrappingKey;

use crate::directory::{Directory, KeyRecord};
use crate::error::{DslError, Result};
use crate::layer::Dsl;

impl Dsl {
    /// The record of a root of encryption.
    ///
    /// # Errors
    /// The directory is not encrypted, or has its key from another.
    pub fn encryption_root(&self, directory: &Arc<Directory>) -> Result<KeyRecord> {
        let name = || directory.name();
        let record = directory
            .key_record()?
            .ok_or_else(|| DslError::NotEncrypted { name: name() })?;
        match record.root() {
            Some(root) if root.id() == directory.id() => Ok(record),
            Some(root) => Err(DslError::NotEncryptionRoot {
                name: name(),
                root: root.name(),
            }),
            None => Err(DslError::damaged(
                record.id(),
                "no root of encryption is named",
            )),
        }
    }

    /// Whether a key is that of a root of encryption.
    ///
    /// # Errors
    /// It is not, or the record cannot be read.
    pub fn check_key(&self, directory: &Arc<Directory>, key: &WrappingKey) -> Result<()> {
        let record = self.encryption_root(directory)?;
        let opened = record.stored()?.unwrap(key);
        opened.map_err(|source| record.unusable(source)).map(drop)
    }

    /// Loads the key of a root of encryption: from now on what is below can be opened.
    ///
    /// # Errors
    /// The key is another one, or one is loaded already.
    pub fn load_key(&self, directory: &Arc<Directory>, key: WrappingKey) -> Result<()> {
        self.check_key(directory, &key)?;
        if self.keys.load(directory.id(), key) {
            Ok(())
        } else {
            let name = directory.name();
            Err(DslError::KeyLoaded { name })
        }
    }

    /// Forgets the key of a root of encryption. What the cache has of its datasets is for the caller to drop.
    ///
    /// # Errors
    /// A dataset that it opened is in use, or none is loaded.
    pub fn unload_key(&self, directory: &Arc<Directory>) -> Result<()> {
        self.encryption_root(directory)?;
        let root = directory.id();
        for set in self.keys.opened_with(root) {
            if let Some(dataset) = self.datasets.get(ObjectId(set.0)) {
                dataset.close_unless_used();
            }
            if self.keys.is_open(set) {
                return Err(DslError::busy(directory.name()));
            }
        }
        let Some(opened) = self.keys.unload(root) else {
            let name = directory.name();
            return Err(DslError::KeyUnloaded { name });
        };
        // Who opened one just now reads errors from now on; who comes later is asked for the key again.
        for set in opened {
            if let Some(dataset) = self.datasets.get(ObjectId(set.0)) {
                dataset.close_object_set();
            }
        }
        Ok(())
    }
}
