//! `statfs`.

use base::ObjectId;

use crate::core::Core;
use crate::{Result, Statistics};

/// Object numbers end here.
const OBJECTS_MAX: u64 = 1 << 48;

impl Core {
    pub(crate) fn statfs(&self, object: ObjectId) -> Result<Statistics> {
        let block_size = self.properties().record_size;
        let unit = u64::from(block_size);
        let numbers = self
            .space()
            .map(|space| space.numbers())
            .unwrap_or_default();
        let objects = self.store.objects.object_count();
        let mut statistics = Statistics {
            block_size,
            blocks: numbers.referenced.div_ceil(unit) + numbers.available / unit,
            blocks_free: numbers.available / unit,
            files: 0,
            files_free: (OBJECTS_MAX - objects.min(OBJECTS_MAX)).min(numbers.available / 512),
            name_length_max: self.name_length_max() as u32,
            identity: self.identity,
        };
        statistics.files = statistics.files_free + objects;
        self.limit_to_project(object, &mut statistics)?;
        Ok(statistics)
    }
}
