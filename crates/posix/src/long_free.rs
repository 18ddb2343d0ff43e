//! Freeing what is long, piece by piece: the contents of files without names, what a truncation cuts off, and holes.
//!
//! A piece is what one transaction frees, and what all transactions of a txg free is bounded as well
//! (`dmu::Reservation::freed_blocks`): neither time nor memory of a sync follow the length of a file. Pieces go from
//! the end to the beginning, and each leaves a whole, shorter file (or one with a shorter range to go): that is what a
//! crash between two of them leaves. A file without a name stays in the unlinked set until its last piece has gone with
//! its dnode; who is asked to remove it does not wait for that, if the mount has a thread for it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};

use base::ObjectId;
use base::lock::{LockClass, Mutex, rank};
use base::thread;
use dmu::{FreePiece, Object, Tx, tunables};
use format::sa::Attribute;

use crate::core::{Core, Plan};
use crate::tunables::{FREED_AT_ONCE, LONG_FREES_MAX};
use crate::znode::Znode;
use crate::{PosixError, Result, SetAttributes};

static LONG: LockClass = LockClass::new("posix.long_frees", rank::POSIX + 47);

/// Files without names that a thread frees, and whether there is one.
pub(crate) struct LongFrees {
    /// How the thread comes to the file system; none: whoever asks frees.
    core: OnceLock<Weak<Core>>,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Up to [`LONG_FREES_MAX`]; what is not here is in the unlinked set all the same.
    files: BTreeSet<ObjectId>,
    /// Some others are in the unlinked set alone.
    others: bool,
    running: bool,
}

/// What the thread does next.
enum Turn {
    Again,
    Over,
}

impl Default for LongFrees {
    fn default() -> Self {
        Self {
            core: OnceLock::new(),
            waiting: Mutex::new(&LONG, Waiting::default()),
        }
    }
}

/// What one transaction may free.
fn piece_blocks() -> u64 {
    tunables::FREE_BLOCKS_PIECE.get()
}

/// The end of a range of an object that one transaction frees.
fn last_piece(object: &Object, offset: u64, end: u64) -> FreePiece {
    object.last_free_piece(offset, end, piece_blocks())
}

impl Core {
    /// From now on a thread of its own frees what is long.
    pub(crate) fn free_in_background(self: &Arc<Self>) {
        let _first = self.long_frees.core.set(Arc::downgrade(self));
    }

    /// What freeing the file within the transaction that removes its name costs; none when it is too much for that.
    pub(crate) fn cost_at_once(&self, znode: &Znode) -> Option<u64> {
        let cost = znode.object.free_cost_blocks();
        (cost <= FREED_AT_ONCE.get().min(piece_blocks())).then_some(cost)
    }

    /// Whether freeing the file takes more than one transaction.
    pub(crate) fn is_long(&self, znode: &Znode) -> bool {
        last_piece(&znode.object, 0, u64::MAX).offset != 0
    }

    /// Frees the end of a file without a name until one transaction can free the rest, and says what that costs; none
    /// when somebody came to use the file.
    pub(crate) fn free_all_but_one(&self, znode: &Arc<Znode>) -> Result<Option<u64>> {
        loop {
            let piece = last_piece(&znode.object, 0, u64::MAX);
            if piece.offset == 0 {
                return Ok(Some(piece.cost_blocks));
            }
            if !self.free_piece(znode, piece)? {
                return Ok(None);
            }
        }
    }

    /// Frees the end of a file without a name; false when somebody came to use the file.
    fn free_piece(&self, znode: &Arc<Znode>, piece: FreePiece) -> Result<bool> {
        let tx = self.begin_piece(&znode.object, piece)?;
        let _data = znode.data.lock();
        let mut state = znode.state.write();
        if state.freed || !znode.is_doomed(&state) {
            return Ok(false);
        }
        if !state.is_directory() {
            state.size = state.size.min(piece.offset);
        }
        // The links as well: a directory of extended attributes is not to be read again.
        let attributes = [Attribute::Size, Attribute::Links];
        znode.store(&tx, &self.store, &mut state, &attributes)?;
        znode.object.free_range(&tx, piece.offset, u64::MAX)?;
        Ok(true)
    }

    /// A transaction that frees the end of an object from `piece` on. What can fail of that was read before it began.
    fn begin_piece(&self, object: &Arc<Object>, piece: FreePiece) -> Result<Tx> {
        object.prepare_free(piece.offset, u64::MAX)?;
        self.begin(Plan {
            objects: 1,
            net_free: true,
            freed_blocks: piece.cost_blocks,
            ..Plan::default()
        })
    }

    /// Frees the end of an object that nobody can come to use until one transaction can free the rest; what that costs.
    pub(crate) fn shorten(&self, object: &Arc<Object>) -> Result<u64> {
        loop {
            let piece = last_piece(object, 0, u64::MAX);
            if piece.offset == 0 {
                return Ok(piece.cost_blocks);
            }
            let tx = self.begin_piece(object, piece)?;
            object.free_range(&tx, piece.offset, u64::MAX)?;
        }
    }

    /// Cuts a file's end off until one transaction can cut the rest; what that costs. Each piece is a truncation of its
    /// own.
    pub(crate) fn cut_all_but_one(
        &self,
        znode: &Znode,
        size: u64,
        change: &SetAttributes,
    ) -> Result<u64> {
        loop {
            let piece = last_piece(&znode.object, size, u64::MAX);
            if piece.offset == size {
                return Ok(piece.cost_blocks);
            }
            let tx = self.begin_piece(&znode.object, piece)?;
            let _data = znode.data.lock();
            self.cut_piece(&tx, znode, piece.offset, change)?;
        }
    }

    /// The end of a range of a file that one transaction makes a hole.
    pub(crate) fn last_piece_of(&self, znode: &Znode, range: &Range<u64>) -> (Range<u64>, u64) {
        let piece = last_piece(&znode.object, range.start, range.end);
        (piece.offset..range.end, piece.cost_blocks)
    }

    /// Has a long file without a name freed by the thread; false: there is none.
    pub(crate) fn free_later(&self, object: ObjectId) -> bool {
        let Some(core) = self.long_frees.core.get() else {
            return false;
        };
        let mut waiting = self.long_frees.waiting.lock();
        if waiting.files.len() < LONG_FREES_MAX.count() {
            waiting.files.insert(object);
        } else {
            waiting.others = true;
        }
        if waiting.running {
            return true;
        }
        waiting.running = true;
        drop(waiting);
        let core = Weak::clone(core);
        let thread = thread::named("unlinked", sys::thread::BACKGROUND);
        if thread
            .spawn(move || while let Turn::Again = turn(&core) {})
            .is_err()
        {
            self.long_frees.waiting.lock().running = false;
            return false;
        }
        true
    }

    /// A file that waits, or nothing: then the thread has ended.
    fn next_waiting(&self) -> Option<ObjectId> {
        let mut waiting = self.long_frees.waiting.lock();
        let first = waiting.files.first().copied();
        if first.is_none() && !waiting.others {
            waiting.running = false;
        }
        first
    }

    fn forget_waiting(&self, object: ObjectId) {
        self.long_frees.waiting.lock().files.remove(&object);
    }

    /// One piece of one file. What cannot be freed now stays in the unlinked set.
    fn free_waiting(&self, object: ObjectId) {
        let done = match self.znode(object) {
            Ok(znode) => {
                let piece = last_piece(&znode.object, 0, u64::MAX);
                if piece.offset == 0 {
                    let _ = self.free_unlinked(&znode);
                    true
                } else {
                    !matches!(self.free_piece(&znode, piece), Ok(true))
                }
            }
            Err(_) => true,
        };
        if done {
            self.forget_waiting(object);
        }
    }

    /// What the thread frees when it knows of no file by number.
    fn free_others(&self) {
        self.long_frees.waiting.lock().others = false;
        let _ = self.drain_unlinked();
    }
}

/// One piece, with the file system in hand no longer than that takes: who wants to end it does not wait for a txg.
fn turn(core: &Weak<Core>) -> Turn {
    let Some(core) = core.upgrade() else {
        return Turn::Over;
    };
    let Ok(writing) = core.writing() else {
        *core.long_frees.waiting.lock() = Waiting::default();
        return Turn::Over;
    };
    let open = writing.engine.open_txg();
    if writing.engine.blocks_to_free(open) >= tunables::FREE_BLOCKS_TXG.get() {
        let engine = Arc::clone(&writing.engine);
        drop(core);
        // It ended: the next begin says so.
        let _ = engine.wait_open(Some(open.next()));
        return Turn::Again;
    }
    match core.next_waiting() {
        Some(object) => core.free_waiting(object),
        None if !core.long_frees.waiting.lock().running => return Turn::Over,
        None => core.free_others(),
    }
    Turn::Again
}

impl Core {
    /// Makes room for an object that a log says has this number: a file without a name may have it still.
    pub(crate) fn free_number(&self, object: ObjectId) -> Result<()> {
        if self.unlinked_set()?.lookup_int(object.0)?.is_none() {
            return Ok(());
        }
        match self.znode(object) {
            Ok(znode) => self.free_unlinked(&znode).map(|_freed| ()),
            Err(PosixError::Stale) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
