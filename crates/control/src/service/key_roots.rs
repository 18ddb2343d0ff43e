//! Roots of encryption, for who is to load their keys.

use std::sync::Arc;

use admin::queries::KeyRoots;
use admin::{Failure, FailureKind, KeyRoot};
use dsl::property::dataset::KEYLOCATION;
use dsl::{Directory, DslError, KeyRecord};
use format::dsl::key_record;

use super::Service;
use super::refusal::unreadable;

impl Service {
    /// The root that a dataset has its key from; or those at and `below` it. Without a name: of the whole pool.
    pub(super) fn key_roots(&self, asked: &KeyRoots) -> Result<Vec<KeyRoot>, Failure> {
        let (name, below) = (asked.name.as_str(), asked.below);
        let pool = self.dsl.pool_name();
        let name = if name.is_empty() { &pool } else { name };
        let directory = self.head("open", admin::dataset_of(name))?.directory();
        if !below {
            let record = directory.key_record().map_err(unreadable)?;
            let root = record.as_ref().and_then(KeyRecord::root).ok_or_else(|| {
                let text = format!("Key load error: '{name}' is not encrypted.");
                Failure::new(FailureKind::Invalid, text)
            })?;
            return Ok(vec![self.key_root(root)?]);
        }
        let mut found = Vec::new();
        for head in self.dsl.heads_under(&directory).map_err(unreadable)? {
            let directory = head.directory();
            match self.dsl.encryption_root(&directory) {
                Ok(_) => found.push(self.key_root(&directory)?),
                Err(DslError::NotEncrypted { .. } | DslError::NotEncryptionRoot { .. }) => {}
                Err(error) => return Err(unreadable(error)),
            }
        }
        Ok(found)
    }

    fn key_root(&self, directory: &Arc<Directory>) -> Result<KeyRoot, Failure> {
        let record = self.dsl.encryption_root(directory).map_err(unreadable)?;
        let word = |name| record.of_root(name).unwrap_or_default();
        let head = directory.head().map_err(unreadable)?;
        let location = head.map(|head| head.get(KEYLOCATION)).transpose();
        let location = location.map_err(unreadable)?.map(|found| found.value);
        Ok(KeyRoot {
            name: directory.name(),
            format: word(key_record::FORMAT),
            salt: word(key_record::PBKDF2_SALT),
            iterations: word(key_record::PBKDF2_ITERATIONS),
            location: location.unwrap_or_default(),
            loaded: record.is_loaded(),
        })
    }
}
