//! The trees of destroyed datasets: a queue of them, of which each txg frees a slice.
//!
//! What cannot be read of the queue any more leaks, and what waits behind it goes on. It stays charged to `$FREE` until
//! nothing waits any more, and then moves to `$LEAK`. A tree of which a block is on a device that does not answer is
//! left for another txg, and those behind it wait with it: no txg waits for what is to be freed.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};

use base::ObjectId;
use base::metrics::{Counter, Histogram, registry};
use dmu::{AllocateObject, Object, Tx};
use format::bptree::{BlockTreeEntry, BlockTreePhys, DONE};
use format::config::directory as keys;
use format::{BlockPointer, ObjectType, features};

use super::slice::Slice;
use super::walk::{Patience, TreeWalk, WalkEnd};
use crate::bpobj::unless_lost;
use crate::error::Result;
use crate::layer::Dsl;
use crate::mos::{change_record, read_record};
use crate::sizes::{Sizes, change};

/// Block size of the queue.
const QUEUE_BLOCK: u32 = 128 * 1024;

/// Trees of destroyed datasets that leaked because their entry in the queue cannot be read.
static TREES_LOST: LazyLock<Arc<Counter>> =
    LazyLock::new(|| registry().counter("dsl.queued_trees_lost"));

/// Blocks of trees that were freed in one txg, in a pool without `async_destroy`.
static FREED_AT_ONCE: LazyLock<Arc<Histogram>> =
    LazyLock::new(|| registry().histogram("dsl.tree_blocks_at_once"));

/// What waits in the queue of trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedTrees {
    /// The object that has the queue: once it is empty the queue goes, and the next one is another.
    pub queue: ObjectId,
    /// The first one that is not freed.
    pub begin: u64,
    /// One past the last one.
    pub end: u64,
}

impl Dsl {
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
    pub(super) fn free_trees(&self, tx: &Tx, slice: &mut Slice<'_>) -> Result<()> {
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
            let (walked, waits) = self.free_first_tree(tx, &queue, header.begin, limit)?;
            self.trees_wait.store(waits, Ordering::Relaxed);
            if waits {
                return Ok(());
            }
            // A tree that was done already, or of which nothing is left, is something done as well.
            slice.done(walked.max(1));
        }
    }

    /// Whether what is to be freed in the background waits for a device.
    #[must_use]
    pub fn waits_for_devices(&self) -> bool {
        self.trees_wait.load(Ordering::Relaxed)
    }

    /// The trees that are queued: the object that has the queue, and how many were ever queued there; none if none is.
    ///
    /// # Errors
    /// The queue cannot be read.
    pub fn queued_trees(&self) -> Result<Option<QueuedTrees>> {
        let Some(queue) = self.queue()? else {
            return Ok(None);
        };
        let header: BlockTreePhys = read_record(&queue)?;
        Ok((header.begin < header.end).then(|| QueuedTrees {
            queue: queue.id(),
            begin: header.begin,
            end: header.end,
        }))
    }

    /// Frees a part of a tree: how many blocks, and whether it waits for a device.
    fn free_first_tree(
        &self,
        tx: &Tx,
        queue: &Arc<Object>,
        index: u64,
        limit: u64,
    ) -> Result<(u64, bool)> {
        let mut freed = Sizes::ZERO;
        let (mut walked, mut waits) = (0, false);
        let mut done = true;
        let entry = self.queued_tree(queue, index)?;
        if let Some(mut entry) = entry.filter(|entry| entry.birth != DONE) {
            let store = self.mos.store.as_ref();
            let (birth, bookmark) = (entry.birth, entry.bookmark);
            let mut walk = TreeWalk::new(store, birth, bookmark, limit, Patience::Later);
            let end = walk.run(&entry.root, &mut |pointer| {
                freed += Sizes::of(store, pointer);
                self.release(tx, pointer)
            })?;
            walked = walk.visited();
            if walked == 0 && matches!(end, WalkEnd::Waiting(_)) {
                return Ok((0, true));
            }
            match end {
                WalkEnd::Done => entry.birth = DONE,
                WalkEnd::Paused(bookmark) => (entry.bookmark, done) = (bookmark, false),
                WalkEnd::Waiting(bookmark) => {
                    (entry.bookmark, done, waits) = (bookmark, false, true);
                }
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
        Ok((walked, waits))
    }

    fn drop_queue(&self, tx: &Tx, queue: &Arc<Object>) -> Result<()> {
        self.forget_queue(tx)?;
        self.mos.free(tx, queue.id())
    }

    /// Frees the blocks of the tree under `root` born after `birth`, all at once. There are not many
    /// ([`Dsl::destroy_head`]).
    pub(crate) fn free_tree_now(
        &self,
        tx: &Tx,
        root: &BlockPointer,
        birth: base::Txg,
    ) -> Result<()> {
        let store = self.mos.store.as_ref();
        let mut walk = TreeWalk::new(store, birth, [0; 4], u64::MAX, Patience::Now);
        walk.run(root, &mut |pointer| self.release(tx, pointer))?;
        FREED_AT_ONCE.record(walk.visited());
        Ok(())
    }

    /// The queue of trees; one that cannot be opened is gone, with all that was in it.
    fn usable_queue(&self, tx: &Tx) -> Result<Option<Arc<Object>>> {
        match unless_lost(self.queue())? {
            Some(queue) => Ok(queue),
            None => self.forget_queue(tx).map(|()| None),
        }
    }

    fn forget_queue(&self, tx: &Tx) -> Result<()> {
        let mos = &self.mos;
        mos.directory()?.remove(tx, keys::BPTREE.as_bytes())?;
        Ok(mos
            .services
            .change_references(tx, &features::ASYNC_DESTROY, -1)?)
    }

    /// The first entry of the queue, which says that it is done when it cannot be read.
    fn queued_tree(&self, queue: &Object, index: u64) -> Result<Option<BlockTreeEntry>> {
        let mut bytes = [0; BlockTreeEntry::SIZE];
        match queue.read(BlockTreeEntry::offset(index), &mut bytes) {
            Err(error) if error.is_damage() => {
                TREES_LOST.increment();
                Ok(None)
            }
            read => {
                read?;
                Ok(Some(BlockTreeEntry::decode_padded(
                    &bytes,
                    base::ByteOrder::NATIVE,
                )))
            }
        }
    }

    /// Writes an entry behind the last one. Where the block that it shares with others cannot be read, that block is
    /// made anew first, and says that those are done.
    fn enqueue(&self, tx: &Tx, queue: &Arc<Object>, entry: &BlockTreeEntry) -> Result<()> {
        let header: BlockTreePhys = read_record(queue)?;
        let at = BlockTreeEntry::offset(header.end);
        let bytes = entry.to_bytes(base::ByteOrder::NATIVE);
        let written = queue.prepare_write(at, bytes.len() as u64);
        match written.and_then(|()| queue.write(tx, at, &bytes)) {
            Err(error) if error.is_damage() => {
                repair(tx, queue, &header)?;
                Ok(queue.write(tx, at, &bytes)?)
            }
            done => Ok(done?),
        }
    }
}

/// Makes the last block of the queue anew: the trees of its entries leak.
fn repair(tx: &Tx, queue: &Arc<Object>, header: &BlockTreePhys) -> Result<()> {
    let size = u64::from(queue.block_size());
    let start = BlockTreeEntry::offset(header.end) / size * size;
    queue.write(tx, start, &vec![0; queue.block_size() as usize])?;
    let done = BlockTreeEntry {
        birth: DONE,
        ..BlockTreeEntry::decode_padded(&[], base::ByteOrder::NATIVE)
    };
    let bytes = done.to_bytes(base::ByteOrder::NATIVE);
    let first = (start / BlockTreeEntry::SIZE as u64).max(header.begin);
    for index in first..header.end {
        TREES_LOST.increment();
        queue.write(tx, BlockTreeEntry::offset(index), &bytes)?;
    }
    Ok(())
}
