//! What is in the object set of a volume: its data, and a table with its size.

use std::sync::Arc;

use base::ObjectId;
use dmu::{AllocateObject, CreateZap, ObjectSet, Tx, Zap};
use format::ObjectType;

/// The object that has a volume's data.
pub const DATA: ObjectId = ObjectId(1);
const TABLE: ObjectId = ObjectId(2);
const SIZE: &str = "size";

/// Makes the two objects of a volume.
///
/// # Errors
/// They cannot be made.
pub fn populate(set: &Arc<ObjectSet>, tx: &Tx, size: u64, block_size: u64) -> dmu::Result<()> {
    let data = AllocateObject {
        object_type: ObjectType::ZVOL,
        block_size: u32::try_from(block_size).unwrap_or(u32::MAX),
        ..AllocateObject::default()
    };
    set.claim(tx, DATA, &data)?;
    let table = CreateZap {
        object_type: ObjectType::ZVOL_PROPERTIES,
        id: Some(TABLE),
        ..CreateZap::default()
    };
    Zap::create(set, tx, &table)?.add(tx, SIZE.as_bytes(), size)
}

/// The size of a volume in bytes; none when it cannot be read.
#[must_use]
pub fn size(set: &ObjectSet) -> Option<u64> {
    stored_size(set).ok()?
}

/// The size of a volume in bytes; none when nothing says it.
///
/// # Errors
/// It cannot be read.
pub fn stored_size(set: &ObjectSet) -> dmu::Result<Option<u64>> {
    let table = Zap::open(&set.object(TABLE)?)?;
    table.lookup(SIZE.as_bytes())
}

/// The bytes of a volume's blocks; none when it cannot be read.
#[must_use]
pub fn block_size(set: &ObjectSet) -> Option<u64> {
    let data = set.object(DATA).ok()?;
    Some(data.block_size().into())
}

/// The two objects of a volume, to give it another size.
pub struct Resizing {
    data: Arc<dmu::Object>,
    table: Zap,
}

impl Resizing {
    /// Those of a volume.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn open(set: &ObjectSet) -> dmu::Result<Self> {
        let (data, table) = (set.object(DATA)?, set.object(TABLE)?);
        let table = Zap::open(&table)?;
        Ok(Self { data, table })
    }

    /// Gives it another size; what is beyond that is freed.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn resize(&self, tx: &Tx, old: u64, size: u64) -> dmu::Result<()> {
        if size < old {
            self.data.free_range(tx, size, old - size)?;
        }
        self.table.update(tx, SIZE.as_bytes(), size)
    }
}
