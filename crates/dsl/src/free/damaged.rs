//! What waits to be freed in the background and cannot be read any more: it leaks, and what waits behind it goes on.
//! What is lost stays charged to `$FREE` until nothing waits any more, and then moves to `$LEAK`.

use std::sync::{Arc, LazyLock};

use base::ObjectId;
use base::metrics::{Counter, registry};
use dmu::{Object, Tx};
use format::bptree::{BlockTreeEntry, BlockTreePhys, DONE};
use format::config::directory as keys;
use format::features;

use super::slice::Slice;
use crate::bpobj::unless_lost;
use crate::deadlist::Deadlist;
use crate::error::Result;
use crate::layer::Dsl;
use crate::livelist;
use crate::mos::read_record;

/// Trees of destroyed datasets that leaked because their entry in the queue cannot be read.
static TREES_LOST: LazyLock<Arc<Counter>> =
    LazyLock::new(|| registry().counter("dsl.queued_trees_lost"));

impl Dsl {
    /// Frees some of the livelists of destroyed clones; one that cannot be read goes unread.
    pub(super) fn free_livelists(&self, tx: &Tx, slice: &mut Slice<'_>) -> Result<()> {
        match livelist::free_slice(self, tx, slice) {
            Err(error) if error.is_damage() => self.lose_livelist(tx),
            done => done,
        }
    }

    /// Drops the newest part of the first livelist, or all that cannot be told apart from it. Nothing of a part may be
    /// freed when some of it cannot be read: it may say that the rest is freed already.
    fn lose_livelist(&self, tx: &Tx) -> Result<()> {
        let mos = &self.mos;
        let pool = mos.directory()?;
        let Some(zap) = pool.lookup(keys::DELETED_CLONES.as_bytes())?.map(ObjectId) else {
            return Ok(());
        };
        let next = mos.zap(zap).and_then(|zap| Ok(zap.cursor(0).next_entry()?));
        let Some(Some(entry)) = unless_lost(next)? else {
            pool.remove(tx, keys::DELETED_CLONES.as_bytes())?;
            return unless_lost(mos.free(tx, zap)).map(|_| ());
        };
        let list = Deadlist::open(mos, ObjectId(entry.value));
        let part = list.and_then(|list| {
            let newest = list.keys()?.last();
            newest.map(|(key, _)| list.drop_part(tx, key)).transpose()
        });
        if let Some(Some(())) = unless_lost(part)? {
            return Ok(());
        }
        let list = Deadlist::open(mos, ObjectId(entry.value));
        unless_lost(list.and_then(|list| list.destroy(tx)))?;
        mos.zap(zap)?.remove(tx, &entry.name)?;
        Ok(mos
            .services
            .change_references(tx, &features::LIVELIST, -1)?)
    }

    /// The queue of trees; one that cannot be opened is gone, with all that was in it.
    pub(super) fn usable_queue(&self, tx: &Tx) -> Result<Option<Arc<Object>>> {
        match unless_lost(self.queue())? {
            Some(queue) => Ok(queue),
            None => self.forget_queue(tx).map(|()| None),
        }
    }

    pub(super) fn forget_queue(&self, tx: &Tx) -> Result<()> {
        let mos = &self.mos;
        mos.directory()?.remove(tx, keys::BPTREE.as_bytes())?;
        Ok(mos
            .services
            .change_references(tx, &features::ASYNC_DESTROY, -1)?)
    }

    /// The first entry of the queue, which says that it is done when it cannot be read.
    pub(super) fn queued_tree(&self, queue: &Object, index: u64) -> Result<Option<BlockTreeEntry>> {
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
    pub(super) fn enqueue(
        &self,
        tx: &Tx,
        queue: &Arc<Object>,
        entry: &BlockTreeEntry,
    ) -> Result<()> {
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
