//! The pool's own object set, as the structures of this layer use it.

use std::sync::Arc;

use base::{ByteOrder, ObjectId};
use dmu::{BlockStore, CreateZap, Object, ObjectSet, Tx, Zap};
use format::config::directory;
use format::dsl::{DatasetPhys, DirectoryPhys};
use format::features;
use format::{FormatError, ObjectType};

use crate::deadlist::DeadKeys;
use crate::error::{DslError, Result};
use crate::services::Services;

/// The pool's own object set and those who serve it.
#[derive(Clone)]
pub struct Mos {
    /// The object set.
    pub set: Arc<ObjectSet>,
    /// The pool.
    pub services: Arc<dyn Services>,
    /// Where blocks are read.
    pub store: Arc<dyn BlockStore>,
    pub(crate) dead_keys: Arc<DeadKeys>,
}

impl Mos {
    /// The object set of a pool.
    #[must_use]
    pub fn new(set: Arc<ObjectSet>, services: Arc<dyn Services>) -> Self {
        let store = services.store();
        Self {
            set,
            services,
            store,
            dead_keys: Arc::default(),
        }
    }

    pub(crate) fn object(&self, id: ObjectId) -> Result<Arc<Object>> {
        Ok(self.set.object(id)?)
    }

    pub(crate) fn zap(&self, id: ObjectId) -> Result<Zap> {
        Ok(Zap::open(&self.set.object(id)?)?)
    }

    /// The pool directory: object 1.
    pub(crate) fn directory(&self) -> Result<Zap> {
        self.zap(directory::OBJECT)
    }

    /// A value of the pool directory.
    pub(crate) fn directory_word(&self, key: &str) -> Result<Option<u64>> {
        Ok(self.directory()?.lookup(key.as_bytes())?)
    }

    /// A new ZAP of some type.
    pub(crate) fn new_zap(
        &self,
        tx: &Tx,
        object_type: ObjectType,
        normalization: u64,
    ) -> Result<Zap> {
        let options = CreateZap {
            object_type,
            normalization,
            ..CreateZap::default()
        };
        Ok(Zap::create(&self.set, tx, &options)?)
    }

    pub(crate) fn free(&self, tx: &Tx, id: ObjectId) -> Result<()> {
        Ok(self.set.free(tx, id)?)
    }

    pub(crate) fn require_writable(&self) -> Result<()> {
        if self.services.is_writable() {
            Ok(())
        } else {
            Err(DslError::ReadOnly)
        }
    }

    /// Makes a directory or dataset a ZAP, once.
    pub(crate) fn zapify(&self, tx: &Tx, object: &Arc<Object>) -> Result<Zap> {
        if object.info().object_type == ObjectType::OTN_ZAP_METADATA {
            return Ok(Zap::open(object)?);
        }
        object.set_type(tx, ObjectType::OTN_ZAP_METADATA)?;
        let zap = Zap::format(object, tx, 0)?;
        self.services
            .change_references(tx, &features::EXTENSIBLE_DATASET, 1)?;
        Ok(zap)
    }

    /// The ZAP that a directory or dataset has become, if it has.
    pub(crate) fn zapified(&self, object: &Arc<Object>) -> Result<Option<Zap>> {
        if object.info().object_type != ObjectType::OTN_ZAP_METADATA {
            return Ok(None);
        }
        Ok(Some(Zap::open(object)?))
    }

    /// Frees a directory or dataset.
    pub(crate) fn free_zapified(&self, tx: &Tx, object: &Arc<Object>) -> Result<()> {
        if object.info().object_type == ObjectType::OTN_ZAP_METADATA {
            self.services
                .change_references(tx, &features::EXTENSIBLE_DATASET, -1)?;
        }
        self.free(tx, object.id())
    }
}

/// A record that lives in the bonus of an object.
pub(crate) trait BonusRecord: Sized {
    const BONUS: ObjectType;
    fn read(bytes: &[u8]) -> Self;
    fn write(&self, bytes: &mut [u8]);
    const MIN: usize;
}

macro_rules! bonus_record {
    ($type:ty, $bonus:expr, $min:expr) => {
        impl BonusRecord for $type {
            const BONUS: ObjectType = $bonus;
            const MIN: usize = $min;
            fn read(bytes: &[u8]) -> Self {
                Self::decode_padded(bytes, ByteOrder::NATIVE)
            }
            fn write(&self, bytes: &mut [u8]) {
                self.encode(bytes, ByteOrder::NATIVE);
            }
        }
    };
}

bonus_record!(DirectoryPhys, ObjectType::DSL_DIRECTORY, 104);
bonus_record!(DatasetPhys, ObjectType::DSL_DATASET, 256);
bonus_record!(format::bpobj::BpobjPhys, ObjectType::BPOBJ_HEADER, 16);
bonus_record!(
    format::deadlist::DeadlistPhys,
    ObjectType::DEADLIST_HEADER,
    24
);
bonus_record!(
    format::bptree::BlockTreePhys,
    ObjectType::OTN_U64_METADATA,
    40
);

/// Reads the record in an object's bonus.
pub(crate) fn read_record<R: BonusRecord>(object: &Object) -> Result<R> {
    let info = object.info();
    if info.bonus_type != R::BONUS {
        return Err(DslError::Format {
            object: object.id(),
            source: FormatError::Invalid {
                what: "bonus",
                field: "type",
                value: info.bonus_type.0.into(),
            },
        });
    }
    let min = usize::from(info.bonus_len);
    if min < R::MIN {
        return Err(DslError::Format {
            object: object.id(),
            source: FormatError::Truncated {
                what: "bonus",
                needed: R::MIN,
                available: min,
            },
        });
    }
    Ok(object.with_bonus(R::read))
}

/// Changes the record in an object's bonus.
pub(crate) fn change_record<R: BonusRecord, T>(
    object: &Arc<Object>,
    tx: &Tx,
    change: impl FnOnce(&mut R) -> T,
) -> Result<T> {
    Ok(object.modify_bonus(tx, |bytes| {
        let mut record = R::read(bytes);
        let result = change(&mut record);
        record.write(bytes);
        result
    })?)
}

/// The text of a ZAP entry's name.
pub(crate) fn name_of(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
