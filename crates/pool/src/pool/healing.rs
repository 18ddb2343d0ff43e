//! Blocks that were lost and are there again.

use base::{Bookmark, ObjectId, Txg};

use super::Pool;
use crate::DataError;

impl Pool {
    /// A block that could not be read was written again: it is no error of the pool any more.
    pub fn note_healed(&self, place: Bookmark, birth: Txg) {
        self.services.note_healed(&DataError {
            dataset: ObjectId(place.object_set.0),
            object: place.object,
            level: place.level.into(),
            block: place.block,
            birth: Some(birth),
        });
    }
}
