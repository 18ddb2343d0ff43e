//! Blocks of the pool's own object set that are kept in memory: of its dnodes, indirect blocks, and of data those that
//! a sync will change again.
//!
//! A sync changes many objects of the pool's own whose dnodes and pointers are on disk beside others'. What it needs of
//! them was read when the objects were opened; should a block go bad in all its copies meanwhile, the txg could not be
//! written, and with it everything else. So the newest of them stay here, whatever becomes of the cache, and the next
//! sync writes them anew. Scans look at the devices themselves.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, registry};
use base::{Bookmark, ObjectId, Txg};
use dmu::{BlockError, BlockStore};
use format::{BlockPointer, ObjectType};
use sys::Buffer;

use super::PipelineStore;
use crate::tunables::MOS_KEPT_BYTES;

static KEPT: LockClass = LockClass::new("pool.kept_blocks", rank::LAST + 9);

/// Reads of blocks that were kept.
static HITS: LazyLock<Arc<Counter>> = LazyLock::new(|| registry().counter("pool.kept_block_hits"));

/// All of a pointer: with its checksum, so that a block that is rewritten in place is another one.
type Key = [u64; 16];

/// Blocks in two generations: those that were used since the last change of generations, and those before.
#[derive(Default)]
struct Kept {
    newer: HashMap<Key, Buffer>,
    older: HashMap<Key, Buffer>,
    newer_bytes: u64,
}

impl Kept {
    fn get(&mut self, key: &Key) -> Option<Buffer> {
        if let Some(data) = self.newer.get(key) {
            return Some(data.clone());
        }
        let data = self.older.remove(key)?;
        self.put(*key, data.clone());
        Some(data)
    }

    fn put(&mut self, key: Key, data: Buffer) {
        let bytes = data.len() as u64;
        if self.newer_bytes + bytes > MOS_KEPT_BYTES.get() / 4 {
            self.older = std::mem::take(&mut self.newer);
            self.newer_bytes = 0;
        }
        if self.newer.insert(key, data).is_none() {
            self.newer_bytes += bytes;
        }
    }
}

/// Reads blocks of the pool's own object set.
pub(crate) struct KeptStore {
    store: Arc<PipelineStore>,
    structure: Mutex<Kept>,
    data: Mutex<Kept>,
}

impl KeptStore {
    pub(crate) fn new(store: Arc<PipelineStore>) -> Self {
        Self {
            store,
            structure: Mutex::new(&KEPT, Kept::default()),
            data: Mutex::new(&KEPT, Kept::default()),
        }
    }

    /// Where a block is kept, if it is: what others share a block with comes and goes apart from data, of which more is
    /// read.
    fn place_of(&self, pointer: &BlockPointer, place: Bookmark) -> Option<&Mutex<Kept>> {
        if pointer.is_hole() || pointer.is_embedded() {
            return None;
        }
        let is_structure = place.level > 0 || (place.level == 0 && place.object == ObjectId(0));
        if is_structure {
            return Some(&self.structure);
        }
        // Lists of blocks may be long, and what cannot be read of them is put aside by those who add to them.
        (pointer.object_type() != ObjectType::BPOBJ).then_some(&self.data)
    }
}

/// Whether a block that is read is likely to be changed by a sync. The end of a space map is, and was written here;
/// whoever reads one reads all of it.
fn may_change(pointer: &BlockPointer) -> bool {
    pointer.object_type() != ObjectType::SPACE_MAP
}

impl BlockStore for KeptStore {
    fn read(&self, pointer: &BlockPointer, place: Bookmark) -> Result<Buffer, BlockError> {
        self.read_seen(pointer, place, Txg(0))
    }

    fn read_seen(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
        seen: Txg,
    ) -> Result<Buffer, BlockError> {
        let Some(kept) = self.place_of(pointer, place) else {
            return self.store.read_seen(pointer, place, seen);
        };
        let found = kept.lock().get(&pointer.words);
        if let Some(data) = found {
            HITS.increment();
            return Ok(data);
        }
        let data = self.store.read_seen(pointer, place, seen)?;
        if may_change(pointer) {
            kept.lock().put(pointer.words, data.clone());
        }
        Ok(data)
    }

    fn read_structure(
        &self,
        pointer: &BlockPointer,
        place: Bookmark,
    ) -> Result<Buffer, BlockError> {
        self.store.read_structure(pointer, place)
    }

    fn now(&self) -> Txg {
        self.store.now()
    }

    fn prefetch(&self, blocks: &[(BlockPointer, Bookmark)]) {
        self.store.prefetch(blocks);
    }

    fn prefetch_seen(&self, blocks: &[(BlockPointer, Bookmark)], seen: Txg) {
        self.store.prefetch_seen(blocks, seen);
    }

    fn forget(&self, pointer: &BlockPointer) {
        self.store.forget(pointer);
    }

    fn keep(&self, pointer: &BlockPointer, place: Bookmark, data: &Buffer) {
        if let Some(kept) = self.place_of(pointer, place) {
            kept.lock().put(pointer.words, data.clone());
        }
    }

    fn is_cached(&self, pointer: &BlockPointer) -> bool {
        self.store.is_cached(pointer)
    }

    fn prefetch_scattered(&self, blocks: &[(BlockPointer, Bookmark)], seen: Txg, follow: bool) {
        self.store.prefetch_scattered(blocks, seen, follow);
    }

    fn charged_bytes(&self, pointer: &BlockPointer) -> u64 {
        self.store.charged_bytes(pointer)
    }
}
