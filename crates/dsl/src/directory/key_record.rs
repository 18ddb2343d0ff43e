//! What is stored of a directory's encryption key, the key itself aside.

use std::sync::Arc;

use base::ObjectId;

use super::Directory;
use crate::error::Result;

/// The record of an encryption key. Entries that are not there, or cannot be read, are none.
pub struct KeyRecord {
    directory: Arc<Directory>,
    record: ObjectId,
    root: Option<Arc<Directory>>,
    /// The record of the root of encryption.
    root_record: ObjectId,
}

impl Directory {
    /// The record of its encryption key; none without encryption.
    ///
    /// # Errors
    /// The directory, or the root of encryption, cannot be read.
    pub fn key_record(self: &Arc<Self>) -> Result<Option<KeyRecord>> {
        let Some(record) = self.crypto_key()? else {
            return Ok(None);
        };
        let root = self.entry_of(record, "DSL_CRYPTO_ROOT_DDOBJ");
        let root = root
            .map(|id| self.dsl.directory_by_id(ObjectId(id)))
            .transpose()?;
        let root_record = match &root {
            Some(root) => root.crypto_key()?.unwrap_or(record),
            None => record,
        };
        Ok(Some(KeyRecord {
            directory: Arc::clone(self),
            record,
            root,
            root_record,
        }))
    }

    fn entry_of(&self, record: ObjectId, key: &str) -> Option<u64> {
        self.dsl.mos.zap(record).ok()?.lookup(key.as_bytes()).ok()?
    }
}

impl KeyRecord {
    /// The number of the suite that it encrypts with.
    #[must_use]
    pub fn suite(&self) -> Option<u64> {
        self.directory.entry_of(self.record, "DSL_CRYPTO_SUITE")
    }

    /// The directory that the key was given for: those below it have theirs from it.
    #[must_use]
    pub const fn root(&self) -> Option<&Arc<Directory>> {
        self.root.as_ref()
    }

    /// What stands under a property's name in the record of the root.
    #[must_use]
    pub fn of_root(&self, property: &str) -> Option<u64> {
        self.directory.entry_of(self.root_record, property)
    }
}
