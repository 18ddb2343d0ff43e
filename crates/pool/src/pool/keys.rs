//! Keys of encrypted datasets, as far as the whole pool has to do with them.

use std::sync::Arc;

use dsl::Directory;

use super::Pool;

impl Pool {
    /// Forgets the key of a root of encryption, and what the cache has of any dataset.
    ///
    /// # Errors
    /// A dataset that it opened is in use, or none is loaded.
    pub fn unload_key(&self, root: &Arc<Directory>) -> dsl::Result<()> {
        // What was written with the key is written now, or never. A pool that has stopped writes nothing any more.
        if let Some(writer) = &self.writer {
            let _ = writer.engine.wait_synced(None);
        }
        self.dsl.unload_key(root)?;
        // What was opened with the key is not found any more, but it is there until it makes room for others.
        self.pipeline.cache().clear();
        Ok(())
    }
}
