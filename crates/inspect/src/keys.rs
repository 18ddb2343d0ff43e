//! Keys of encrypted datasets, for looking into them: from whoever has them, asked once for each root of encryption.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use base::lock::{LockClass, RwLock, rank};
use base::{ByteOrder, ObjectId, ObjectSetId};
use crypto::{DatasetKeys, KeyError, KeyFormat, KeyMaterial, StoredKeys, WrappedKeys, WrappingKey};
use format::dsl::{DirectoryPhys, key, key_record as names};
use pipeline::{Key, KeySource};

use crate::error::{InspectError, Result};
use crate::raw::{DatasetEntry, RawObject, RawPool};

static KNOWN: LockClass = LockClass::new("inspect.keys", rank::LAST + 9);

/// Directories are nested no deeper: names are at most 255 bytes long.
const NESTING_MAX: usize = 256;

/// Which key is wanted.
#[derive(Clone, Debug)]
pub struct KeyQuestion {
    /// The dataset that the key was given for.
    pub name: String,
    /// How the key is made of what users have.
    pub material: KeyMaterial,
}

type Asked = dyn Fn(&KeyQuestion) -> std::result::Result<WrappingKey, String> + Send + Sync;

/// Who has keys; none by default.
#[derive(Clone, Default)]
pub struct KeyRing(Option<Arc<Asked>>);

impl KeyRing {
    /// Nobody: encrypted datasets cannot be looked into.
    pub const NONE: Self = Self(None);

    /// Keys are asked for: the answer is one, or why there is none.
    pub fn asking(
        asked: impl Fn(&KeyQuestion) -> std::result::Result<WrappingKey, String> + Send + Sync + 'static,
    ) -> Self {
        Self(Some(Arc::new(asked)))
    }
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() {
            "KeyRing(asking)"
        } else {
            "KeyRing(none)"
        })
    }
}

/// The keys of one pool that were asked for.
pub(crate) struct ImageKeys {
    ring: KeyRing,
    known: RwLock<Known>,
}

#[derive(Default)]
struct Known {
    /// By the record of the root of encryption: the answer. Nobody is asked twice.
    roots: BTreeMap<ObjectId, std::result::Result<Arc<WrappingKey>, String>>,
    sets: BTreeMap<ObjectSetId, Arc<DatasetKeys>>,
}

impl KeySource for ImageKeys {
    fn key(&self, set: ObjectSetId) -> Key {
        let known = self.known.read();
        known
            .sets
            .get(&set)
            .map_or(Key::None, |keys| Key::Loaded(Arc::clone(keys)))
    }
}

impl ImageKeys {
    pub(crate) fn new(ring: KeyRing) -> Self {
        Self {
            ring,
            known: RwLock::new(&KNOWN, Known::default()),
        }
    }

    /// Makes an encrypted dataset readable.
    ///
    /// # Errors
    /// Nobody has its key, it is another, or its record cannot be read.
    pub(crate) fn open(&self, pool: &RawPool, dataset: &DatasetEntry) -> Result<()> {
        let set = ObjectSetId(dataset.id.0);
        let Some(asked) = &self.ring.0 else {
            return Err(InspectError::Encrypted(dataset.name.clone()));
        };
        if self.known.read().sets.contains_key(&set) {
            return Ok(());
        }
        let locked = |reason: String| InspectError::Locked {
            dataset: dataset.name.clone(),
            reason,
        };
        let unusable = |error: KeyError| locked(error.to_string());
        let record_id = record_of(pool, dataset.phys.directory)?;
        let record_id = record_id.ok_or_else(|| unusable(KeyError::Record(key::CRYPTO_KEY)))?;
        let record = pool.mos.object(record_id)?;
        let stored = stored(&record)?.map_err(unusable)?;
        let root = word(&record, names::ROOT)?.map(ObjectId);
        let root_id = match root {
            Some(root) => record_of(pool, root)?.unwrap_or(record_id),
            None => record_id,
        };
        let before = self.known.read().roots.get(&root_id).cloned();
        let answer = match before {
            Some(answer) => answer,
            None => {
                let root_record = pool.mos.object(root_id)?;
                let question = KeyQuestion {
                    name: root_name(pool, dataset, root),
                    material: material(&root_record)?.map_err(unusable)?,
                };
                // What the root has says whether the key is right: that of one below may be damaged.
                let judged = self::stored(&root_record)?.unwrap_or(stored);
                let answer = asked(&question).and_then(|wrapping| match judged.unwrap(&wrapping) {
                    Err(KeyError::WrongKey) => {
                        Err(format!("incorrect key provided for '{}'", question.name))
                    }
                    Ok(_) | Err(_) => Ok(Arc::new(wrapping)),
                });
                self.known.write().roots.insert(root_id, answer.clone());
                answer
            }
        };
        let keys = stored.unwrap(&*answer.map_err(locked)?).map_err(unusable)?;
        self.known.write().sets.insert(set, Arc::new(keys));
        Ok(())
    }
}

/// The record of a directory's key.
fn record_of(pool: &RawPool, directory: ObjectId) -> Result<Option<ObjectId>> {
    let value = pool
        .mos
        .object(directory)?
        .zap_lookup(key::CRYPTO_KEY.as_bytes())?;
    Ok(value.and_then(|value| value.as_word()).map(ObjectId))
}

fn word(record: &RawObject, name: &str) -> Result<Option<u64>> {
    let value = record.zap_lookup(name.as_bytes())?;
    Ok(value.and_then(|value| value.as_word()))
}

/// What the key of a root is made of.
fn material(record: &RawObject) -> Result<std::result::Result<KeyMaterial, KeyError>> {
    let (salt, iterations) = (
        word(record, names::PBKDF2_SALT)?,
        word(record, names::PBKDF2_ITERATIONS)?,
    );
    let format = KeyFormat::from_number(word(record, names::FORMAT)?.unwrap_or(0));
    Ok(format.map(|format| KeyMaterial {
        format,
        salt: salt.unwrap_or(0),
        iterations: iterations.unwrap_or(0),
    }))
}

/// The keys, wrapped.
fn stored(record: &RawObject) -> Result<std::result::Result<StoredKeys, KeyError>> {
    fn bytes<const N: usize>(
        record: &RawObject,
        name: &'static str,
    ) -> Result<std::result::Result<[u8; N], KeyError>> {
        let value = record.zap_lookup(name.as_bytes())?;
        let found = value.and_then(|value| value.stored().try_into().ok());
        Ok(found.ok_or(KeyError::Record(name)))
    }
    let parts = (
        bytes(record, names::IV)?,
        bytes(record, names::MAC)?,
        bytes(record, names::MASTER_KEY)?,
        bytes(record, names::HMAC_KEY)?,
    );
    let suite = word(record, names::SUITE)?.ok_or(KeyError::Record(names::SUITE));
    let guid = word(record, names::GUID)?.ok_or(KeyError::Record(names::GUID));
    let version = word(record, names::VERSION)?.unwrap_or(0);
    let whole = || {
        Ok(StoredKeys {
            suite: suite?,
            guid: guid?,
            version,
            wrapped: WrappedKeys {
                iv: parts.0?,
                mac: parts.1?,
                master: parts.2?,
                hmac: parts.3?,
            },
        })
    };
    Ok(whole())
}

/// The name of the directory that a dataset has its key from: as a rule it is one above.
fn root_name(pool: &RawPool, dataset: &DatasetEntry, root: Option<ObjectId>) -> String {
    let head = dataset.name.split('@').next().unwrap_or_default();
    let mut name = head;
    let mut directory = dataset.phys.directory;
    for _ in 0..NESTING_MAX {
        if root == Some(directory) {
            return name.to_owned();
        }
        let Ok(object) = pool.mos.object(directory) else {
            break;
        };
        let Some((above, _)) = name.rsplit_once('/') else {
            break;
        };
        directory =
            DirectoryPhys::decode_padded(object.dnode.bonus_bytes(), ByteOrder::NATIVE).parent;
        name = above;
    }
    // A clone that was moved: the key is another's, whose name nobody needs to know for asking.
    head.to_owned()
}
