//! Making directories.

use std::sync::Arc;

use base::ObjectId;
use dmu::{AllocateObject, Tx};
use format::dsl::DirectoryPhys;
use format::{ObjectType, version};

use super::Directory;
use crate::error::Result;
use crate::layer::Dsl;
use crate::mos::{Mos, change_record};

/// A new directory under `parent`.
pub(crate) fn create_directory(
    dsl: &Dsl,
    tx: &Tx,
    parent: ObjectId,
    component: &str,
) -> Result<Arc<Directory>> {
    let id = directory_object(&dsl.mos, tx, parent)?;
    let map = dsl.directory_by_id(parent)?.child_map()?;
    map.add(tx, component.as_bytes(), id.0)?;
    // A copy of what the object was before is nobody's.
    dsl.directories.forget(id);
    let directory = dsl.directory_by_id(id)?;
    let made = Arc::clone(&directory);
    tx.on_undo(move || made.dsl.directories.forget(made.id()));
    Ok(directory)
}

/// The objects of a new directory under `parent` (0: the root of a new pool), which does not know
/// it yet.
pub(crate) fn directory_object(mos: &Mos, tx: &Tx, parent: ObjectId) -> Result<ObjectId> {
    let shape = AllocateObject {
        object_type: ObjectType::DSL_DIRECTORY,
        bonus_type: ObjectType::DSL_DIRECTORY,
        bonus_len: DirectoryPhys::SIZE as u16,
        ..AllocateObject::default()
    };
    let object = mos.set.allocate(tx, &shape)?;
    let properties = mos.new_zap(tx, ObjectType::DSL_PROPERTIES, 0)?;
    let child_map = mos.new_zap(tx, ObjectType::DSL_DIRECTORY_CHILD_MAP, 0)?;
    let breakdown = mos.services.version() >= version::USED_BREAKDOWN;
    change_record(&object, tx, |phys: &mut DirectoryPhys| {
        phys.creation_time = mos.services.clock().now_s();
        phys.parent = parent;
        phys.properties = properties.object().id();
        phys.child_map = child_map.object().id();
        phys.flags = if breakdown {
            DirectoryPhys::FLAG_USED_BREAKDOWN
        } else {
            0
        };
    })?;
    Ok(object.id())
}
