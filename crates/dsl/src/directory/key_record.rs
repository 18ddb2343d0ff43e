//! What is stored of a directory's encryption key.

use std::sync::Arc;

use base::ObjectId;
use crypto::{KeyError, KeyFormat, KeyMaterial, StoredKeys, WrappedKeys};
use dmu::Tx;
use format::dsl::{key, key_record as names};

use super::Directory;
use crate::error::{DslError, Result};

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
        let root = self.entry_of(record, names::ROOT);
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

    /// A clone's directory gets the record of its origin's: they have their old blocks in common.
    pub(crate) fn share_key_record(&self, tx: &Tx, origin: &Self) -> Result<()> {
        let Some(record) = origin.crypto_key()? else {
            return Ok(());
        };
        let mos = &self.dsl.mos;
        mos.zap(record)?
            .increment(tx, names::REFERENCES.as_bytes(), 1)?;
        let extra = mos.zapify(tx, &self.object)?;
        Ok(extra.add(tx, key::CRYPTO_KEY.as_bytes(), record.0)?)
    }

    /// The directory is destroyed: its record goes, unless a clone shares it.
    pub(crate) fn release_key_record(&self, tx: &Tx) -> Result<()> {
        let Some(record) = self.crypto_key()? else {
            return Ok(());
        };
        let mos = &self.dsl.mos;
        let zap = mos.zap(record)?;
        if zap.lookup(names::REFERENCES.as_bytes())?.unwrap_or(1) > 1 {
            zap.increment(tx, names::REFERENCES.as_bytes(), -1)?;
        } else {
            let dsl = self.dsl.arc()?;
            tx.on_success(move || dsl.keys.forget_record(record));
            mos.free(tx, record)?;
        }
        let (dsl, id) = (self.dsl.arc()?, self.id());
        tx.on_success(move || dsl.keys.forget_root(id));
        Ok(())
    }

    fn entry_of(&self, record: ObjectId, key: &str) -> Option<u64> {
        self.dsl.mos.zap(record).ok()?.lookup(key.as_bytes()).ok()?
    }
}

impl KeyRecord {
    /// The object that it is.
    pub(crate) const fn id(&self) -> ObjectId {
        self.record
    }

    /// The number of the suite that it encrypts with.
    #[must_use]
    pub fn suite(&self) -> Option<u64> {
        self.directory.entry_of(self.record, names::SUITE)
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

    /// Whether the key of its root is loaded.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        let (root, keys) = (self.root.as_ref(), &self.directory.dsl.keys);
        root.is_some_and(|root| keys.is_loaded(root.id(), self.record))
    }

    /// Whether new records can be wrapped with the key of its root: it is loaded, and no stream has brought another
    /// since.
    #[must_use]
    pub fn can_wrap(&self) -> bool {
        let (root, keys) = (self.root.as_ref(), &self.directory.dsl.keys);
        root.is_some_and(|root| keys.is_current(root.id()))
    }

    /// What the root's key is made of.
    ///
    /// # Errors
    /// The record does not say so.
    pub fn material(&self) -> Result<KeyMaterial> {
        let word = |name| self.of_root(name).unwrap_or_default();
        let format = KeyFormat::from_number(word(names::FORMAT));
        Ok(KeyMaterial {
            format: format.map_err(|source| self.unusable(source))?,
            salt: word(names::PBKDF2_SALT),
            iterations: word(names::PBKDF2_ITERATIONS),
        })
    }

    /// Whether it is from before the format was settled. Such datasets can be read.
    pub(crate) fn is_old(&self) -> Result<bool> {
        let zap = self.directory.dsl.mos.zap(self.record)?;
        Ok(zap.lookup(names::VERSION.as_bytes())?.unwrap_or(0) == 0)
    }

    /// The keys, wrapped.
    ///
    /// # Errors
    /// The record cannot be read, or lacks some of it.
    pub fn stored(&self) -> Result<StoredKeys> {
        let zap = self.directory.dsl.mos.zap(self.record)?;
        let word = |name: &'static str| -> Result<u64> {
            let found = zap.lookup(name.as_bytes())?;
            found.ok_or_else(|| self.unusable(KeyError::Record(name)))
        };
        Ok(StoredKeys {
            suite: word(names::SUITE)?,
            guid: word(names::GUID)?,
            version: zap.lookup(names::VERSION.as_bytes())?.unwrap_or(0),
            wrapped: WrappedKeys {
                iv: self.bytes(names::IV)?,
                mac: self.bytes(names::MAC)?,
                master: self.bytes(names::MASTER_KEY)?,
                hmac: self.bytes(names::HMAC_KEY)?,
            },
        })
    }

    fn bytes<const N: usize>(&self, name: &'static str) -> Result<[u8; N]> {
        let zap = self.directory.dsl.mos.zap(self.record)?;
        let found = zap.lookup_value(name.as_bytes())?;
        let bytes = found.and_then(|value| value.stored().try_into().ok());
        bytes.ok_or_else(|| self.unusable(KeyError::Record(name)))
    }

    pub(crate) fn unusable(&self, source: KeyError) -> DslError {
        DslError::Key {
            name: self.directory.name(),
            source,
        }
    }
}
