//! What is freed in the background: the list of later frees, trees of destroyed datasets, and
//! livelists of destroyed clones, each in bounded slices a txg; what is left survives a restart.

mod tree;

use base::ObjectId;
use dmu::{AllocateObject, Object, Tx};
use format::bptree::{BlockTreeEntry, BlockTreePhys, DONE};
use format::config::directory as keys;
use format::dsl::{UsedBy, hidden};
use format::{BlockPointer, ObjectType, features};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::bpobj::Bpobj;
use crate::error::{DslError, Result};
use crate::layer::Dsl;
use crate::livelist;
use crate::mos::{change_record, read_record};
use crate::services::SyncPass;
use crate::sizes::{Sizes, change};

pub(crate) use tree::{TreeWalk, WalkEnd};

/// Blocks freed in the background a txg, at most, unless told otherwise.
pub(crate) const SLICE_BLOCKS: u64 = 100_000;
/// Block size of the queue of trees.
const QUEUE_BLOCK: u32 = 128 * 1024;

impl Dsl {
    fn free_list(&self) -> Result<Bpobj> {
        let id = self
            .mos
            .directory_word(keys::FREE_BPOBJ)?
            .ok_or_else(|| DslError::damaged(keys::OBJECT, "no list of later frees"))?;
        Bpobj::open(&self.mos, ObjectId(id))
    }

    /// Blocks whose freeing needs more work go to the list of later frees, and are charged to
    /// `$FREE` until then.
    pub(crate) fn free_later(&self, tx: &Tx, pointers: &[BlockPointer]) -> Result<()> {
        if pointers.is_empty() {
            return Ok(());
        }
        self.free_list()?.append(tx, pointers, false)?;
        let store = self.mos.store.as_ref();
        let sizes = pointers
            .iter()
            .map(|pointer| Sizes::of(store, pointer))
            .sum();
        self.charge_free(tx, sizes)
    }

    pub(crate) fn charge_free(&self, tx: &Tx, sizes: Sizes) -> Result<()> {
        self.required_hidden(hidden::FREE)?
            .charge(tx, UsedBy::Head, sizes)
    }

    /// Frees a block for good: at once, or through the list of later frees. It is not charged to
    /// anybody any more.
    pub(crate) fn release(&self, tx: &Tx, pointer: &BlockPointer) -> Result<()> {
        if pointer.is_embedded() || pointer.is_hole() {
            return Ok(());
        }
        if self.services().frees_later(pointer) {
            self.free_later(tx, &[*pointer])
        } else {
            self.services().free(tx.txg(), pointer);
            Ok(())
        }
    }

    /// The list of later frees, for tasks that move whole lists to it.
    pub(crate) fn later_frees(&self) -> Result<Bpobj> {
        self.free_list()
    }

    /// Whether something waits to be freed in the background.
    ///
    /// # Errors
    /// The lists cannot be read.
    pub fn has_background_frees(&self) -> Result<bool> {
        let directory = self.mos.directory()?;
        let queued = directory.lookup(keys::BPTREE.as_bytes())?.is_some()
            || directory.lookup(keys::DELETED_CLONES.as_bytes())?.is_some();
        if queued {
            return Ok(true);
        }
        match directory.lookup(keys::FREE_BPOBJ.as_bytes())? {
            Some(id) => Ok(!Bpobj::open(&self.mos, ObjectId(id))?.is_empty()?),
            None => Ok(false),
        }
    }

    /// Sets how many blocks are freed in the background a txg, at most.
    pub fn set_background_slice(&self, blocks: u64) {
        self.slice_blocks.store(blocks.max(1), Ordering::Relaxed);
    }

    /// Frees a slice of what waits. Called once a txg, in pass 1 after the tasks; true when
    /// something was freed.
    ///
    /// # Errors
    /// A list cannot be read or written.
    pub fn background(&self, pass: &SyncPass<'_>) -> Result<bool> {
        if !self.has_background_frees()? {
            return Ok(false);
        }
        let tx = Tx::syncing(pass.txg);
        let services = self.services();
        let mut free = |pointer: &BlockPointer| services.free(pass.txg, pointer);
        let slice = self.slice_blocks.load(Ordering::Relaxed);
        let (sizes, mut count) = self.free_list()?.take(&tx, slice, &mut free)?;
        self.charge_free(&tx, -sizes)?;
        if count < slice {
            count += self.free_trees(&tx, slice - count)?;
        }
        if count < slice {
            livelist::free_one(self, &tx)?;
        }
        self.settle_leak(&tx)?;
        Ok(true)
    }

    /// What `$FREE` still holds with nothing left to free could not be read: it moves to `$LEAK`.
    fn settle_leak(&self, tx: &Tx) -> Result<()> {
        if self.has_background_frees()? {
            return Ok(());
        }
        let free = self.required_hidden(hidden::FREE)?;
        let phys = free.phys()?;
        let left = Sizes::stored(
            phys.used_bytes,
            phys.compressed_bytes,
            phys.uncompressed_bytes,
        );
        if left == Sizes::ZERO {
            return Ok(());
        }
        let leak = match self.hidden_directory(hidden::LEAK)? {
            Some(leak) => leak,
            None => crate::tasks::create_directory(self, tx, self.root, hidden::LEAK)?,
        };
        free.charge(tx, UsedBy::Head, -left)?;
        leak.charge(tx, UsedBy::Head, left)
    }

    fn queue(&self) -> Result<Option<Arc<Object>>> {
        match self.mos.directory_word(keys::BPTREE)? {
            Some(id) => self.mos.object(ObjectId(id)).map(Some),
            None => Ok(None),
        }
    }

    /// Queues the tree under `root`: its blocks born after `birth` are freed in the background.
    pub(crate) fn queue_tree(
        &self,
        tx: &Tx,
        root: &BlockPointer,
        birth: base::Txg,
        sizes: Sizes,
    ) -> Result<()> {
        let queue = match self.queue()? {
            Some(queue) => queue,
            None => {
                let shape = AllocateObject {
                    object_type: ObjectType::OTN_U64_METADATA,
                    block_size: QUEUE_BLOCK,
                    bonus_type: ObjectType::OTN_U64_METADATA,
                    bonus_len: BlockTreePhys::SIZE as u16,
                    ..AllocateObject::default()
                };
                let queue = self.mos.set.allocate(tx, &shape)?;
                self.mos
                    .directory()?
                    .add(tx, keys::BPTREE.as_bytes(), queue.id().0)?;
                let services = &self.mos.services;
                services.change_references(tx, &features::ASYNC_DESTROY, 1)?;
                queue
            }
        };
        let header: BlockTreePhys = read_record(&queue)?;
        let entry = BlockTreeEntry {
            root: *root,
            birth,
            bookmark: [0; 4],
        };
        let bytes = entry.to_bytes(base::ByteOrder::NATIVE);
        queue.write(tx, BlockTreeEntry::offset(header.end), &bytes)?;
        change_record(&queue, tx, |header: &mut BlockTreePhys| {
            header.end += 1;
            change(&mut header.bytes, sizes.used);
            change(&mut header.compressed, sizes.compressed);
            change(&mut header.uncompressed, sizes.uncompressed);
        })
    }

    /// Frees up to `limit` blocks of queued trees, oldest tree first.
    fn free_trees(&self, tx: &Tx, limit: u64) -> Result<u64> {
        let Some(queue) = self.queue()? else {
            return Ok(0);
        };
        let mut count = 0;
        loop {
            let header: BlockTreePhys = read_record(&queue)?;
            if header.begin >= header.end {
                self.drop_queue(tx, &queue)?;
                return Ok(count);
            }
            if count >= limit {
                return Ok(count);
            }
            count += self.free_first_tree(tx, &queue, header.begin, limit - count)?;
        }
    }

    fn free_first_tree(&self, tx: &Tx, queue: &Arc<Object>, index: u64, limit: u64) -> Result<u64> {
        let mut bytes = [0; BlockTreeEntry::SIZE];
        queue.read(BlockTreeEntry::offset(index), &mut bytes)?;
        let mut entry = BlockTreeEntry::decode_padded(&bytes, base::ByteOrder::NATIVE);
        let mut freed = Sizes::ZERO;
        let mut walked = 0;
        let mut done = true;
        if entry.birth != DONE {
            let store = self.mos.store.as_ref();
            let mut walk = TreeWalk::new(store, entry.birth, entry.bookmark, limit);
            let end = walk.run(&entry.root, &mut |pointer| {
                freed += Sizes::of(store, pointer);
                self.release(tx, pointer)
            })?;
            walked = walk.visited();
            if let WalkEnd::Paused(bookmark) = end {
                entry.bookmark = bookmark;
                done = false;
            } else {
                entry.birth = DONE;
            }
            let bytes = entry.to_bytes(base::ByteOrder::NATIVE);
            queue.write(tx, BlockTreeEntry::offset(index), &bytes)?;
        }
        change_record(queue, tx, |header: &mut BlockTreePhys| {
            change(&mut header.bytes, -freed.used);
            change(&mut header.compressed, -freed.compressed);
            change(&mut header.uncompressed, -freed.uncompressed);
            if done {
                header.begin += 1;
            }
        })?;
        self.charge_free(tx, -freed)?;
        Ok(walked)
    }

    fn drop_queue(&self, tx: &Tx, queue: &Arc<Object>) -> Result<()> {
        self.mos.directory()?.remove(tx, keys::BPTREE.as_bytes())?;
        self.mos
            .services
            .change_references(tx, &features::ASYNC_DESTROY, -1)?;
        self.mos.free(tx, queue.id())
    }

    /// Frees the blocks of the tree under `root` born after `birth`, all at once.
    pub(crate) fn free_tree_now(
        &self,
        tx: &Tx,
        root: &BlockPointer,
        birth: base::Txg,
    ) -> Result<()> {
        let store = self.mos.store.as_ref();
        let mut walk = TreeWalk::new(store, birth, [0; 4], u64::MAX);
        walk.run(root, &mut |pointer| self.release(tx, pointer))?;
        Ok(())
    }
}
