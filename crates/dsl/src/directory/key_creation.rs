//! Keys of new datasets: what was asked for, what the parent says, and the record that comes of both.

use std::sync::Arc;

use base::ObjectId;
use crypto::{KeyMaterial, StoredKeys, Suite, WrappingKey};
use dmu::Tx;
use format::ObjectType;
use format::dsl::{key, key_record as names};
use format::features::ENCRYPTION;
use format::zap::Value;

use super::Directory;
use crate::error::{DslError, Result};
use crate::layer::Dsl;

/// A key that a root of encryption is to have.
pub struct NewKey {
    /// What it is made of.
    pub material: KeyMaterial,
    /// The key.
    pub key: WrappingKey,
}

/// How a new dataset is encrypted.
#[derive(Default)]
pub enum NewEncryption {
    /// As its parent is.
    #[default]
    Inherited,
    /// Not.
    Off,
    /// With a cipher, by its number, and its parent's key.
    Suite(u64),
    /// With a key of its own: it is a root of encryption. Without a cipher it has its parent's.
    Root(Option<u64>, NewKey),
    /// With keys that came wrapped: it is a root of encryption, whose key nobody has loaded.
    Received(StoredKeys, KeyMaterial),
}

impl NewEncryption {
    /// Refuses what cannot be, below `parent` or as the root of a pool; answers the cipher, none without encryption.
    pub(crate) fn check(&self, dsl: &Dsl, parent: Option<&Arc<Directory>>) -> Result<Option<u64>> {
        let above = match parent {
            Some(parent) => parent.key_record()?,
            None => None,
        };
        let name = || parent.map(|parent| parent.name()).unwrap_or_default();
        let suite = match (self, &above) {
            (Self::Off, _) | (Self::Inherited, None) => return Ok(None),
            (Self::Suite(_) | Self::Root(None, _), None) => {
                return Err(DslError::NotEncrypted { name: name() });
            }
            (Self::Suite(suite) | Self::Root(Some(suite), _), _) => *suite,
            (Self::Received(stored, _), _) => stored.suite,
            (Self::Inherited | Self::Root(None, _), Some(record)) => {
                record.suite().unwrap_or_default()
            }
        };
        if let Err(source) = Suite::from_number(suite) {
            return Err(DslError::Key {
                name: name(),
                source,
            });
        }
        if !dsl.services().is_enabled(&ENCRYPTION) {
            let feature = ENCRYPTION.name;
            return Err(DslError::FeatureDisabled { feature });
        }
        let is_root = matches!(self, Self::Root(..) | Self::Received(..));
        if let Some(record) = above.filter(|record| !is_root && !record.can_wrap()) {
            let root = record.root().map_or_else(name, |root| root.name());
            return Err(DslError::KeyUnloaded { name: root });
        }
        Ok(Some(suite))
    }

    /// Gives a new directory its keys, if it is to have some.
    pub(crate) fn apply(
        &self,
        tx: &Tx,
        directory: &Arc<Directory>,
        parent: Option<&Arc<Directory>>,
    ) -> Result<bool> {
        let dsl = directory.dsl.arc()?;
        let Some(suite) = self.check(&dsl, parent)? else {
            return Ok(false);
        };
        let unusable = |source| DslError::Key {
            name: directory.name(),
            source,
        };
        if let Self::Received(stored, material) = self {
            let keys = (suite, stored, *material);
            return put_record(tx, directory, directory.id(), keys).map(|()| true);
        }
        let (root, material, wrapping) = match self {
            Self::Root(_, new) => {
                let copy = || new.key.copy().map_err(unusable);
                if !dsl.keys.load(directory.id(), copy()?) {
                    let name = directory.name();
                    return Err(DslError::KeyLoaded { name });
                }
                let (undone, id) = (Arc::clone(&dsl), directory.id());
                tx.on_undo(move || undone.keys.forget_root(id));
                (directory.id(), new.material, copy()?)
            }
            Self::Inherited | Self::Off | Self::Suite(_) | Self::Received(..) => {
                let missing = || DslError::KeyUnloaded {
                    name: directory.name(),
                };
                let record = parent.map(|parent| parent.key_record()).transpose()?;
                let record = record.flatten().ok_or_else(missing)?;
                let root = record.root().ok_or_else(missing)?;
                let wrapping = dsl.keys.wrapping(root.id()).map_err(unusable)?;
                let wrapping = wrapping.ok_or_else(missing)?;
                (root.id(), record.material()?, wrapping)
            }
        };
        let stored = StoredKeys::create(suite, &wrapping).map_err(unusable)?;
        put_record(tx, directory, root, (suite, &stored, material))?;
        Ok(true)
    }
}

/// Gives a directory a record of its keys, which are under `root`.
fn put_record(
    tx: &Tx,
    directory: &Arc<Directory>,
    root: ObjectId,
    (suite, stored, material): (u64, &StoredKeys, KeyMaterial),
) -> Result<()> {
    let dsl = directory.dsl.arc()?;
    let zap = dsl.mos.new_zap(tx, ObjectType::OTN_ZAP_METADATA, 0)?;
    for (name, word) in [
        (names::SUITE, suite),
        (names::GUID, stored.guid),
        (names::VERSION, stored.version),
        (names::ROOT, root.0),
        (names::REFERENCES, 1),
    ] {
        zap.add(tx, name.as_bytes(), word)?;
    }
    put_wrapped(tx, &zap, stored, material)?;
    let record = zap.object().id();
    let undone = Arc::clone(&dsl);
    tx.on_undo(move || undone.keys.forget_record(record));
    let extra = dsl.mos.zapify(tx, &directory.object)?;
    extra.add(tx, key::CRYPTO_KEY.as_bytes(), record.0)?;
    dsl.new_stamp();
    Ok(())
}

/// Puts wrapped keys, and what their root's key is made of, into a record.
pub(crate) fn put_wrapped(
    tx: &Tx,
    zap: &dmu::Zap,
    stored: &StoredKeys,
    material: KeyMaterial,
) -> Result<()> {
    let wrapped = &stored.wrapped;
    for (name, bytes) in [
        (names::IV, &wrapped.iv[..]),
        (names::MAC, &wrapped.mac),
        (names::MASTER_KEY, &wrapped.master),
        (names::HMAC_KEY, &wrapped.hmac),
    ] {
        zap.update_value(tx, name.as_bytes(), &Value::bytes(bytes))?;
    }
    for (name, word) in [
        (names::FORMAT, material.format.number()),
        (names::PBKDF2_SALT, material.salt),
        (names::PBKDF2_ITERATIONS, material.iterations),
    ] {
        zap.update(tx, name.as_bytes(), word)?;
    }
    Ok(())
}
