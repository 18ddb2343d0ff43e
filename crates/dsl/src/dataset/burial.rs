//! Where a head's sync puts the blocks that it drops and may not free at once: deadlists, the list of later frees, the
//! livelist, and the counts of bookmarks.
//!
//! Invariant: what waits in memory is bounded, however much a sync drops. Batches are written to their lists as they
//! fill up, by the thread that filled them.

use std::sync::{Arc, LazyLock};

use base::Txg;
use base::lock::{LockClass, Mutex, rank};
use base::metrics::{Counter, Gauge, Histogram, registry};
use dmu::Tx;
use format::BlockPointer;

use super::Dataset;
use crate::error::Result;
use crate::livelist;
use crate::sizes::Sizes;
use crate::tunables::KEPT_BLOCKS;

static KEPT: LockClass = LockClass::new("dsl.kept_blocks", rank::LAST + 2);
static OUTCOME: LockClass = LockClass::new("dsl.burial", rank::DSL + 9);

/// What can be watched here.
pub(super) struct Meters {
    /// Block pointers that wait to be written to their lists.
    kept: Arc<Gauge>,
    /// Blocks that were dropped and could not be put on their list: they leak.
    lost: Arc<Counter>,
    /// Blocks dropped by one sync of a head.
    pub(super) dropped: Arc<Histogram>,
}

/// The one set of meters.
pub(super) static METERS: LazyLock<Meters> = LazyLock::new(|| Meters {
    kept: registry().gauge("dsl.kept_blocks"),
    lost: registry().counter("dsl.dropped_blocks_lost"),
    dropped: registry().histogram("dsl.dropped_blocks"),
});

/// Why a block is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    /// Shared with the previous snapshot.
    Dead,
    /// Not shared, but freed later (gang, dedup, cloned).
    Later,
    /// Not shared with the previous snapshot, but with one that only a bookmark remembers.
    Bookmarked,
    /// For the livelist: born.
    Allocated,
    /// For the livelist: dropped.
    Freed,
}

const KINDS: [Kept; 5] = [
    Kept::Dead,
    Kept::Later,
    Kept::Bookmarked,
    Kept::Allocated,
    Kept::Freed,
];

/// The blocks of one sync of a head that are kept.
pub(super) struct Burial<'a> {
    head: &'a Arc<Dataset>,
    txg: Txg,
    /// Batches are written as they fill up. Not within a task, which may be undone: its own transaction writes all.
    streams: bool,
    kept: Mutex<[Vec<BlockPointer>; KINDS.len()]>,
    /// The first error; nothing is written after it.
    outcome: Mutex<Result<()>>,
}

impl<'a> Burial<'a> {
    pub(super) fn new(head: &'a Arc<Dataset>, tx: &Tx) -> Self {
        Self {
            head,
            txg: tx.txg(),
            streams: !tx.is_staged(),
            kept: Mutex::new(&KEPT, Default::default()),
            outcome: Mutex::new(&OUTCOME, Ok(())),
        }
    }

    /// Keeps a block. The caller holds no lock: a full batch is written.
    pub(super) fn keep(&self, kind: Kept, pointer: &BlockPointer) {
        let full = {
            let mut kept = self.kept.lock();
            let batch = &mut kept[kind as usize];
            batch.push(*pointer);
            (self.streams && batch.len() >= KEPT_BLOCKS.count()).then(|| std::mem::take(batch))
        };
        METERS.kept.add(1);
        if let Some(batch) = full {
            self.write(&Tx::syncing(self.txg), kind, &batch);
        }
    }

    /// Writes what is left.
    pub(super) fn finish(self, tx: &Tx) -> Result<()> {
        let rest = std::mem::take(&mut *self.kept.lock());
        for (kind, batch) in KINDS.into_iter().zip(&rest) {
            if !batch.is_empty() {
                self.write(tx, kind, batch);
            }
        }
        self.outcome.into_inner()
    }

    fn write(&self, tx: &Tx, kind: Kept, batch: &[BlockPointer]) {
        {
            let mut outcome = self.outcome.lock();
            if outcome.is_ok() {
                *outcome = self.head.put_down(tx, kind, batch);
            }
        }
        METERS
            .kept
            .add(-i64::try_from(batch.len()).unwrap_or(i64::MAX));
    }
}

impl Dataset {
    /// Writes kept blocks to their list, or does without where that is damaged.
    fn put_down(&self, tx: &Tx, kind: Kept, batch: &[BlockPointer]) -> Result<()> {
        let dsl = self.dsl();
        let _lists = dsl.lists.lock();
        match self.put_on_list(tx, kind, batch) {
            Err(error) if error.is_damage() => self.do_without(tx, kind, batch),
            done => done,
        }
    }

    fn put_on_list(&self, tx: &Tx, kind: Kept, batch: &[BlockPointer]) -> Result<()> {
        match kind {
            Kept::Dead => {
                self.deadlist()?.insert(tx, batch, false)?;
                self.bookmarks_saw_dead(tx, batch)
            }
            Kept::Later => self.dsl().free_later(tx, batch),
            Kept::Bookmarked => self.bookmarks_saw_dead(tx, batch),
            // One that was given up in this sync is gone.
            Kept::Allocated | Kept::Freed => match livelist::of(&self.directory())? {
                Some(list) => list.insert(tx, batch, kind == Kept::Freed),
                None => Ok(()),
            },
        }
    }

    /// What happens to blocks whose list is damaged. Those of a deadlist the snapshot still has, and they leak when it
    /// goes; counts of bookmarks are wrong from now on.
    fn do_without(&self, tx: &Tx, kind: Kept, batch: &[BlockPointer]) -> Result<()> {
        match kind {
            Kept::Dead => METERS.lost.add(batch.len() as u64),
            Kept::Bookmarked => {}
            Kept::Later => {
                METERS.lost.add(batch.len() as u64);
                let store = self.dsl().mos.store.as_ref();
                let sizes = batch.iter().map(|block| Sizes::of(store, block)).sum();
                self.dsl().charge_leak(tx, sizes)?;
            }
            Kept::Allocated | Kept::Freed => livelist::remove(&self.directory(), tx)?,
        }
        Ok(())
    }
}
