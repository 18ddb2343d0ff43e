//! The trait by which the pipeline learns which blocks the cache is to keep; the layer of datasets supplies it.

use base::ObjectSetId;
use cache::Stay;
use format::ObjectType;
use format::block_pointer::BlockPointer;

use crate::Pipeline;

/// Who knows which blocks are to be kept in memory (the property `primarycache`). Asked with each block that is read
/// from a device or written, by many threads: must not read blocks itself.
pub trait KeepSource: Send + Sync {
    /// Whether data of an object set are kept, or its metadata.
    fn keeps(&self, set: ObjectSetId, is_metadata: bool) -> bool;
}

impl Pipeline {
    /// Whether the cache keeps data of an object set, or its metadata.
    #[must_use]
    pub fn keeps(&self, set: ObjectSetId, is_metadata: bool) -> bool {
        let source = self.keeping.get();
        source.is_none_or(|source| source.keeps(set, is_metadata))
    }

    /// A block of an object set was read to its end: it leaves the cache, if that does not keep it.
    pub fn end_of_block(&self, block: &BlockPointer, set: ObjectSetId) {
        if let Some(key) = self.cache_key_in(block, set) {
            self.cache.end_brief_stay(&key);
        }
    }

    /// Whether the cache keeps a block.
    pub(crate) fn keeps_block(&self, block: &BlockPointer, set: ObjectSetId) -> bool {
        self.keeps(set, is_metadata(block))
    }

    /// How long the cache has a block that was read.
    pub(crate) fn stay_of(&self, block: &BlockPointer, set: ObjectSetId) -> Stay {
        let is_metadata = is_metadata(block);
        match (self.keeps(set, is_metadata), is_metadata) {
            (true, _) => stay_of(block),
            (false, true) => Stay::InUse,
            (false, false) => Stay::Brief,
        }
    }
}

/// Whether a block leads to others, or says something of them.
pub(crate) fn is_metadata(block: &BlockPointer) -> bool {
    block.level() > 0 || block.object_type().is_metadata()
}

/// The kernel caches what is in files: they need not stay here long. Nor need what takes many times the memory here
/// that reading it again takes of a device: the indirect blocks of a file that is nearly all holes.
fn stay_of(block: &BlockPointer) -> Stay {
    const SPARSE_SHARE: u64 = 16;
    let sparse = || block.psize().saturating_mul(SPARSE_SHARE) <= block.lsize();
    match (block.level(), block.object_type()) {
        (0, ObjectType::PLAIN_FILE) => Stay::Short,
        (1, ObjectType::PLAIN_FILE | ObjectType::ZVOL) if sparse() => Stay::Short,
        _ => Stay::Long,
    }
}

#[cfg(test)]
mod tests;
