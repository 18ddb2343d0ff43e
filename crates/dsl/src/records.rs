//! The records of datasets and directories, for those who read them without the tree: of a state that is not imported,
//! and in the middle of a sync.

use base::{ByteOrder, ObjectId};
use dmu::{Object, ObjectSet};
use format::dsl::{DatasetPhys, DirectoryPhys};
use format::{BlockPointer, FormatError, ObjectType};

/// The root pointer of the dataset that an object is; none if it is no dataset.
///
/// # Errors
/// Its record does not decode.
pub fn dataset_root(object: &Object) -> Result<Option<BlockPointer>, FormatError> {
    Ok(dataset(object)?.map(|phys| phys.block_pointer))
}

/// The head of the directory of a dataset; none if that cannot be told.
#[must_use]
pub fn head_of(mos: &ObjectSet, of: ObjectId) -> Option<ObjectId> {
    let phys = dataset(&*mos.object(of).ok()?).ok()??;
    let directory = mos.object(phys.directory).ok()?;
    if directory.info().bonus_type != ObjectType::DSL_DIRECTORY {
        return None;
    }
    let phys = directory.with_bonus(|bonus| DirectoryPhys::decode(bonus, ByteOrder::NATIVE));
    phys.ok()
        .map(|phys| phys.head_dataset)
        .filter(|head| head.0 != 0)
}

fn dataset(object: &Object) -> Result<Option<DatasetPhys>, FormatError> {
    if object.info().bonus_type != ObjectType::DSL_DATASET {
        return Ok(None);
    }
    object
        .with_bonus(|bonus| DatasetPhys::decode(bonus, ByteOrder::NATIVE))
        .map(Some)
}
