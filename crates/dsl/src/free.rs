//! What is freed in the background: the list of later frees, trees of destroyed datasets, and
//! livelists of destroyed clones, each in bounded slices a txg; what is left survives a restart.

mod damaged;
pub(crate) mod slice;
mod tree;

use base::ObjectId;
use dmu::{AllocateObject, Object, Tx};
use format::bptree::{BlockTreeEntry, BlockTreePhys, DONE};
use format::config::directory as keys;
use format::dsl::{UsedBy, hidden};
use format::{BlockPointer, ObjectType, features};
use std::sync::Arc;

use crate::bpobj::NamedList;
use crate::error::Result;
use crate::layer::Dsl;
use crate::mos::{change_record, read_record};
use crate::services::SyncPass;
use crate::sizes::{Sizes, change};
use crate::tunables;
use slice::Slice;

pub(crate) use tree::{TreeWalk, WalkEnd};

/// Block size of the queue of trees.
const QUEUE_BLOCK: u32 = 128 * 1024;

impl Dsl {
    /// Blocks whose freeing needs more work go to the list of later frees, and are charged to
    /// `$FREE` until then.
    pub(crate) fn free_later(&self, tx: &Tx, pointers: &[BlockPointer]) -> Result<()> {
        if pointers.is_empty() {
            return Ok(());
        }
        self.later_frees().append(tx, pointers)?;
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

    /// The list of later frees.
    pub(crate) fn later_frees(&self) -> NamedList {
        NamedList::new(&self.mos, keys::FREE_BPOBJ)
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
        Ok(!self.later_frees().is_empty()?)
    }

    /// Frees a slice of what waits, bounded in blocks and in time. Called once a txg, in pass 1 after the tasks; true
    /// when something was freed.
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
        let blocks = tunables::BACKGROUND_BLOCKS.get();
        let time_ms = tunables::BACKGROUND_MS.get();
        let mut slice = Slice::new(services.clock(), blocks, time_ms);
        let list = self.later_frees();
        let (mut freed, mut lost) = (Sizes::ZERO, Sizes::ZERO);
        loop {
            let taken = list.take(&tx, slice.next(), &mut free)?;
            freed += taken.sizes;
            lost += taken.lost;
            slice.done(taken.count);
            if taken.count == 0 {
                break;
            }
        }
        self.charge_free(&tx, -freed)?;
        if lost != Sizes::ZERO {
            self.charge_free(&tx, -lost)?;
            self.charge_leak(&tx, lost)?;
        }
        self.free_trees(&tx, &mut slice)?;
        self.free_livelists(&tx, &mut slice)?;
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
        free.charge(tx, UsedBy::Head, -left)?;
        self.charge_leak(tx, left)
    }

    /// Charges what nobody refers to and nobody can free to `$LEAK`, which is made when there is none.
    pub(crate) fn charge_leak(&self, tx: &Tx, sizes: Sizes) -> Result<()> {
        let leak = match self.hidden_directory(hidden::LEAK)? {
            Some(leak) => leak,
            None => crate::tasks::create_directory(self, tx, self.root, hidden::LEAK)?,
        };
        leak.charge(tx, UsedBy::Head, sizes)
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
        let queue = match self.usable_queue(tx)? {
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
        let entry = BlockTreeEntry {
            root: *root,
            birth,
            bookmark: [0; 4],
        };
        self.enqueue(tx, &queue, &entry)?;
        change_record(&queue, tx, |header: &mut BlockTreePhys| {
            header.end += 1;
            change(&mut header.bytes, sizes.used);
            change(&mut header.compressed, sizes.compressed);
            change(&mut header.uncompressed, sizes.uncompressed);
        })
    }

    /// Frees a slice of the queued trees, oldest tree first.
    fn free_trees(&self, tx: &Tx, slice: &mut Slice<'_>) -> Result<()> {
        let Some(queue) = self.usable_queue(tx)? else {
            return Ok(());
        };
        loop {
            let header: BlockTreePhys = read_record(&queue)?;
            if header.begin >= header.end {
                return self.drop_queue(tx, &queue);
            }
            let limit = slice.next();
            if limit == 0 {
                return Ok(());
            }
            // A tree that was done already, or of which nothing is left, is something done as well.
            let walked = self.free_first_tree(tx, &queue, header.begin, limit)?;
            slice.done(walked.max(1));
        }
    }

    fn free_first_tree(&self, tx: &Tx, queue: &Arc<Object>, index: u64, limit: u64) -> Result<u64> {
        let mut freed = Sizes::ZERO;
        let mut walked = 0;
        let mut done = true;
        let entry = self.queued_tree(queue, index)?;
        if let Some(mut entry) = entry.filter(|entry| entry.birth != DONE) {
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
        self.forget_queue(tx)?;
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
